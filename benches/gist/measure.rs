//! A training step on the simulation: memory between its passes, at its fullest, and its time.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::{
    Config, FloatFormat, OvercommitDevice, Policy, Profile, SimProfile, configure, recording, reset_stats,
    stats,
};
use burn_overcommit_networks::{Input, Sample, SampleInput, Spec, by_name};

use crate::Training;
use crate::footprint::{Footprint, footprint};
use crate::sparsity;

/// Memory that no network here fills.
const BOUNDLESS_BYTES: usize = 1 << 50;
/// Steps until a plan is followed from beginning to end; the last is measured.
const STEPS: usize = 6;

/// Of one step.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What the forward pass leaves in device memory.
    pub stash_bytes: usize,
    /// The most in use at once, less what the step begins with.
    pub peak_bytes: usize,
    /// As the paper counts it.
    pub footprint: Footprint,
    pub step_ns: u64,
}

/// Trains a network by SGD with momentum, with all the memory it asks for.
pub fn measure(network: &str, batch: usize, device: &str, policy: Policy, format: FloatFormat) -> Measured {
    let spec = by_name(network).unwrap_or_else(|| panic!("there is no network {network}"));
    let profile = SimProfile::named(device).and_then(SimProfile::get);
    let mut profile: Profile = profile.unwrap_or_else(|| panic!("there is no device {device}"));
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
    let device = &OvercommitDevice::Sim(SimProfile::add(profile));
    let limit_bytes = BOUNDLESS_BYTES / 4;
    let config = Config::new().policy(policy).gist_format(format).budget_bytes(limit_bytes);
    let config = config.sparsity(sparsity::measured(network)).record();
    configure(device, config.host_limit_bytes(BOUNDLESS_BYTES / 2)).expect("a valid configuration");
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
    let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
    let mut network = spec.network::<Training>(device);
    let mut weights = WeightSizes::default();
    network.visit(&mut weights);
    let allocated_bytes = || stats(device).expect("a device in use").allocated_bytes;
    let end_ns = || {
        Training::sync(device).expect("a simulation");
        stats(device).expect("a device in use").times.expect("a simulation has a clock").end_ns
    };
    let mut measured = None;
    for _ in 0..STEPS {
        let (sample, batch_bytes) = uploaded(&spec, batch, device);
        let begin_ns = end_ns();
        reset_stats(device).expect("a device in use");
        let begin_bytes = allocated_bytes();
        recording(device).expect("a recorded device");
        let loss = network.loss(sample);
        let stash_bytes = allocated_bytes() - begin_bytes;
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let recorded = recording(device).expect("a recorded device");
        let footprint = footprint(&recorded.events, &weights.0, batch_bytes);
        network = optimizer.step(0.01, network, gradients);
        let step_ns = end_ns() - begin_ns;
        let peak_bytes = stats(device).expect("a device in use").peak_allocated_bytes - begin_bytes;
        measured = Some(Measured { stash_bytes, peak_bytes, footprint, step_ns });
    }
    measured.expect("there are steps")
}

/// Bytes of weights.
#[derive(Default)]
struct WeightSizes(HashSet<usize>);

impl ModuleVisitor<Training> for WeightSizes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Training, D>>) {
        self.0.insert(param.val().shape().num_elements() * size_of::<f32>());
    }
}

/// A batch that the program gives, and its size: one that the device draws could be drawn again.
fn uploaded(spec: &Spec, batch: usize, device: &OvercommitDevice) -> (Sample<Training>, usize) {
    let Input::Image { channels, side } = spec.input else { panic!("{} reads no images", spec.name) };
    let zeros = TensorData::zeros::<f32, _>([batch, channels, side, side]);
    let bytes = zeros.bytes.len();
    let input = SampleInput::Images(Tensor::from_data(zeros, device));
    (Sample { input, ..spec.sample(batch, device) }, bytes)
}
