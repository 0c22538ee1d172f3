//! Programs that alternate between iterations of several kinds.

use super::layers::{Layers, bytes_of, device, end_ns, upload};
use crate::{Config, stats};

const LAYERS: usize = 15;
const TRAINING: usize = 6;
const EVALUATIONS: usize = 24;

#[test]
fn training_goes_on_as_planned_after_an_evaluation() {
    let device = device(Config::new().budget_bytes(bytes_of(12)));
    let mut layers = Layers::new(&device, LAYERS);
    let mut timed = |train: bool, count: usize| -> Vec<u64> {
        let mut step_ns = || {
            let begin_ns = end_ns(&device);
            match train {
                true => layers.train(upload(&device), || {}),
                false => layers.evaluate(upload(&device)),
            }
            end_ns(&device) - begin_ns
        };
        (0..count).map(|_| step_ns()).collect()
    };
    let plannings = || stats(&device).unwrap().counters.plannings;
    let unplanned_ns = timed(true, 2)[1];
    let planned_ns = timed(true, TRAINING)[TRAINING - 1];
    assert_eq!(plannings(), 1);
    assert!(planned_ns < unplanned_ns, "the plan is of no use: {planned_ns} ns, without {unplanned_ns}");
    let evaluated = timed(false, EVALUATIONS);
    assert_eq!(plannings(), 2, "the evaluation is planned: {evaluated:?}");
    for round in 0..3 {
        // In the first, only the backward pass tells that it is no evaluation; in the next two, what it left comes to its place.
        let trained = timed(true, TRAINING);
        let slower = |step_ns: u64| step_ns as f64 / planned_ns as f64;
        let soon = &trained[1..3];
        assert!(
            soon.iter().all(|&step_ns| slower(step_ns) < 1.1),
            "round {round}: {trained:?} ns, planned {planned_ns}"
        );
        assert!(
            trained[3..].iter().all(|&step_ns| slower(step_ns) <= 1.001),
            "round {round}: {trained:?} ns"
        );
        let again = timed(false, EVALUATIONS);
        let best_ns = evaluated[EVALUATIONS - 1] as f64;
        assert!(
            again[3..].iter().all(|&step_ns| step_ns as f64 <= 1.001 * best_ns),
            "{again:?}, before {best_ns}"
        );
    }
    assert_eq!(plannings(), 2, "nothing is planned anew");
}
