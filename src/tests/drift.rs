//! Times that are others than those that a plan was made with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::layers::{Layers, bytes_of, device, upload};
use crate::engine::measuring::Measuring;
use crate::runtime::{configure_with_engine, is_planning};
use crate::{Config, OvercommitDevice, Planning, stats};

const LAYERS: usize = 8;
/// More than it takes until times are looked at, at first and again.
const MANY: usize = 40;
/// Planning has the lowest priority: beside other work, it takes minutes.
const PATIENCE: Duration = Duration::from_secs(1800);

/// A training loop on an engine that measures.
struct Training {
    device: OvercommitDevice,
    engine: Arc<Measuring>,
    layers: Layers,
}

impl Training {
    fn new(planning: Planning) -> Self {
        let device = device(Config::new());
        let config = Config::new().budget_bytes(bytes_of(LAYERS - 1)).planning(planning).fusion(false);
        let mut engine = None;
        let wrap = |sim| engine.insert(Arc::new(Measuring::new(sim, "tanh"))).clone() as _;
        configure_with_engine(&device, config, wrap).unwrap();
        Training { device, engine: engine.unwrap(), layers: Layers::new(&device, LAYERS) }
    }

    fn train(&mut self, iterations: usize) {
        (0..iterations).for_each(|_| self.layers.train(upload(&self.device), || {}));
    }

    /// How often it was planned, once all that is done.
    fn plannings(&self) -> u64 {
        let begin = Instant::now();
        while is_planning(&self.device) {
            assert!(begin.elapsed() < PATIENCE, "planning does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        stats(&self.device).unwrap().counters.plannings
    }
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_plan_is_made_anew_when_ops_or_copies_take_other_times() {
    let mut training = Training::new(Planning::Background);
    let mut after = |percent, link_percent| {
        training.engine.set(percent, link_percent);
        training.train(MANY);
        let plannings = training.plannings();
        // What is planned now goes by the times as they are.
        training.train(2 * MANY);
        assert_eq!(training.plannings(), plannings, "planned anew though nothing changes");
        plannings
    };
    assert_eq!(after(100, 100), 1);
    assert!(stats(&training.device).unwrap().counters.plans > 0);
    let mut after = |percent, link_percent| {
        training.engine.set(percent, link_percent);
        training.train(2 * MANY);
        training.plannings()
    };
    assert_eq!(after(110, 90), 1, "a tenth is nothing");
    assert_eq!(after(500, 90), 2);
    assert_eq!(after(500, 90), 2);
    assert_eq!(after(500, 50), 3);
    assert_eq!(after(500, 50), 3);
}

#[test]
fn what_is_planned_at_once_depends_on_no_clock() {
    let mut training = Training::new(Planning::AtOnce);
    training.train(MANY);
    training.engine.set(500, 50);
    training.train(MANY);
    assert_eq!(training.plannings(), 1);
    assert!(stats(&training.device).unwrap().counters.plans > 0);
}
