//! What a program holds at its peak: by module and reason.

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn_overcommit::report::{Holding, MemoryUse};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, SimProfile, configure, module, recording};

type B = Autodiff<Overcommit>;

const ITERATIONS: usize = 16;
const WIDTH: usize = 256;
const MATRIX_BYTES: usize = WIDTH * WIDTH * 4;

/// What a loop does besides training.
#[derive(Default)]
struct Habits {
    keeps_a_tensor: bool,
    /// A forward pass before each step that no backward pass follows.
    abandons_a_forward: bool,
}

fn forward(x: Tensor<B, 2>, weights: &[Tensor<B, 2>]) -> Tensor<B, 2> {
    let _network = module("network");
    let layers = weights.iter().enumerate();
    layers.fold(x, |x, (layer, weight)| {
        let _layer = module(&layer.to_string());
        x.matmul(weight.clone()).tanh()
    })
}

/// What is held on a device of the test's own.
fn trained(device: &str, habits: &Habits) -> MemoryUse {
    let device = OvercommitDevice::Sim(SimProfile::named(device).expect("a profile"));
    configure(&device, Config::new().record()).unwrap();
    let matrix = || Tensor::<B, 2>::ones([WIDTH, WIDTH], &device);
    let mut weights: Vec<_> = (0..6).map(|_| matrix().require_grad()).collect();
    let mut kept = Vec::new();
    for _ in 0..ITERATIONS {
        let evaluated = habits.abandons_a_forward.then(|| forward(matrix(), &weights).sum());
        let y = forward(matrix(), &weights);
        if habits.keeps_a_tensor {
            kept.push(y.clone().inner().exp());
        }
        let gradients = y.sum().backward();
        weights = weights
            .into_iter()
            .map(|weight| {
                let gradient = weight.grad(&gradients).expect("it is tracked");
                Tensor::from_inner(weight.inner() - gradient * 0.1).require_grad()
            })
            .collect();
        drop(evaluated);
    }
    let holds = MemoryUse::of(&recording(&device).unwrap().program());
    println!("{holds}");
    holds
}

#[test]
fn what_holds_memory_has_its_module_and_reason() {
    let holds = trained("k40c", &Habits::default());
    let ops = holds.iteration_ops.expect("it repeats");
    assert!((20..80).contains(&ops) && holds.iteration > 2, "{ops}");
    assert!(holds.bytes_held(Holding::State) >= 5 * MATRIX_BYTES, "the weights are held");
    assert!(holds.bytes_held(Holding::NeededAgain) >= 4 * MATRIX_BYTES, "so is what the backward pass reads");
    assert_eq!([Holding::Idle, Holding::Leaked].map(|held| holds.bytes_held(held)), [0, 0]);
    let all: usize = holds.groups.iter().map(|group| group.bytes).sum();
    assert!(all >= holds.peak_bytes && all <= holds.peak_bytes + MATRIX_BYTES, "{all}");
    for layer in 0..5 {
        let module = format!("network.{layer}");
        assert!(holds.groups.iter().any(|group| group.module.as_ref() == Some(&module)), "none of {module}");
    }
    let words = holds.to_string();
    assert!(words.contains("What would help") && words.contains("Half the batch"), "{words}");
    assert!(!words.contains("leaked") && !words.contains("idle"), "{words}");
}

#[test]
fn what_each_iteration_leaves_behind_is_leaked() {
    let holds = trained("titan-x", &Habits { keeps_a_tensor: true, ..Habits::default() });
    let leaked = holds.bytes_held(Holding::Leaked);
    assert!((10 * MATRIX_BYTES..=ITERATIONS * MATRIX_BYTES).contains(&leaked), "{leaked}");
    let words = holds.to_string();
    assert!(words.contains("into_scalar") && words.contains("of network.5"), "{words}");
}

#[test]
fn a_forward_pass_without_a_backward_pass_is_idle() {
    let holds = trained("v100", &Habits { abandons_a_forward: true, ..Habits::default() });
    let idle = holds.bytes_held(Holding::Idle);
    assert!(idle >= 4 * MATRIX_BYTES, "{idle}");
    assert_eq!(holds.bytes_held(Holding::Leaked), 0);
    assert!(holds.to_string().contains("Module::valid"), "{holds}");
}
