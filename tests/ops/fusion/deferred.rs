//! The gradient of a convolution's input waits for the gradients beside it.

use burn_overcommit::op::{Binary, Conv, Dtype, Op, Reduce, Shape, Unary, View};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, stats};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{device, fusing, recorded_ops, upload};

/// What a convolution reads, and a gradient of its output.
struct Convolved {
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
}

/// So many that a workspace for one is small beside them.
const IMAGES: usize = 64;
const IMAGE_BYTES: usize = IMAGES * 4 * 32 * 32 * size_of::<f32>();
const CONV: Conv = Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 };

impl Convolved {
    fn new(device: &OvercommitDevice) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        let mut upload = |sizes: [usize; 5]| upload(device, Dtype::F32, Shape::new(&sizes), random);
        let image = [IMAGES, 4, 1, 32, 32];
        Convolved { x: upload(image), weight: upload([4, 4, 1, 3, 3]), gradient: upload(image) }
    }

    /// The gradients of input, weights and bias, asked for in this order as Burn does.
    fn gradients(self) -> [Tensor; 3] {
        let Convolved { x, weight, gradient } = self;
        let run = |op, inputs: Vec<Tensor>| runtime::run(op, inputs).unwrap();
        let of_x = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
        let of_x = run(of_x, vec![weight, gradient.clone()]);
        let of_weight = Op::ConvBackwardWeight { conv: CONV, kernel: [1, 3, 3] };
        let of_weight = run(of_weight, vec![x, gradient.clone()]);
        let flat = View::contiguous(Dtype::F32, Shape::new(&[IMAGES, 4, 32 * 32])).layout;
        let sum = |x, axis| run(Op::Reduce { kind: Reduce::Sum, axis }, vec![x]);
        [of_x, of_weight, sum(sum(gradient.with_layout(flat), 2), 0)]
    }
}

#[test]
fn the_gradient_of_an_input_waits_for_those_beside_it() {
    let in_order = ["conv_backward_input", "conv_backward_weight", "sum", "sum"];
    let runs = [false, true].map(|fusion| {
        let device = device(Config::new().fusion(fusion).record());
        let gradients = Convolved::new(&device).gradients().map(|made| runtime::read(made).unwrap());
        (recorded_ops(&device), gradients, stats(&device).unwrap().peak_allocated_bytes)
    });
    let [(plain, expected, plain_peak_bytes), (waiting, gradients, peak_bytes)] = runs;
    assert_eq!(plain, in_order);
    assert_eq!(waiting, [&in_order[1..], &in_order[..1]].concat());
    assert_eq!(gradients, expected);
    // The input and its gradient are not there together.
    assert!(peak_bytes + IMAGE_BYTES / 2 <= plain_peak_bytes, "{peak_bytes} {plain_peak_bytes}");
}

#[test]
fn what_waits_for_others_is_made_once_it_is_read_and_not_if_it_never_is() {
    let device = device(fusing().record());
    let Convolved { x, weight, gradient } = Convolved::new(&device);
    let of_x = |weight: &Tensor, gradient: &Tensor| {
        let op = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
        runtime::run(op, [weight.clone(), gradient.clone()]).unwrap()
    };
    drop(of_x(&weight, &gradient));
    let again = of_x(&weight, &gradient);
    let sum = runtime::run(Op::Binary(Binary::Add), [again, x]).unwrap();
    runtime::read(sum).unwrap();
    assert_eq!(recorded_ops(&device), ["conv_backward_input", "add"]);
    // Another thread's op finds it too.
    let made = of_x(&weight, &gradient);
    let negate = || runtime::run(Op::Unary(Unary::Neg), [made]).unwrap();
    let negative = std::thread::scope(|scope| scope.spawn(negate).join().unwrap());
    runtime::read(negative).unwrap();
    assert_eq!(recorded_ops(&device), ["conv_backward_input", "neg"]);
}

#[test]
fn what_waits_for_others_and_cannot_fit_is_refused_at_once() {
    let device = device(fusing().budget_bytes(IMAGE_BYTES + IMAGE_BYTES / 2));
    let Convolved { weight, gradient, .. } = Convolved::new(&device);
    let op = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
    let error = runtime::run(op, [weight, gradient]).expect_err("two images are needed").to_string();
    assert!(error.contains("conv_backward_input"), "{error}");
}
