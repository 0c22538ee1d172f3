//! Reductions of rows on the way of a program, on a simulated GPU: what Burn decomposes is one op again.

use burn::backend::Autodiff;
use burn::nn::{LayerNormConfig, RmsNormConfig};
use burn::tensor::{Distribution, Tensor as BurnTensor, activation};
use burn_overcommit::{Overcommit, SimProfile};

use super::*;

type B = Autodiff<Overcommit>;

/// The ops that read or make a tensor as large as the input, by name: of a function that is read, and of its gradient.
fn passes(
    device: &OvercommitDevice,
    apply: impl Fn(BurnTensor<B, 3>) -> BurnTensor<B, 3>,
) -> [Vec<String>; 2] {
    let tensor = |shape: [usize; 3]| BurnTensor::<B, 3>::random(shape, Distribution::Default, device);
    let (x, weights) = (tensor([4, 64, 1024]).require_grad(), tensor([4, 1024, 8]));
    let large = (x.shape().num_elements() * size_of::<f32>()) as u64;
    runtime::note(device, "forward").unwrap();
    // A product is no step, and so reads what is stored.
    let made = apply(x.clone() * 0.5).matmul(weights);
    runtime::note(device, "backward").unwrap();
    let gradients = made.sum().backward();
    drop(x.grad(&gradients).expect("it has one").into_data());
    let events = runtime::recording(device).unwrap().program().events;
    let mut parts: Vec<Vec<String>> = Vec::new();
    for event in events {
        match event {
            Event::Note(_) => parts.push(Vec::new()),
            Event::Op(op)
                if op.name != "matmul" && op.work.read_bytes.max(op.work.written_bytes) >= large =>
            {
                parts.iter_mut().last().into_iter().for_each(|part| part.push(op.name.to_string()));
            }
            _ => {}
        }
    }
    let backward = parts.pop().expect("a note each");
    [parts.pop().expect("a note each"), backward]
}

#[test]
fn what_burn_decomposes_along_rows_is_an_op() {
    let device = OvercommitDevice::Sim(SimProfile::named("h200").expect("it is in the table"));
    configure(&device, fusing().record()).unwrap();
    let (layer, rms) = (LayerNormConfig::new(1024).init(&device), RmsNormConfig::new(1024).init(&device));
    // The sums of weights' gradients go along the other dimensions.
    let sums = ["sum", "fused_sum"];
    for (name, [forward, backward], of_weights) in [
        ("softmax", passes(&device, |x| activation::softmax(x, 2)), &sums[..0]),
        ("log-softmax", passes(&device, |x| activation::log_softmax(x, 2)), &sums[..0]),
        ("layer norm", passes(&device, |x| layer.forward(x)), &sums[..]),
        ("RMS norm", passes(&device, |x| rms.forward(x)), &sums[1..]),
    ] {
        assert_eq!(forward.len(), 1, "{name}: {forward:?}");
        assert_eq!(backward, [of_weights, &["fused_add"]].concat(), "{name}");
    }
}
