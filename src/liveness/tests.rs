//! Compares the tracker with an oracle that knows the whole program.

use proptest::prelude::*;

use super::*;

/// An op of a made-up program: what it is like, the storages it touches, and those that are dropped after it.
#[derive(Clone, Debug)]
struct MadeUpOp {
    signature: u64,
    touched: Vec<usize>,
    dropped: Vec<usize>,
}

/// Runs a program; for each op and operand, what the tracker predicted of the next touch.
fn predictions(steps: &[MadeUpOp], tracker: &mut Tracker, touches: &mut Vec<Touch>) -> Vec<Vec<NextUse>> {
    let mut predicted = Vec::new();
    for step in steps {
        let most = step.touched.iter().max().map_or(0, |&most| most + 1);
        touches.resize(most.max(touches.len()), Touch::default());
        let mut operands: Vec<TrackedOperand> = (step.touched.iter())
            .map(|&storage| TrackedOperand { touch: touches[storage], ..TrackedOperand::default() })
            .collect();
        let signature = Signature(step.signature);
        tracker.op(Observed { signature, live_bytes: 0, scratch_bytes: 0, launch_ns: 1 }, &mut operands);
        for (&storage, operand) in step.touched.iter().zip(&operands) {
            touches[storage] = operand.touch;
        }
        step.dropped.iter().for_each(|&storage| tracker.dropped(touches[storage]));
        predicted.push(operands.iter().map(|operand| operand.next).collect());
    }
    predicted
}

/// When each operand of each op is really touched next.
fn known(steps: &[MadeUpOp]) -> Vec<Vec<NextUse>> {
    let next = |op: usize, storage: usize| {
        if steps[op].dropped.contains(&storage) {
            return NextUse::Never;
        }
        let later = steps[op + 1..].iter().position(|step| step.touched.contains(&storage));
        let dropped = steps[op + 1..].iter().position(|step| step.dropped.contains(&storage));
        match (later, dropped) {
            (Some(later), Some(dropped)) if dropped < later => NextUse::Never,
            (Some(later), _) => NextUse::At((op + 1 + later) as u64 + 1),
            (None, Some(_)) => NextUse::Never,
            (None, None) => NextUse::Unknown,
        }
    };
    let of_step = |op: usize| steps[op].touched.iter().map(|&storage| next(op, storage)).collect();
    (0..steps.len()).map(of_step).collect()
}

/// Iterations of a network: `layers` layers forward and back, weights that an update at the end replaces, and
/// constants that stay. Layers are alike, as in practice; `kinds` tells how many different ones there are.
fn training(layers: usize, kinds: usize, iterations: usize) -> Vec<MadeUpOp> {
    let (constant, mut made) = (0, 1);
    let mut make = || {
        made += 1;
        made - 1
    };
    let mut weights: Vec<usize> = (0..layers).map(|_| make()).collect();
    let mut steps = Vec::new();
    for _ in 0..iterations {
        let mut activations = vec![make()];
        steps.push(MadeUpOp { signature: 1, touched: vec![constant, activations[0]], dropped: vec![] });
        for (layer, &weight) in weights.iter().enumerate() {
            let (input, output) = (activations[layer], make());
            let signature = 10 + (layer % kinds) as u64;
            steps.push(MadeUpOp { signature, touched: vec![input, weight, output], dropped: vec![] });
            activations.push(output);
        }
        let mut gradient = make();
        let output = activations.pop().unwrap();
        steps.push(MadeUpOp { signature: 2, touched: vec![output, gradient], dropped: vec![output] });
        let mut gradients = Vec::new();
        for (layer, &weight) in weights.iter().enumerate().rev() {
            let (input, before, of_weight) = (activations.pop().unwrap(), make(), make());
            let signature = 100 + (layer % kinds) as u64;
            let touched = vec![gradient, input, weight, before, of_weight];
            steps.push(MadeUpOp { signature, touched, dropped: vec![gradient, input] });
            gradients.push(of_weight);
            gradient = before;
        }
        steps.last_mut().unwrap().dropped.push(gradient);
        for (weight, gradient) in weights.iter_mut().zip(gradients.into_iter().rev()) {
            let updated = make();
            let touched = vec![*weight, gradient, updated];
            steps.push(MadeUpOp { signature: 3, touched, dropped: vec![*weight, gradient] });
            *weight = updated;
        }
    }
    steps
}

/// From step `from` on: the part of the oracle's next touches that the tracker predicts, and the part of its
/// predictions that is wrong.
fn share(steps: &[MadeUpOp], predicted: &[Vec<NextUse>], from: usize) -> (f64, f64) {
    let pairs = known(steps).into_iter().flatten().zip(predicted.iter().flatten().copied());
    let skipped = steps[..from].iter().map(|step| step.touched.len()).sum();
    // Not even the oracle knows the next use of a storage that is not used again before the end.
    let pairs: Vec<_> = pairs.skip(skipped).filter(|(known, _)| *known != NextUse::Unknown).collect();
    let predicted: Vec<_> = pairs.iter().filter(|(_, predicted)| *predicted != NextUse::Unknown).collect();
    let wrong = predicted.iter().filter(|(known, predicted)| known != predicted).count();
    (predicted.len() as f64 / pairs.len().max(1) as f64, wrong as f64 / predicted.len().max(1) as f64)
}

