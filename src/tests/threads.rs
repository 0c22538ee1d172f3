//! A thread that submits ops beside the training loop, such as a data loader.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::layers::{Layers, bytes_of, device, end_ns, unary, upload};
use crate::op::{Dtype, Op, Shape, Unary};
use crate::runtime::{Tensor, run, write};
use crate::{Config, OvercommitDevice, Planning, planner, runtime, stats};

const ITERATIONS: usize = 7;

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

/// The end of the training loop.
struct Loader<'a> {
    requests: &'a SyncSender<Request>,
    answers: &'a Receiver<Option<Tensor>>,
    random: ChaCha8Rng,
}

impl Loader<'_> {
    fn ask(&self, request: Request) -> Option<Tensor> {
        self.requests.send(request).expect("the loader waits");
        self.answers.recv().expect("the loader answers")
    }

    /// It submits something, or not.
    fn augment(&mut self) {
        if self.random.random_bool(0.2) {
            let ops = self.random.random_range(1..20);
            self.ask(Request::Augment(ops));
        }
    }
}

/// What is planned of a loop of so many layers, if that is asked for, the time of its last step, and plans. With a seed, a
/// loader makes its batches.
fn trained(layers: usize, seed: Option<u64>, config: Config, learns: bool) -> (Option<String>, u64, u64) {
    let device = device(config);
    let (requests, to_loader) = sync_channel(0);
    let (batches, answers) = sync_channel(0);
    thread::scope(|scope| {
        scope.spawn(move || loader(device, to_loader, batches));
        let random = ChaCha8Rng::seed_from_u64(seed.unwrap_or(0));
        let mut loader = seed.map(|_| Loader { requests: &requests, answers: &answers, random });
        let mut layers = Layers::new(&device, layers);
        let (mut learned, mut begin_ns) = (None, 0);
        for _ in 0..ITERATIONS {
            begin_ns = end_ns(&device);
            match &mut loader {
                None => layers.train(upload(&device), || {}),
                Some(loader) => {
                    let batch = loader.ask(Request::Batch).expect("a batch");
                    layers.train(batch, || loader.augment());
                }
            }
            if learns && learned.is_none() {
                let found = runtime::learned(&device).unwrap();
                learned = found.and_then(|(log, period)| planner::in_words(&log, period));
            }
        }
        let step_ns = end_ns(&device) - begin_ns;
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
    #[ignore = "long: the continuous integration runs it by name"]
    fn a_loader_does_not_keep_a_plan_from_being_followed(layers in 8usize..16, seed in any::<u64>()) {
        // So little that the program waits without a plan. A batch that is made ahead takes one of them.
        let tensors = layers + 4;
        let config = || Config::new().budget_bytes(bytes_of(tensors));
        let (_, alone_ns, plans) = trained(layers, None, config(), false);
        let (_, beside_ns, plans_beside) = trained(layers, Some(seed), config(), false);
        prop_assert_eq!(plans, plans_beside);
        prop_assert!(plans > 0 && beside_ns as f64 <= 1.25 * alone_ns as f64, "{} plans, {} ns, alone {}", plans, beside_ns, alone_ns);
    }
}
