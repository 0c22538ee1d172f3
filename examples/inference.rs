//! A saved network whose weights take three times the budget: they wait on the host, and each comes back before its layer. Nothing
//! is trained, and what was loaded cannot be recomputed, so weights are all that moves.
//!
//! `cargo run --release --example inference`

use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::{print_table, within};
use indicatif::ProgressBar;

type Bytes = BinBytesRecorder<FullPrecisionSettings>;

const WIDTH: usize = 768;
const LAYERS: usize = 24;
const BATCHES: usize = 12;
const BATCH: usize = 128;

#[derive(Module, Debug)]
struct Layer<B: Backend> {
    norm: LayerNorm<B>,
    inner: Linear<B>,
    outer: Linear<B>,
}

impl<B: Backend> Layer<B> {
    fn new(device: &B::Device) -> Self {
        Layer {
            norm: LayerNormConfig::new(WIDTH).init(device),
            inner: LinearConfig::new(WIDTH, 2 * WIDTH).init(device),
            outer: LinearConfig::new(2 * WIDTH, WIDTH).init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let inner = activation::gelu(self.inner.forward(self.norm.forward(x.clone())));
        x + self.outer.forward(inner)
    }
}

/// A network with random weights, as it would be saved.
fn saved<B: Backend>(device: &B::Device) -> Vec<u8> {
    B::seed(device, 1);
    let layers: Vec<Layer<B>> = (0..LAYERS).map(|_| Layer::new(device)).collect();
    Bytes::default().record(layers.into_record(), ()).expect("it fits memory")
}

/// What a saved network says of some batches.
fn infer<B: Backend>(saved: &[u8], device: &B::Device) -> Vec<Vec<f32>> {
    B::seed(device, 2);
    let record = Bytes::default().load(saved.to_vec(), device).expect("it was saved above");
    let layers: Vec<Layer<B>> = (0..LAYERS).map(|_| Layer::new(device)).collect();
    let layers = layers.load_record(record);
    let progress = ProgressBar::new(BATCHES as u64);
    let outputs = (0..BATCHES).map(|_| {
        let x = Tensor::<B, 2>::random([BATCH, WIDTH], Distribution::Default, device);
        let y = layers.iter().fold(x, |x, layer| layer.forward(x));
        progress.inc(1);
        y.mean_dim(1).into_data().to_vec().expect("f32")
    });
    let outputs = outputs.collect();
    progress.finish_and_clear();
    outputs
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let saved = saved::<Overcommit>(&device);
    let infer = || infer::<Overcommit>(&saved, &device);
    let (expected, unlimited) = within("all memory", &device, None, infer)?;
    let (streamed, third) = within("a third of the weights", &device, Some(saved.len() / 3), infer)?;
    assert!(streamed == expected, "the same bits");
    print_table(&[unlimited, third]);
    Ok(())
}
