//! A thread that submits ops beside the training loop, such as a data loader.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::sim::{Profile, Workspace};
use crate::engine::{Flops, Props};
use crate::op::{Binary, Dtype, Op, Shape, Unary};
use crate::runtime::{Tensor, run, write};
use crate::{Config, OvercommitDevice, Planning, SimProfile, configure, planner, runtime, stats};

/// Elements of a tensor of the training loop.
const ELEMENTS: usize = 1 << 18;
const ITERATIONS: usize = 7;

/// A device of round figures.
fn device(config: Config) -> OvercommitDevice {
    let props = Props {
        name: "test".to_string(),
        device_bytes: 1 << 40,
        host_bytes: 1 << 40,
        flops: Flops::all(1e12),
        memory_bytes_per_second: 1e9,
        link_bytes_per_second: 1e9,
        overhead_ns: 0,
        page_bytes: None,
        map_page_ns: 0,
    };
    let profile = Profile { key: "test".to_string(), props, workspace: Workspace::Gpu };
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, config).expect("a valid configuration");
    device
}

fn upload(device: &OvercommitDevice) -> Tensor {
    let shape = Shape::new(&[ELEMENTS]);
    write(device, &vec![0; 4 * ELEMENTS], Dtype::F32, shape).expect("room on the host")
}

fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Tensor {
    run(Op::Binary(op), [a.clone(), b.clone()]).expect("it fits")
}

fn unary(op: Unary, a: &Tensor) -> Tensor {
    run(Op::Unary(op), [a.clone()]).expect("it fits")
}

/// Asks the loader for some ops, or for a batch.
enum Request {
    Augment(usize),
    Batch,
}

/// A thread that makes batches when it is asked to. What it does between two batches is never the same.
fn loader(device: OvercommitDevice, requests: Receiver<Request>, batches: SyncSender<Option<Tensor>>) {
    let mut ready = None;
    let mut small: Vec<Tensor> = Vec::new();
    for request in requests {
        let answer = match request {
            Request::Augment(ops) => {
                let image = write(&device, &[0; 256], Dtype::F32, Shape::new(&[64])).expect("room");
                small.push((0..ops).fold(image, |image, _| unary(Unary::Neg, &image)));
                if ops % 3 == 0 {
                    small.clear();
                }
                ready.get_or_insert_with(|| upload(&device));
                None
            }
            // In place: the batch is what an op of this thread has made.
            Request::Batch => {
                let raw = ready.take().unwrap_or_else(|| upload(&device));
                Some(run(Op::Unary(Unary::Neg), [raw]).expect("it fits"))
            }
        };
        batches.send(answer).expect("the training loop waits");
    }
}

/// A training loop, alone or with a loader.
struct Loop<'a> {
    device: OvercommitDevice,
    layers: usize,
    random: ChaCha8Rng,
    loader: Option<(&'a SyncSender<Request>, &'a Receiver<Option<Tensor>>)>,
    weights: Vec<Tensor>,
}

impl Loop<'_> {
    fn ask(&self, request: Request) -> Option<Tensor> {
        let (requests, answers) = self.loader?;
        requests.send(request).expect("the loader waits");
        answers.recv().expect("the loader answers")
    }

    /// The loader submits something, or not.
    fn beside(&mut self) {
        if self.random.random_bool(0.2) {
            let ops = self.random.random_range(1..20);
            self.ask(Request::Augment(ops));
        }
    }

    fn binary(&mut self, op: Binary, a: &Tensor, b: &Tensor) -> Tensor {
        self.beside();
        binary(op, a, b)
    }

    fn step(&mut self) {
        let batch = match self.loader {
            None => upload(&self.device),
            Some(_) => self.ask(Request::Batch).expect("a batch"),
        };
        let mut kept = vec![batch];
        for layer in 0..self.layers {
            let product = self.binary(Binary::Mul, &kept[layer], &self.weights[layer].clone());
            self.beside();
            kept.push(unary(Unary::Tanh, &product));
        }
        let mut gradient = kept.pop().expect("the result");
        for layer in (0..self.layers).rev() {
            let input = kept.pop().expect("what the layer read");
            let weight = self.weights[layer].clone();
            let change = self.binary(Binary::Mul, &gradient, &input);
            gradient = self.binary(Binary::Mul, &gradient, &weight);
            self.weights[layer] = self.binary(Binary::Sub, &weight, &change);
        }
    }
}

/// What is planned of a loop of so many layers, if that is asked for, and the time of its last step.
fn trained(layers: usize, seed: Option<u64>, config: Config, learns: bool) -> (Option<String>, u64, u64) {
    let device = device(config);
    let (requests, to_loader) = sync_channel(0);
    let (batches, from_loader) = sync_channel(0);
    thread::scope(|scope| {
        let mut training = Loop {
            device,
            layers,
            random: ChaCha8Rng::seed_from_u64(seed.unwrap_or(0)),
            loader: seed.map(|_| (&requests, &from_loader)),
            weights: (0..layers).map(|_| unary(Unary::Neg, &upload(&device))).collect(),
        };
        scope.spawn(move || loader(device, to_loader, batches));
        let end_ns = || stats(&device).unwrap().times.expect("a clock").end_ns;
        let (mut learned, mut begin_ns) = (None, 0);
        for _ in 0..ITERATIONS {
            begin_ns = end_ns();
            training.step();
            if learns && learned.is_none() {
                let found = runtime::learned(&device);
                learned = found.and_then(|(log, period)| planner::in_words(&log, period));
            }
        }
        let step_ns = end_ns() - begin_ns;
        drop(training);
        drop(requests);
        (learned, step_ns, stats(&device).unwrap().counters.plans)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever another thread submits, and when, the iteration that is found is that of the loop alone, op by op.
    #[test]
    fn a_loader_does_not_change_what_is_planned(layers in 3usize..12, seed in any::<u64>()) {
        let learned = |seed| trained(layers, seed, Config::new().planning(Planning::Off), true).0;
        let alone = learned(None);
        prop_assert!(alone.is_some());
        prop_assert_eq!(alone, learned(Some(seed)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]

    /// The plan is followed as well.
    #[test]
    fn a_loader_does_not_keep_a_plan_from_being_followed(layers in 8usize..16, seed in any::<u64>()) {
        let tensors = layers + layers / 3 + 4;
        let config = || Config::new().budget_bytes(4 * ELEMENTS * tensors);
        let (_, alone_ns, plans) = trained(layers, None, config(), false);
        let (_, beside_ns, plans_beside) = trained(layers, Some(seed), config(), false);
        prop_assert_eq!(plans, plans_beside);
        prop_assert!(plans > 0 && beside_ns as f64 <= 1.1 * alone_ns as f64, "{} ns, alone {}", beside_ns, alone_ns);
    }
}
