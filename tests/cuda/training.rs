//! Programs through Burn, on the CUDA engine, beside the host engine and under budgets.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::{Distribution, Tensor, activation, backend::Backend};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, Policy, configure, runtime, stats};
use burn_overcommit_standin::folder;
use serial_test::serial;

use crate::driver;
use support::labels;

type B = Autodiff<Overcommit>;
pub const DEVICE: OvercommitDevice = OvercommitDevice::Cuda(1);
/// Steps that [`train`] takes.
pub const STEPS: usize = 6;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    last: Linear<B>,
}

/// The losses of some steps.
pub fn train(device: &OvercommitDevice) -> Vec<f32> {
    runtime::seed(device, 7).expect("a device");
    B::seed(device, 7);
    let convolution = |from: usize| {
        Conv2dConfig::new([from, 8], [3, 3]).with_padding(burn::nn::PaddingConfig2d::Same).init(device)
    };
    let mut network = Network::<B> {
        convolutions: vec![convolution(1), convolution(8), convolution(8)],
        last: LinearConfig::new(8 * 64, 10).init(device),
    };
    let mut optimizer = SgdConfig::new().init();
    let images = Tensor::<B, 4>::random([16, 1, 8, 8], Distribution::Normal(0.0, 1.0), device);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let mut x = images.clone();
        for convolution in &network.convolutions {
            x = activation::relu(convolution.forward(x));
        }
        let loss = activation::log_softmax(network.last.forward(x.flatten::<2>(1, 3)), 1).mean().neg();
        losses.push(loss.clone().into_scalar());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.1, network, gradients);
    }
    losses
}

pub fn config() -> Config {
    Config::new().cuda_libraries(folder()).host_limit_bytes(64 << 20)
}

#[test]
#[serial]
fn training_is_the_host_engines_to_rounding() {
    let _driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let host = OvercommitDevice::Host(40);
    configure(&host, Config::new().budget("64 MiB")).unwrap();
    let (losses, expected) = (train(&DEVICE), train(&host));
    for (loss, expected) in losses.iter().zip(&expected) {
        assert!((loss - expected).abs() < 1e-4 * expected.abs(), "{losses:?}, on the host {expected:?}");
    }
    assert!(losses[3] < losses[0], "{losses:?}");
    assert_eq!(stats(&DEVICE).unwrap().fallbacks, [], "libraries did all that they are for");
}

#[test]
#[serial]
fn a_disk_gives_the_same_bits() {
    let _driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let expected = train(&DEVICE);
    let smallest_bytes = stats(&DEVICE).unwrap().smallest_budget_bytes;
    let disk = format!("{}:64MiB", std::env::temp_dir().display());
    for policy in [Policy::TensorCache, Policy::EvictAll] {
        let config =
            config().budget_bytes(smallest_bytes).host_limit_bytes(80 << 10).disk(&disk).policy(policy);
        configure(&DEVICE, config).unwrap();
        assert_eq!(train(&DEVICE), expected, "{policy}");
        let seen = stats(&DEVICE).unwrap();
        assert!(seen.counters.spilled_bytes > 0 && seen.counters.loaded_bytes > 0, "{policy}: {seen}");
    }
    configure(&DEVICE, config()).unwrap();
}

#[test]
#[serial]
fn memory_of_another_device_gives_the_same_bits() {
    let _driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let expected = train(&DEVICE);
    let smallest_bytes = stats(&DEVICE).unwrap().smallest_budget_bytes;
    for (policy, peers) in [
        (Policy::TensorCache, "2:64MiB@1TB/s"),
        (Policy::EvictAll, "2:64KiB,3:64MiB@1TB/s"),
        (Policy::EvictAll, "2:64MiB@1MB/s"),
    ] {
        let config = config().budget_bytes(smallest_bytes).host_limit_bytes(80 << 10).peers(peers);
        configure(&DEVICE, config.policy(policy)).unwrap();
        assert_eq!(train(&DEVICE), expected, "{policy}, {peers}");
        let seen = stats(&DEVICE).unwrap();
        assert!(seen.counters.to_peers_bytes > 0 && seen.counters.from_peers_bytes > 0, "{policy}: {seen}");
    }
    let error = configure(&DEVICE, config().peers("99:1MiB")).unwrap_err().to_string();
    assert!(error.contains("and no 99"), "{error}");
    configure(&DEVICE, config()).unwrap();
}

#[test]
#[serial]
fn budgets_give_the_same_bits() {
    let _driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let expected = train(&DEVICE);
    let needed_bytes = stats(&DEVICE).unwrap().peak_allocated_bytes;
    for policy in [Policy::Auto, Policy::EvictAll, Policy::Recompute] {
        for share in [2, 3] {
            // By page too: budgets of whole pages.
            let budget_bytes = (needed_bytes / share).max(300 << 10);
            configure(&DEVICE, config().budget_bytes(budget_bytes).policy(policy)).unwrap();
            assert_eq!(train(&DEVICE), expected, "{policy} in {budget_bytes} bytes");
            assert!(stats(&DEVICE).unwrap().peak_allocated_bytes <= budget_bytes);
        }
        configure(&DEVICE, config().budget("4 MiB").page_mapping(true).policy(policy)).unwrap();
        assert_eq!(train(&DEVICE), expected, "{policy} by page");
    }
}

#[test]
#[serial]
fn encodings_give_the_same_bits_also_where_sparse_forms_have_no_room() {
    let _driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let expected = train(&DEVICE);
    let gist = || config().budget("16 MiB").policy(Policy::GistLossless).planning(Planning::AtOnce);
    for config in [gist(), gist().sparsity([0.9])] {
        configure(&DEVICE, config).unwrap();
        assert_eq!(train(&DEVICE), expected);
        assert!(stats(&DEVICE).unwrap().counters.encodings > 0);
    }
}

#[test]
#[serial]
fn weights_that_were_updated_from_a_label_that_there_is_not_say_so() {
    let _driver = driver();
    for config in [config(), config().budget("8 KiB").policy(Policy::EvictAll)] {
        configure(&DEVICE, config).unwrap();
        labels::check(&DEVICE, 8, 3);
    }
}
