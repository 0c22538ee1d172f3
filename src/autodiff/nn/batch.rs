use burn::config::Config;
use burn::module::{Initializer, Module, Param, RunningState};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::autodiff::{SavesLess, batch_norm};

/// The configuration of a [`BatchNorm`], like `burn::nn::BatchNormConfig`.
#[derive(Config, Debug)]
pub struct BatchNormConfig {
    /// Channels.
    pub num_features: usize,
    /// Added to the variance.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// The fraction of the running moments that a batch replaces.
    #[config(default = 0.1)]
    pub momentum: f64,
}

/// Batch norm of `[batch, channels, ..]` ([`batch_norm`]), by the batch's moments on a backend with autodiff, and by
/// the running moments elsewhere.
#[derive(Module, Debug)]
pub struct BatchNorm<B: Backend> {
    /// Factors, one for each channel.
    pub gamma: Param<Tensor<B, 1>>,
    /// The biases, one for each channel.
    pub beta: Param<Tensor<B, 1>>,
    /// Mean of each channel so far.
    pub running_mean: RunningState<Tensor<B, 1>>,
    /// Variance of each channel so far.
    pub running_var: RunningState<Tensor<B, 1>>,
    /// The fraction of these that a batch replaces.
    pub momentum: f64,
    /// Added to the variance.
    pub epsilon: f64,
}

impl BatchNormConfig {
    /// A module with ones as gamma and running variance, and zeros as beta and running mean.
    pub fn init<B: Backend>(&self, device: &B::Device) -> BatchNorm<B> {
        let channels = [self.num_features];
        BatchNorm {
            gamma: Initializer::Ones.init(channels, device),
            beta: Initializer::Zeros.init(channels, device),
            running_mean: RunningState::new(Tensor::zeros(channels, device)),
            running_var: RunningState::new(Tensor::ones(channels, device)),
            momentum: self.momentum,
            epsilon: self.epsilon,
        }
    }
}

impl<B: SavesLess> BatchNorm<B> {
    /// # Panics
    /// As [`batch_norm`].
    pub fn forward<const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        let device = input.device();
        if !B::ad_enabled(&device) {
            return self.by_running_moments(input);
        }
        let (out, [mean, variance]) = batch_norm(input, self.gamma.val(), self.beta.val(), self.epsilon);
        for (running, moment) in [(&self.running_mean, mean), (&self.running_var, variance)] {
            let before = running.value_sync().to_device(&device);
            let after = before.mul_scalar(1.0 - self.momentum).add(moment.mul_scalar(self.momentum));
            running.update(after.detach());
        }
        out
    }

    fn by_running_moments<const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        let device = input.device();
        let mut shape = [1; D];
        shape[1] = input.dims()[1];
        let mean = self.running_mean.value().to_device(&device).reshape(shape);
        let variance = self.running_var.value().to_device(&device).reshape(shape);
        let normal = input.sub(mean).div(variance.add_scalar(self.epsilon).sqrt());
        normal.mul(self.gamma.val().reshape(shape)).add(self.beta.val().reshape(shape))
    }
}
