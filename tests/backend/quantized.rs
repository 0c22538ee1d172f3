//! Quantized tensors against burn-flex's.

use crate::support::{Ours, Reference, floats};
use burn::tensor::backend::Backend;
use burn::tensor::quantization::{QuantLevel, QuantScheme, QuantStore, QuantValue};
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::OvercommitDevice;

fn schemes() -> Vec<QuantScheme> {
    // Not those with one more value below zero: the largest number is halfway between two of them.
    let values = [QuantValue::Q8S, QuantValue::Q4S, QuantValue::Q2S];
    let levels = [QuantLevel::Tensor, QuantLevel::block([4]), QuantLevel::block([2, 8])];
    let scheme = |value, level| {
        QuantScheme::default().with_value(value).with_level(level).with_store(QuantStore::Native)
    };
    values.iter().flat_map(|&value| levels.map(|level| scheme(value, level))).collect()
}

/// The integers, and what they mean after some were moved.
fn answers<B: Backend>(device: &B::Device, scheme: &QuantScheme) -> Vec<TensorData> {
    let x = floats::<B, 2>([8, 16], device).mul_scalar(3.0);
    let quantized = x.quantize_dynamic(scheme);
    let restored: Tensor<B, 2> = Tensor::from_data(quantized.clone().into_data(), device);
    vec![
        quantized.clone().dequantize().into_data(),
        restored.dequantize().into_data(),
        quantized.clone().reshape([4, 32]).dequantize().into_data(),
        quantized.clone().transpose().dequantize().into_data(),
        quantized.clone().flip([0]).dequantize().into_data(),
        quantized.slice([2..6, 0..16]).dequantize().into_data(),
    ]
}

#[test]
fn quantized_tensors_hold_what_burn_flex_says() {
    for scheme in schemes() {
        let ours = answers::<Ours>(&OvercommitDevice::Host(0), &scheme);
        let reference = answers::<Reference>(&Default::default(), &scheme);
        for (which, (ours, reference)) in ours.iter().zip(&reference).enumerate() {
            assert_eq!(ours.shape, reference.shape, "{scheme:?}, answer {which}");
            for (a, b) in ours.iter::<f64>().zip(reference.iter::<f64>()) {
                assert!((a - b).abs() < 1e-5, "{scheme:?}, answer {which}: {a} is not {b}");
            }
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    let device = OvercommitDevice::Host(0);
    let x = Tensor::<Ours, 1>::zeros([8], &device).quantize_dynamic(&schemes()[0]);
    assert_eq!(x.dequantize().into_data().to_vec::<f32>().expect("floats"), [0.0; 8]);
}

#[test]
#[should_panic(expected = "quantized values of E4M3 are not supported")]
fn small_floats_are_refused() {
    let scheme = QuantScheme::default().with_value(QuantValue::E4M3).with_store(QuantStore::Native);
    let _ = floats::<Ours, 1>([8], &OvercommitDevice::Host(0)).quantize_dynamic(&scheme);
}
