//! The four runs: a network with all the memory, and in a quarter of what burn-flex holds for it; one four times deeper, likewise.

use std::error::Error;

use burn::tensor::backend::AutodiffBackend;

use crate::data::Digits;
use crate::memory::Memory;
use crate::options::Options;
use crate::train::{Outcome, Setup, bytes_op_by_op, run};

/// How many times deeper the second network is.
const DEEPER: usize = 4;

/// The same network twice: with all the memory it asks for, and inside a budget.
pub struct Pair {
    /// The most bytes that a step holds on a backend that stores the result of each op, such as burn-flex.
    pub op_by_op_bytes: u64,
    pub unlimited: Outcome,
    pub budgeted: Outcome,
}

impl Pair {
    pub fn is_identical(&self) -> bool {
        self.unlimited.is_identical_to(&self.budgeted)
    }

    /// How many times longer a step takes inside the budget.
    pub fn slowdown(&self) -> f64 {
        self.budgeted.step_ns as f64 / self.unlimited.step_ns as f64
    }

    /// The most bytes the network has at once when nothing stops it.
    pub fn need_bytes(&self) -> u64 {
        self.unlimited.usage.peak_bytes
    }
}

/// All four runs.
pub struct Comparison {
    pub first: Pair,
    pub deeper: Pair,
}

impl Comparison {
    pub fn is_identical(&self) -> bool {
        self.first.is_identical() && self.deeper.is_identical()
    }
}

/// Runs all four on one device, which is empty before and after each.
pub fn compare<B: AutodiffBackend>(
    options: &Options,
    digits: &Digits,
    device: &B::Device,
    memory: &impl Memory,
) -> Result<Comparison, Box<dyn Error>> {
    let run = |setup| run::<B>(setup, digits, device, memory);
    let pair = |setup: Setup, budget: &dyn Fn(u64) -> u64| -> Result<Pair, Box<dyn Error>> {
        let op_by_op_bytes = bytes_op_by_op::<B>(setup, digits, device, memory)?;
        let unlimited = run(setup)?;
        let budget_bytes = Some(budget(op_by_op_bytes));
        Ok(Pair { op_by_op_bytes, budgeted: run(Setup { budget_bytes, ..setup })?, unlimited })
    };
    let setup = Setup::from(options);
    let first = pair(setup, &|op_by_op_bytes| options.budget.of(op_by_op_bytes))?;
    let first_bytes = first.op_by_op_bytes;
    let deeper_setup = Setup { depth: setup.depth * DEEPER, ..setup };
    let deeper = pair(deeper_setup, &|_| first_bytes)?;
    Ok(Comparison { first, deeper })
}

impl From<&Options> for Setup {
    fn from(options: &Options) -> Self {
        Setup {
            depth: options.depth,
            batch: options.batch,
            epochs: options.epochs,
            seed: options.seed,
            budget_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, Flex};
    use burn_overcommit::Policy;
    use clap::Parser;
    use peak_alloc::PeakAlloc;
    use serial_test::serial;

    use super::*;
    use crate::memory::{Unmetered, Usage};
    use crate::overcommit::{Pool, Training};
    use crate::report;

    const NEED_BYTES: u64 = 1000;

    /// Stands in for a pool: a budget is always met exactly.
    #[derive(Default)]
    struct Obedient(std::cell::Cell<u64>);

    impl Memory for Obedient {
        fn limit(&self, budget_bytes: Option<u64>) -> Result<(), Box<dyn Error>> {
            self.0.set(budget_bytes.unwrap_or(NEED_BYTES));
            Ok(())
        }

        fn go_op_by_op(&self) -> Result<(), Box<dyn Error>> {
            self.limit(None)
        }

        fn usage(&self) -> Usage {
            Usage { peak_bytes: self.0.get(), ..Usage::default() }
        }
    }

    /// Enough for two steps of 32 images.
    fn few_digits() -> Digits {
        let mut digits = Digits::load().expect("the shipped file is well formed");
        digits.train.truncate(64);
        digits.held_out.truncate(32);
        digits
    }

    fn is_replayed<B: AutodiffBackend>() {
        let options = Options::parse_from(["test", "--depth", "1", "--epochs", "1"]);
        let digits = few_digits();
        let comparison = compare::<B>(&options, &digits, &B::Device::default(), &Obedient::default())
            .expect("the pool refuses nothing");
        assert!(comparison.is_identical());
        let summary = report::summary(&comparison);
        assert!(
            summary.starts_with("deeper-than-memory: need=1000 budget=250 peak=250 identical=true slowdown=")
        );
        assert!(
            summary.contains(
                " deeper_depth=4 deeper_need=1000 deeper_peak=1000 deeper_identical=true accuracy="
            )
        );
        assert_eq!(report::table(&comparison).lines().count(), 5);
    }

    #[global_allocator]
    static ALLOCATED: PeakAlloc = PeakAlloc;

    /// The example says that this is what burn-flex holds.
    #[test]
    #[serial]
    fn an_overcommitted_step_op_by_op_holds_what_one_of_flex_holds() {
        let digits = Digits::load().expect("the shipped file is well formed");
        let setup = Setup::from(&Options::parse_from(["test"]));
        let held = |setup| {
            ALLOCATED.reset_peak_usage();
            let before = ALLOCATED.current_usage();
            bytes_op_by_op::<Autodiff<Flex>>(setup, &digits, &Default::default(), &Unmetered).unwrap();
            (ALLOCATED.peak_usage() - before) as f64
        };
        let pool = Pool::new(Policy::Auto);
        for depth in [setup.depth, DEEPER * setup.depth] {
            let setup = Setup { depth, ..setup };
            let ours = bytes_op_by_op::<Training>(setup, &digits, pool.device(), &pool).unwrap() as f64;
            let flex = held(setup);
            println!("depth {depth}: {ours} bytes, burn-flex {flex}");
            assert!((0.8..1.2).contains(&(ours / flex)), "depth {depth}: {ours} bytes, burn-flex {flex}");
        }
    }

    // Burn's CPU backend has one random number generator a process.
    #[test]
    #[serial]
    fn flex_replays_a_run_bit_for_bit() {
        is_replayed::<Autodiff<Flex>>();
    }

    #[test]
    #[serial]
    fn one_bit_is_a_difference() {
        let digits = few_digits();
        let options = Options::parse_from(["test", "--depth", "1", "--epochs", "1"]);
        let outcome =
            run::<Autodiff<Flex>>(Setup::from(&options), &digits, &Default::default(), &Obedient::default())
                .expect("the pool refuses nothing");
        let mut other = outcome.clone();
        other.weights_bits[0] ^= 1;
        assert!(!outcome.is_identical_to(&other));
        other = outcome.clone();
        other.losses[0] = f32::from_bits(other.losses[0].to_bits() ^ 1);
        assert!(!outcome.is_identical_to(&other));
    }
}
