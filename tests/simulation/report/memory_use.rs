//! What a program holds at its peak: by module and reason.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, activation};
use burn_overcommit::report::{Category, Holding, MemoryUse};
use burn_overcommit::report::{Report, write_chrome, write_html, write_memory_viz_json};
use burn_overcommit::trace::Recording;
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, SimProfile, configure, module, name_modules, recording,
};

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

/// A model as Burn has them, which names nothing.
#[derive(Module, Debug)]
struct Perceptron<B: Backend> {
    layers: Vec<Linear<B>>,
}

const LAYERS: usize = 4;

/// A recording of some steps of Adam, with the names of modules.
fn named(device: &str, budget: Option<&str>) -> Recording {
    let profile = SimProfile::named(device).and_then(SimProfile::get).expect("a profile");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    let config = Config::new().record();
    configure(&device, budget.into_iter().fold(config, Config::budget)).unwrap();
    let layer = || LinearConfig::new(WIDTH, WIDTH).init::<B>(&device);
    let mut model = Perceptron::<B> { layers: (0..LAYERS).map(|_| layer()).collect() };
    let mut optimizer = AdamConfig::new().init();
    for _ in 0..6 {
        name_modules(&model);
        let x = Tensor::<B, 2>::ones([2 * WIDTH, WIDTH], &device);
        let y = model.layers.iter().fold(x, |x, layer| activation::gelu(layer.forward(x)));
        let gradients = GradientsParams::from_grads(y.sum().backward(), &model);
        model = optimizer.step(0.1, model, gradients);
    }
    recording(&device).unwrap()
}

#[test]
fn modules_of_a_model_that_names_none_are_known_by_its_parameters() {
    let holds = MemoryUse::of(&named("a100-40", None).program());
    for layer in 0..LAYERS {
        let module = format!("layers.{layer}");
        let of_layer = |held| {
            let groups = holds.groups.iter().filter(|group| group.module.as_ref() == Some(&module));
            groups.filter(|group| group.held == held).map(|group| group.bytes).sum::<usize>()
        };
        assert!(of_layer(Holding::State) >= 2 * MATRIX_BYTES, "{holds}");
    }
    let parameter_bytes = LAYERS * (MATRIX_BYTES + WIDTH * 4);
    assert_eq!(holds.bytes_of(Category::Parameter), parameter_bytes, "{holds}");
    assert_eq!(holds.bytes_of(Category::OptimizerState), 2 * parameter_bytes, "{holds}");
    assert!(holds.bytes_of(Category::Activation) >= 2 * MATRIX_BYTES, "{holds}");
    let words = holds.to_string();
    for wanted in ["layers.*", "of parameters", "of optimizer state", "  optimizer  ", "  parameter  "] {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
}

#[test]
fn modules_are_in_the_page_the_trace_and_the_snapshot() {
    let recording = named("a100-80", Some("3 MiB"));
    let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut text = Vec::new();
        write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let page = written(&|out| write_html(&Report::new(&recording, None), out));
    assert_eq!(
        page.matches("<td class=\"name\">layers.*</td>").count().min(2),
        2,
        "both tables have modules"
    );
    let trace = written(&|out| write_chrome(&recording, out));
    assert!(trace.contains("\"module\":\"layers.3\""));
    let snapshot = written(&|out| write_memory_viz_json(&recording, out));
    assert!(snapshot.contains("{\"name\":\"layers.3\",\"filename\":\"module\""));
    // The viewer fails on categories without the last.
    for category in ["parameter", "gradient", "optimizer_state", "activation", "unknown"] {
        assert!(snapshot.contains(&format!("\"category\":\"{category}\"")), "{category}");
    }
    let unnamed = written(&|out| write_memory_viz_json(&super::run::runs()[0], out));
    assert!(!unnamed.contains("category"));
}
