//! How sparse the networks' values are after some training: measured on the host engine, at a reduced size of images, and kept in
//! `sparsity.txt`, which the simulation goes by.

use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::runtime::paper_figures::sparsity;
use burn_overcommit::{Config, OvercommitDevice, Planning, configure};
use burn_overcommit_networks::{Input, Sample, SampleInput, Spec, by_name};

use crate::Training;

/// What was measured: a network a line, and the parts that are zeros.
const MEASURED: &str = include_str!("sparsity.txt");
/// Handwritten digits: `data/README.md` has the format.
static DIGITS: &[u8] = include_bytes!("../../data/optdigits.bin");
/// Pixels along each side of a digit, and the most ink of one.
const DIGIT_SIDE: usize = 8;
const MOST_INK: f32 = 16.0;
const RECORD_BYTES: usize = DIGIT_SIDE * DIGIT_SIDE + 1;

const STEPS: usize = 100;
const BATCH: usize = 16;
const RATE: f64 = 0.01;

/// The parts that are zeros of what rectifiers and max-pools make, in their order, as they were measured.
pub fn measured(network: &str) -> Vec<f64> {
    let line = MEASURED.lines().find_map(|line| line.strip_prefix(network)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("{network} was not measured"));
    line.split_whitespace().map(|part| part.parse().expect("a number")).collect()
}

/// Trains a network on digits and says how sparse its values are then.
pub fn measure(network: &str, side: usize) -> Vec<f64> {
    let device = &OvercommitDevice::Host(1);
    configure(device, Config::new().planning(Planning::Off)).expect("an idle device");
    let spec = by_name(network).unwrap_or_else(|| panic!("there is no network {network}"));
    let spec = spec.with_side(side).with_classes(10);
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
    let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
    let mut network = spec.network::<Training>(device);
    for step in 0.. {
        let loss = network.loss(digits(&spec, step, device));
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        if step % 10 == 0 {
            println!("  step {step}: loss {:.3}", loss.into_scalar());
        }
        network = optimizer.step(RATE, network, gradients);
        // Counts from the first call on, until two steps alike are known.
        if step >= STEPS
            && let Some(parts) = sparsity(device).expect("a device in use")
        {
            return parts;
        }
    }
    unreachable!("the steps have no end")
}

/// The batch of a step, enlarged to the images that a network reads.
fn digits(spec: &Spec, step: usize, device: &OvercommitDevice) -> Sample<Training> {
    let Input::Image { channels, side } = spec.input else { panic!("{} reads no images", spec.name) };
    let (records, _) = DIGITS.as_chunks::<RECORD_BYTES>();
    let batch = (0..BATCH).map(|index| &records[(step * BATCH + index) % records.len()]);
    let (mut pixels, mut labels) = (Vec::<f32>::new(), Vec::<i64>::new());
    for record in batch {
        let ink = |at: usize| {
            f32::from(record[at / side * DIGIT_SIDE / side * DIGIT_SIDE + at % side * DIGIT_SIDE / side])
        };
        let image: Vec<f32> = (0..side * side).map(|at| ink(at) / MOST_INK - 0.5).collect();
        (0..channels).for_each(|_| pixels.extend(&image));
        labels.push(i64::from(record[RECORD_BYTES - 1]));
    }
    let images = Tensor::from_data(TensorData::new(pixels, [BATCH, channels, side, side]), device);
    let targets = Tensor::from_data(TensorData::new(labels, [BATCH]), device);
    Sample { input: SampleInput::Images(images), targets }
}
