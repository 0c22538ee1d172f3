//! Checkpointed scopes: each block says that what it makes on its way may be dropped. While memory suffices nothing happens. Where
//! it is short, these tensors go first and are recomputed to the same bits, and none of them is copied to the host.
//!
//! The sequences here are never of the same length, so that no iteration repeats and no plan can be made. Without scopes the policy
//! weighs the cost of each tensor, and copies those that would take long to recompute: it recomputes less, and fetches more. So
//! scopes are for a slow link to the host, or for host memory that others need; elsewhere the policy does better without.
//!
//! `cargo run --release --example checkpoint_scope`

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Distribution, Tensor};
use burn_overcommit::autodiff::{SavesLess, checkpoint};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::{print_table, weights_bits, within};
use indicatif::ProgressBar;

const WIDTH: usize = 64;
const BLOCKS: usize = 24;
const STEPS: usize = 6;
const BATCH: usize = 2;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    blocks: Vec<TransformerEncoder<B>>,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        let block = || TransformerEncoderConfig::new(WIDTH, 4 * WIDTH, 4, 1).with_dropout(0.0).init(device);
        Network { blocks: (0..BLOCKS).map(|_| block()).collect() }
    }

    fn forward(&self, x: Tensor<B, 3>, scoped: bool) -> Tensor<B, 3>
    where
        B: SavesLess,
    {
        self.blocks.iter().fold(x, |x, block| {
            let forward = |x| block.forward(TransformerEncoderInput::new(x));
            if scoped { checkpoint(forward, x) } else { forward(x) }
        })
    }
}

/// Learns to repeat its input, and returns the bits of the weights.
fn train<B: AutodiffBackend + SavesLess>(device: &B::Device, scoped: bool) -> Vec<u32> {
    B::seed(device, 1);
    let mut network = Network::<B>::new(device);
    let mut optimizer = SgdConfig::new().init();
    let progress = ProgressBar::new(STEPS as u64);
    for step in 0..STEPS {
        let shape = [BATCH, 96 + 16 * step, WIDTH];
        let x = Tensor::<B, 3>::random(shape, Distribution::Default, device);
        let loss = (network.forward(x.clone(), scoped) - x).square().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.01, network, gradients);
        progress.inc(1);
    }
    progress.finish_and_clear();
    weights_bits(&network)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let train = |scoped: bool| train::<Autodiff<Overcommit>>(&device, scoped);
    let (expected, unlimited) = within("all memory", &device, None, || train(false))?;
    let budget_bytes = Some(unlimited.peak_bytes() / 5);
    let (plain, without) = within("a fifth", &device, budget_bytes, || train(false))?;
    let (scoped, with) = within("a fifth, with scopes", &device, budget_bytes, || train(true))?;
    assert!(plain == expected && scoped == expected, "the same bits");
    print_table(&[unlimited, without, with]);
    Ok(())
}
