//! The time of one training step of the example's network, backend by backend.
//!
//! Every backend computes on rayon's global pool, as wide as the machine or `RAYON_NUM_THREADS`; the matrix
//! product of ndarray has threads of its own, at most four (`MATMUL_NUM_THREADS`). Set both to the same number.

#[allow(dead_code, unused_imports, reason = "the example uses the rest of it")]
#[path = "../examples/deeper_than_memory/data.rs"]
mod data;
#[allow(dead_code, reason = "the example uses the rest of it")]
#[path = "../examples/deeper_than_memory/learner.rs"]
mod learner;
#[path = "../examples/deeper_than_memory/model.rs"]
mod model;

use std::time::Duration;

use burn::backend::{Autodiff, Flex, NdArray};
use burn::tensor::backend::AutodiffBackend;
use burn_overcommit::Overcommit;
use criterion::Criterion;

use crate::data::{Batch, Digits};
use crate::learner::Learner;

const BATCH: usize = 32;
const DEPTHS: [usize; 2] = [8, 32];
const SEED: u64 = 42;
const LEARNING_RATE: f64 = 1e-3;

fn bench_step<B: AutodiffBackend>(criterion: &mut Criterion, backend: &str) {
    let device = B::Device::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    for depth in DEPTHS {
        let batch = Batch::<B>::new(&digits.train[..BATCH], &device);
        // A step consumes the learner and makes the next one: the optimizer's state is part of what is timed.
        let mut learner = Some(Learner::<B>::new(depth, SEED, &device));
        criterion.bench_function(&format!("training_step/{backend}/depth_{depth}"), |bencher| {
            bencher.iter(|| {
                let (next, loss) =
                    learner.take().expect("every step leaves a learner").step(batch.clone(), LEARNING_RATE);
                learner = Some(next);
                loss
            });
        });
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
        .configure_from_args();
    bench_step::<Autodiff<NdArray>>(&mut criterion, "ndarray");
    bench_step::<Autodiff<Flex>>(&mut criterion, "flex");
    bench_step::<Autodiff<Overcommit>>(&mut criterion, "overcommit");
    criterion.final_summary();
}
