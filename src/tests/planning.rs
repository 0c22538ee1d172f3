//! What a program is told of where planning stands.

use super::layers::{Layers, bytes_of, device, unary, upload};
use crate::op::Unary;
use crate::{Config, OvercommitDevice, Placement, Planning, PlanningState as State, Policy, stats};

const LAYERS: usize = 15;
/// Two products and an activation for each layer, going forward and back; an update.
const ITERATION_OPS: usize = 5 * LAYERS;
const TRAINING: usize = 6;

/// A budget that is short.
fn short() -> Config {
    Config::new().budget_bytes(bytes_of(12))
}

fn state(device: &OvercommitDevice) -> State {
    let stats = stats(device).unwrap();
    assert!(stats.to_string().contains(&format!("\nplanning: {}", stats.planning)), "{stats}");
    stats.planning
}

/// What is told after each of several steps.
fn trained(device: &OvercommitDevice, steps: usize) -> Vec<State> {
    let mut layers = Layers::new(device, LAYERS);
    let mut step = || {
        layers.train(upload(device), || {});
        state(device)
    };
    (0..steps).map(|_| step()).collect()
}

#[test]
fn what_is_not_planned_says_why() {
    let last = |config: Config| *trained(&device(config), TRAINING).last().unwrap();
    assert_eq!(last(short().planning(Planning::Off)), State::Off);
    assert_eq!(last(short().policy(Policy::TensorCache)), State::NotByPolicy);
    assert_eq!(last(Config::new()), State::MemoryNotShort);
    assert!(State::MemoryNotShort.to_string().contains("never short"));
}

#[test]
fn a_plan_is_told_of_from_the_first_step_to_when_it_is_followed() {
    let device = device(short());
    let states = trained(&device, TRAINING);
    assert!(matches!(states[0], State::NoRepetition { .. } | State::Differs { .. }), "{states:?}");
    let (before, followed) =
        states.split_at(states.iter().position(|it| matches!(it, State::Followed { .. })).unwrap());
    assert!(before.len() >= 2, "two iterations are to be seen: {states:?}");
    for state in followed {
        let &State::Followed { iteration_ops, since_op, is_improved, .. } = state else {
            panic!("{states:?}")
        };
        assert!(
            iteration_ops == ITERATION_OPS && since_op as usize > 2 * ITERATION_OPS && !is_improved,
            "{state:?}"
        );
        assert!(state.to_string().contains(&format!("followed since op {since_op}")), "{state}");
    }
    // Something else than what is planned.
    let x = (0..3).fold(upload(&device), |x, _| unary(Unary::Exp, &unary(Unary::Neg, &x)));
    assert_eq!(state(&device), State::NotFollowed { plans: 1 });
    drop(x);
}

#[test]
fn an_iteration_that_is_never_the_same_is_not_known() {
    let device = device(short());
    let mut layers = Layers::new(&device, LAYERS);
    for step in 0..TRAINING {
        let batch = (0..step).fold(upload(&device), |x, _| unary(Unary::Neg, &x));
        layers.train(batch, || {});
    }
    let state = state(&device);
    assert!(matches!(state, State::Differs { .. } | State::NoRepetition { .. }), "{state:?}");
    assert!(state.to_string().starts_with("the iteration is not known: "), "{state}");
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_plan_that_the_host_tier_has_no_room_for_is_said_not_to_be_followed() {
    let told = [24, 20, 16].into_iter().find_map(|tensors| {
        let states = trained(&device(short().host_limit_bytes(bytes_of(tensors))), TRAINING);
        states.into_iter().find(|state| matches!(state, State::HostTierTooSmall { .. }))
    });
    let Some(State::HostTierTooSmall { room_bytes, needed_bytes }) = told else { panic!("{told:?}") };
    assert!(room_bytes < needed_bytes && needed_bytes == bytes_of(12), "{told:?}");
}

#[test]
fn an_iteration_that_no_plan_is_better_for_says_so() {
    // Once what is held has left, nothing has to.
    let device = device(Config::new().budget_bytes(bytes_of(2)).placement(Placement::BestFit));
    let held = unary(Unary::Neg, &upload(&device));
    let ops = [Unary::Neg, Unary::Exp, Unary::Tanh, Unary::Log];
    for _ in 0..40 {
        ops.iter().fold(upload(&device), |x, op| unary(*op, &x));
    }
    let state = state(&device);
    assert_eq!(state, State::NoneBetter { iteration_ops: ops.len() });
    assert!(state.to_string().contains("no plan found that is better than none"), "{state}");
    drop(held);
}

#[cfg(feature = "host")]
#[test]
fn what_is_planned_beside_the_program_is_said_to_be() {
    use crate::runtime::is_planning;

    let device = OvercommitDevice::Host(70);
    crate::configure(&device, short().fusion(false).host_limit_bytes(bytes_of(64))).unwrap();
    let mut layers = Layers::new(&device, LAYERS);
    for _ in 0..200 {
        layers.train(upload(&device), || {});
        let told = state(&device);
        if let State::Planning { iteration_ops, elapsed } = told {
            assert_eq!(iteration_ops, ITERATION_OPS);
            assert!(elapsed.as_nanos() > 0 && told.to_string().contains("is being planned for"));
            return;
        }
        if matches!(told, State::Followed { .. }) && !is_planning(&device) {
            break;
        }
    }
    panic!("no plan was looked for while the program went on: {}", state(&device));
}
