//! The modules beside Burn's.

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn;
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData, Tolerance};
use burn_overcommit::autodiff::nn as ours;
use burn_overcommit::{Overcommit, OvercommitDevice};

use super::gradients::numbers;

type B = Autodiff<Overcommit>;

fn tensor<const D: usize>(sizes: [usize; D], device: &OvercommitDevice) -> Tensor<B, D> {
    let count = sizes.iter().product();
    Tensor::from_data(TensorData::new(numbers(count, 3), sizes), device)
}

/// One module's values in the other, by its record.
fn carried<From: Module<B>, To: Module<B>>(from: From, to: To, device: &OvercommitDevice) -> To {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let bytes = Recorder::<B>::record(&recorder, from.into_record(), ()).unwrap();
    to.load_record(Recorder::<B>::load(&recorder, bytes, device).unwrap())
}

#[track_caller]
fn assert_near<A: Backend, C: Backend, const D: usize>(found: Tensor<A, D>, expected: Tensor<C, D>) {
    found.into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::absolute(2e-5));
}

#[test]
fn norms_are_burns() {
    let device = OvercommitDevice::Host(440);
    let x = || tensor([3, 5, 8], &device) * 2.0;
    let norm = nn::LayerNormConfig::new(8).with_epsilon(1e-2).init::<B>(&device);
    let same = carried(norm.clone(), ours::LayerNormConfig::new(8).with_epsilon(1e-2).init(&device), &device);
    assert_near(same.forward(x()), norm.forward(x()));
    assert_near(same.valid().forward(x().inner()), norm.valid().forward(x().inner()));
    let norm = nn::RmsNormConfig::new(8).init::<B>(&device);
    let same = carried(norm.clone(), ours::RmsNormConfig::new(8).init(&device), &device);
    assert_near(same.forward(x()), norm.forward(x()));
    assert!(ours::LayerNormConfig::new(8).with_bias(false).init::<B>(&device).beta.is_none());
}

#[test]
fn batch_norm_is_burns_and_learns_its_moments() {
    let device = OvercommitDevice::Host(441);
    let x = || tensor([6, 4, 5], &device) * 3.0 + 1.0;
    let norm = nn::BatchNormConfig::new(4).init::<B>(&device);
    let same = carried(norm.clone(), ours::BatchNormConfig::new(4).init(&device), &device);
    for _ in 0..3 {
        assert_near(same.forward(x()), norm.forward(x()));
    }
    assert_near(same.running_mean.value_sync(), norm.running_mean.value_sync());
    assert_near(same.running_var.value_sync(), norm.running_var.value_sync());
    assert_near(same.valid().forward(x().inner()), norm.valid().forward(x().inner()));
}

/// From the same seed the same weights, random numbers and results, in training and after it.
#[test]
fn attention_is_burns() {
    let device = OvercommitDevice::Host(442);
    let x = || tensor([2, 5, 8], &device);
    let pad = || tensor([2, 5], &device).greater_elem(0.7);
    let each = || tensor([2, 5, 5], &device).greater_elem(0.8);
    for quiet in [false, true] {
        B::seed(&device, 1);
        let config = nn::attention::MultiHeadAttentionConfig::new(8, 2).with_quiet_softmax(quiet);
        let burns = config.init::<B>(&device);
        B::seed(&device, 1);
        let config = ours::MultiHeadAttentionConfig::new(8, 2).with_quiet_softmax(quiet);
        let same = config.init::<B>(&device);
        for masked in [false, true] {
            let mut input = nn::attention::MhaInput::self_attn(x());
            let mut same_input = ours::MhaInput::self_attn(x());
            if masked {
                input = input.mask_pad(pad()).mask_attn(each());
                same_input = same_input.mask_pad(pad()).mask_attn(each());
            }
            B::seed(&device, 2);
            let expected = burns.forward(input).context;
            B::seed(&device, 2);
            assert_near(same.forward(same_input).context, expected);
        }
        let expected = burns.valid().forward(nn::attention::MhaInput::self_attn(x().inner())).context;
        assert_near(same.valid().forward(ours::MhaInput::self_attn(x().inner())).context, expected);
        let loaded = carried(burns.clone(), config.init::<B>(&device), &device);
        let expected = burns.valid().forward(nn::attention::MhaInput::self_attn(x().inner())).context;
        assert_near(loaded.valid().forward(ours::MhaInput::self_attn(x().inner())).context, expected);
    }
}

#[test]
fn dropout_is_burns_bit_for_bit() {
    let device = OvercommitDevice::Host(443);
    let x = || tensor([50, 40], &device);
    B::seed(&device, 4);
    let expected = nn::DropoutConfig::new(0.3).init().forward(x()).into_data();
    B::seed(&device, 4);
    let dropout = ours::DropoutConfig::new(0.3).init();
    assert_eq!(dropout.forward(x()).into_data(), expected);
    assert_eq!(dropout.forward(x().inner()).into_data(), x().into_data());
}
