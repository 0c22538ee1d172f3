//! Branches side by side, as Inception networks have them: GoogLeNet and Inception-v4 are sequences of these.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::layers::{Chain, Extent, LayerConfig};

/// One branch as data: layers in sequence, and layers that each read the last one's output, if any.
#[derive(Clone, Debug)]
pub(crate) struct BranchConfig {
    trunk: Vec<LayerConfig>,
    ends: Vec<LayerConfig>,
}

/// A branch of layers in sequence.
pub(crate) fn branch(trunk: impl Into<Vec<LayerConfig>>) -> BranchConfig {
    BranchConfig { trunk: trunk.into(), ends: Vec::new() }
}

impl BranchConfig {
    /// The branch that ends in several layers side by side.
    pub(crate) fn split(self, ends: impl Into<Vec<LayerConfig>>) -> Self {
        BranchConfig { ends: ends.into(), ..self }
    }
}

#[derive(Module, Debug)]
struct Branch<B: Backend> {
    trunk: Chain<B>,
    ends: Vec<Chain<B>>,
}

/// Branches over one input, their outputs concatenated by channel. A single branch is a chain and nothing else.
#[derive(Module, Debug)]
pub(crate) struct Mixed<B: Backend> {
    branches: Vec<Branch<B>>,
}

impl<B: Backend> Mixed<B> {
    /// The branches, and the extent of what they make of `input`.
    pub(crate) fn new(input: Extent, branches: &[BranchConfig], device: &B::Device) -> (Self, Extent) {
        let mut outputs = Vec::new();
        let init = |config: &BranchConfig| {
            let (trunk, extent) = Chain::new(input, &config.trunk, device);
            if config.ends.is_empty() {
                outputs.push(extent);
            }
            let end = |layer: &LayerConfig| {
                let (end, extent) = Chain::new(extent, std::slice::from_ref(layer), device);
                outputs.push(extent);
                end
            };
            Branch { trunk, ends: config.ends.iter().map(end).collect() }
        };
        let branches = branches.iter().map(init).collect();
        let channels = outputs.iter().map(|output| output.channels).sum();
        let side = outputs.first().expect("there is a branch").side;
        (Mixed { branches }, Extent { channels, side })
    }

    /// The modules one after another, and the extent of what the last one makes.
    pub(crate) fn sequence(
        input: Extent,
        modules: &[Vec<BranchConfig>],
        device: &B::Device,
    ) -> (Vec<Self>, Extent) {
        let mut extent = input;
        let init = |branches: &Vec<BranchConfig>| {
            let (module, output) = Mixed::new(extent, branches, device);
            extent = output;
            module
        };
        let modules = modules.iter().map(init).collect();
        (modules, extent)
    }

    /// From `[batch, channels, side, side]` to the same of the module's extent.
    pub(crate) fn forward(&self, input: Tensor<B, 4>) -> Tensor<B, 4> {
        let mut outputs = Vec::new();
        for branch in &self.branches {
            let trunk = branch.trunk.forward(input.clone());
            match branch.ends.is_empty() {
                true => outputs.push(trunk),
                false => outputs.extend(branch.ends.iter().map(|end| end.forward(trunk.clone()))),
            }
        }
        match outputs.len() {
            1 => outputs.remove(0),
            _ => Tensor::cat(outputs, 1),
        }
    }
}
