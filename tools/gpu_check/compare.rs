//! Whether the libraries are there and a few ops give what they do on the host engine, which is held against other backends elsewhere.

use anyhow::{Result, anyhow, ensure};
use burn::backend::Autodiff;
use burn::tensor::module::{conv2d, linear};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Tensor, TensorData};
use burn_overcommit::engine::cuda::found_libraries;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Variable, configure, stats};
use clap::Args;
use serde_json::json;

use crate::say;

type Training = Autodiff<Overcommit>;

#[derive(Args)]
pub struct Options {
    /// What is held against the host engine.
    #[arg(long, default_value = "cuda:0", value_parser = str::parse::<OvercommitDevice>)]
    device: OvercommitDevice,
}

/// Differences of a type that the order of sums explains, beside the largest magnitude.
const TOLERANCES: [(DType, f32); 3] = [(DType::F32, 1e-5), (DType::BF16, 2e-2), (DType::F64, 1e-6)];

pub fn run(options: &Options) -> Result<()> {
    let folders = std::env::var_os(Variable::CudaLibraries.name());
    let mut missing = Vec::new();
    for (library, found) in found_libraries(folders.as_ref().map(std::path::Path::new)) {
        match found {
            Ok(found) => {
                say(
                    json!({ "kind": "library", "library": library, "version": found.version, "file": found.file,
                    "missing": found.missing }),
                );
                missing.extend(found.missing.iter().map(|symbol| symbol.to_string()));
            }
            Err(reason) => {
                say(json!({ "kind": "library", "library": library, "not_found": reason }));
                missing.push(library.to_string());
            }
        }
    }
    ensure!(missing.is_empty(), "not there: {}", missing.join(", "));
    let host = OvercommitDevice::Host(0);
    configure(&options.device, Config::new())?;
    let mut different = Vec::new();
    for (dtype, tolerance) in TOLERANCES {
        for ((what, actual), (_, expected)) in
            answers(&options.device, dtype)?.iter().zip(answers(&host, dtype)?)
        {
            let error = error(actual, &expected)?;
            let is_good = error <= tolerance;
            say(
                json!({ "kind": "compare", "what": what, "dtype": dtype.name(), "error": error, "tolerance": tolerance,
                "is_good": is_good }),
            );
            if !is_good {
                different.push(format!("{what} of {}", dtype.name()));
            }
        }
    }
    let fallbacks = stats(&options.device)?.fallbacks;
    for fallback in &fallbacks {
        say(
            json!({ "kind": "fallback", "op": fallback.op, "reason": fallback.reason, "count": fallback.count }),
        );
    }
    ensure!(different.is_empty(), "not as on the host: {}", different.join(", "));
    ensure!(fallbacks.is_empty(), "{} kinds of ops were not computed by NVIDIA's libraries", fallbacks.len());
    Ok(())
}

/// The largest difference beside the largest magnitude.
fn error(actual: &TensorData, expected: &TensorData) -> Result<f32> {
    let floats = |data: &TensorData| data.to_vec::<f32>().map_err(|error| anyhow!("{error:?}"));
    let (actual, expected) = (floats(actual)?, floats(expected)?);
    ensure!(actual.len() == expected.len(), "{} elements, expected {}", actual.len(), expected.len());
    let difference = actual.iter().zip(&expected).map(|(a, b)| {
        let difference = (a - b).abs();
        if difference.is_nan() { f32::INFINITY } else { difference }
    });
    let magnitude = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    Ok(difference.fold(0.0, f32::max) / magnitude.max(f32::MIN_POSITIVE))
}

/// Numbers of both signs, another sequence for each seed.
fn floats<const D: usize>(
    shape: [usize; D],
    seed: u32,
    dtype: DType,
    device: &OvercommitDevice,
) -> Tensor<Training, D> {
    let count: usize = shape.iter().product();
    let value = |n: usize| {
        ((n as u32 + 1).wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let data = TensorData::new((0..count).map(value).collect(), shape);
    Tensor::<Training, D>::from_data(data, device).cast(dtype).require_grad()
}

/// Each op's result and gradients, as `f32`.
fn answers(device: &OvercommitDevice, dtype: DType) -> Result<Vec<(&'static str, TensorData)>> {
    fn data<const D: usize>(tensor: Tensor<Overcommit, D>) -> TensorData {
        tensor.cast(DType::F32).into_data()
    }
    /// The gradients of two operands, where the result's is the result.
    fn gradients<const D: usize, const A: usize, const B: usize>(
        out: &Tensor<Training, D>,
        (a, b): (&Tensor<Training, A>, &Tensor<Training, B>),
    ) -> Result<[TensorData; 2]> {
        let gradients = (out.clone() * out.clone().detach()).sum().backward();
        let none = || anyhow!("there is no gradient");
        Ok([data(a.grad(&gradients).ok_or_else(none)?), data(b.grad(&gradients).ok_or_else(none)?)])
    }
    let (a, b) = (floats([64, 96], 1, dtype, device), floats([96, 80], 2, dtype, device));
    let sum = a.clone() + floats([64, 96], 3, dtype, device);
    let product = a.clone().matmul(b.clone());
    let [product_a, product_b] = gradients(&product, (&a, &b))?;
    let with_bias = linear(a.clone(), b.clone(), Some(floats([80], 4, dtype, device)));
    let (image, weight) =
        (floats([4, 16, 14, 14], 5, dtype, device), floats([32, 16, 3, 3], 6, dtype, device));
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let convolved = conv2d(image.clone(), weight.clone(), Some(floats([32], 7, dtype, device)), options);
    let [of_image, of_weight] = gradients(&convolved, (&image, &weight))?;
    let [strided_image, strided_weight] = {
        let (image, weight) =
            (floats([4, 16, 14, 14], 8, dtype, device), floats([32, 16, 1, 1], 9, dtype, device));
        let options = ConvOptions::new([2, 2], [0, 0], [1, 1], 1);
        gradients(&conv2d(image.clone(), weight.clone(), None, options), (&image, &weight))?
    };
    let (grouped_image, grouped_weight) =
        (floats([4, 16, 14, 14], 10, dtype, device), floats([32, 4, 3, 3], 11, dtype, device));
    let grouped = conv2d(grouped_image, grouped_weight, None, ConvOptions::new([1, 1], [1, 1], [1, 1], 4));
    Ok(vec![
        ("input gradient of a 1x1 convolution with stride 2", strided_image),
        ("weight gradient of a 1x1 convolution with stride 2", strided_weight),
        ("convolution in groups", data(grouped.inner())),
        ("sum", data(sum.inner())),
        ("product", data(product.inner())),
        ("product's first gradient", product_a),
        ("product's second gradient", product_b),
        ("linear with bias", data(with_bias.inner())),
        ("convolution", data(convolved.inner())),
        ("convolution's input gradient", of_image),
        ("convolution's weight gradient", of_weight),
    ])
}