#[test]
fn from_the_third_iteration_on_everything_is_known() {
    for (layers, kinds) in [(3, 3), (12, 1), (50, 2), (200, 7)] {
        let steps = training(layers, kinds, 5);
        let mut tracker = Tracker::default();
        let predicted = predictions(&steps, &mut tracker, &mut Vec::new());
        let period = steps.len() / 5;
        assert_eq!(tracker.period(), Some(period as u64), "{layers} layers of {kinds} kinds");
        let (known, wrong) = share(&steps, &predicted, 2 * period);
        assert_eq!((known, wrong), (1.0, 0.0), "{layers} layers of {kinds} kinds");
    }
}

#[test]
fn the_second_iteration_is_known_but_for_its_beginning() {
    let steps = training(60, 3, 3);
    let predicted = predictions(&steps, &mut Tracker::default(), &mut Vec::new());
    let period = steps.len() / 3;
    let (known, wrong) = share(&steps[..2 * period], &predicted[..2 * period], period);
    assert!(known > 0.8 && wrong < 0.02, "{known} {wrong}");
}

#[test]
fn a_departure_is_noticed_at_once_and_the_stream_found_again() {
    let mut steps = training(40, 4, 4);
    let period = steps.len() / 4;
    let odd = MadeUpOp { signature: 999, touched: vec![0], dropped: vec![] };
    steps.insert(3 * period + 60, odd);
    let (mut tracker, mut touches) = (Tracker::default(), Vec::new());
    predictions(&steps[..3 * period + 60], &mut tracker, &mut touches);
    assert!(tracker.follows());
    predictions(&steps[3 * period + 60..][..1], &mut tracker, &mut touches);
    assert!(!tracker.follows());
    predictions(&steps[3 * period + 61..][..40], &mut tracker, &mut touches);
    assert!(tracker.follows());
}

/// A forward pass through layers that are alike, each with a weight of its own, and nothing that is kept; over batches that
/// take turns.
fn evaluation(layers: usize, batches: usize, iterations: usize) -> Vec<MadeUpOp> {
    let (begin, mut steps) = (layers + batches, Vec::new());
    for iteration in 0..iterations {
        let mut x = layers + iteration % batches;
        for layer in 0..layers {
            let made = begin + iteration * layers + layer;
            let dropped = if layer == 0 { vec![] } else { vec![x] };
            steps.push(MadeUpOp { signature: 1, touched: vec![x, layer, made], dropped });
            x = made;
        }
        steps.last_mut().unwrap().dropped.push(x);
    }
    steps
}

#[test]
fn layers_that_are_alike_are_no_iterations() {
    for layers in [20, 100] {
        let steps = evaluation(layers, 1, 6);
        let mut tracker = Tracker::default();
        let predicted = predictions(&steps, &mut tracker, &mut Vec::new());
        assert_eq!(tracker.period(), Some(layers as u64));
        let (known, wrong) = share(&steps, &predicted, 4 * layers);
        assert!(known > 0.9 && wrong == 0.0, "{known} {wrong}");
    }
}

#[test]
fn batches_that_take_turns_do_not_make_iterations_longer() {
    let layers = 40;
    let mut steps = training(layers, 4, 20);
    let period = steps.len() / 20;
    for (at, step) in steps.iter_mut().enumerate() {
        step.touched.iter_mut().for_each(|storage| *storage += 5);
        step.dropped.iter_mut().for_each(|storage| *storage += 5);
        if at % period == 3 {
            step.touched.push(at / period % 5);
        }
    }
    let mut tracker = Tracker::default();
    predictions(&steps, &mut tracker, &mut Vec::new());
    assert_eq!(tracker.period(), Some(period as u64));
}

#[test]
fn history_is_bounded() {
    let mut tracker = Tracker::default();
    let steps = training(100, 5, 1);
    let mut touches = Vec::new();
    for _ in 0..4000 {
        predictions(&steps, &mut tracker, &mut touches);
    }
    assert!(tracker.remembered() <= 1 << 16, "{}", tracker.remembered());
    assert!(tracker.period().is_some());
}

proptest! {
    /// Any loop: random ops on random storages, repeated.
    #[test]
    fn loops_are_learned(seed in prop::collection::vec((0u64..4, 0usize..12, 0usize..12), 10..120)) {
        let body: Vec<MadeUpOp> = seed
            .iter()
            .map(|&(signature, a, b)| MadeUpOp { signature, touched: vec![a, b], dropped: vec![] })
            .collect();
        let steps: Vec<MadeUpOp> = body.iter().cycle().take(6 * body.len()).cloned().collect();
        let predicted = predictions(&steps, &mut Tracker::default(), &mut Vec::new());
        let (known, wrong) = share(&steps[..5 * body.len()], &predicted[..5 * body.len()], 4 * body.len());
        prop_assert!(known >= 0.5 && wrong <= 0.2, "{} known, {} wrong", known, wrong);
    }
}
