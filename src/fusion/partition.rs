//! Which steps of a run become one op; pure. A *region* is the longest beginning of the remaining steps that belong
//! together, by what they make or by a large tensor that they both read. Each of its outputs can take the memory of an input
//! that is freed, so that together the steps take no more new memory than one by one.

use arrayvec::ArrayVec;

use crate::op::{MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_SCALARS, MAX_STEPS};

/// The most steps of a run, the reduction included.
pub const MAX_RUN_STEPS: usize = MAX_STEPS + 1;

/// The most external tensors of a run: two for each step, and the results of steps that were submitted already.
pub const MAX_EXTERNALS: usize = 3 * MAX_STEPS;

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepInput {
    /// The external tensor in this place.
    External(u8),
    /// The result of an earlier step.
    Step(u8),
}

/// A step of a run, as far as the partition needs it.
#[derive(Clone, Debug)]
pub struct PartitionStep {
    /// What it reads.
    pub inputs: ArrayVec<StepInput, 2>,
    /// How many scalars it has.
    pub scalars: usize,
    /// Whether the program holds its result.
    pub is_held: bool,
}

/// A tensor that a run reads and does not make.
#[derive(Clone, Copy, Debug, Default)]
pub struct External {
    /// Whether it is at least as large as what a step makes.
    pub is_large: bool,
    /// Whether it is a mask, of which alone a program cannot be.
    pub is_mask: bool,
}

/// How many of the first steps become one op, at least one: as many as fit a program that reads something, and, unless
/// they are small, belong together.
///
/// Steps belong together if one reads the other's result, or if both read the same large tensor. A step that has nothing
/// to do with those before it does not end the region, since a later step may read results of both.
pub fn first_region(steps: &[PartitionStep], externals: &[External], are_small: bool) -> usize {
    let mut region = FusionRegion::new(steps, externals);
    let mut longest = 1;
    for end in 1..=steps.len() {
        if !region.add(end as u8 - 1) {
            break;
        }
        let is_better = are_small || region.is_connected();
        if is_better && region.reads_values && region.outputs(end) <= MAX_FUSED_OUTPUTS {
            longest = end;
        }
    }
    longest
}

/// The first steps of a run, to which steps are added one by one.
struct FusionRegion<'a> {
    steps: &'a [PartitionStep],
    externals: &'a [External],
    /// For each step, the last step that reads its result.
    last_of_step: ArrayVec<Option<u8>, MAX_RUN_STEPS>,
    /// The group of each step in the region. Steps of one group belong together.
    groups: ArrayVec<u8, MAX_RUN_STEPS>,
    /// For each large external tensor, the group of the steps that read it.
    group_of_external: ArrayVec<Option<u8>, MAX_EXTERNALS>,
    inputs: usize,
    /// Whether one of them is no mask.
    reads_values: bool,
    scalars: usize,
}

impl<'a> FusionRegion<'a> {
    fn new(steps: &'a [PartitionStep], externals: &'a [External]) -> Self {
        let mut region = FusionRegion {
            steps,
            externals,
            last_of_step: steps.iter().map(|_| None).collect(),
            groups: ArrayVec::new(),
            group_of_external: externals.iter().map(|_| None).collect(),
            inputs: 0,
            reads_values: false,
            scalars: 0,
        };
        for (at, step) in (0..).zip(steps) {
            for &input in &step.inputs {
                if let StepInput::Step(place) = input {
                    region.last_of_step[place as usize] = Some(at);
                }
            }
        }
        region
    }

    /// Adds the next step; returns whether a program can still have as many inputs and scalars as that makes.
    fn add(&mut self, at: u8) -> bool {
        let (before, step) = (&self.steps[..at as usize], &self.steps[at as usize]);
        self.scalars += step.scalars;
        self.groups.push(at);
        for (n, &input) in step.inputs.iter().enumerate() {
            if step.inputs[..n].contains(&input) {
                continue;
            }
            match input {
                StepInput::Step(place) => self.merge(self.groups[place as usize], at),
                StepInput::External(place) => {
                    let external = self.externals[place as usize];
                    let is_first = !before.iter().any(|step| step.inputs.contains(&input));
                    self.inputs += usize::from(is_first);
                    self.reads_values |= !external.is_mask;
                    if external.is_large {
                        if let Some(group) = self.group_of_external[place as usize] {
                            self.merge(group, at);
                        }
                        self.group_of_external[place as usize] = Some(at);
                    }
                }
            }
        }
        self.inputs <= MAX_FUSED_INPUTS && self.scalars <= MAX_SCALARS
    }

    /// Merges one group into another.
    fn merge(&mut self, group: u8, into: u8) {
        let externals = self.group_of_external.iter_mut().flatten();
        let groups = self.groups.iter_mut().chain(externals);
        groups.filter(|other| **other == group).for_each(|other| *other = into);
    }

    /// Whether all steps belong together.
    fn is_connected(&self) -> bool {
        self.groups.iter().all(|group| *group == self.groups[0])
    }

    /// How many results of the steps before `end` are needed after them.
    fn outputs(&self, end: usize) -> usize {
        let outlives = |at: &usize| {
            self.steps[*at].is_held || self.last_of_step[*at].is_some_and(|last| usize::from(last) >= end)
        };
        (0..end).filter(outlives).count()
    }
}

#[cfg(test)]
mod tests {
    use super::StepInput::{External as E, Step as S};
    use super::*;

    fn step(inputs: &[StepInput], is_held: bool) -> PartitionStep {
        PartitionStep { inputs: inputs.iter().copied().collect(), scalars: 0, is_held }
    }

    /// Of steps that are not small.
    fn of_large(steps: &[PartitionStep], externals: &[External]) -> usize {
        first_region(steps, externals, false)
    }

    const HELD: External = External { is_large: true, is_mask: false };
    const SMALL: External = External { is_large: false, ..HELD };
    const MASK: External = External { is_mask: true, ..SMALL };

    #[test]
    fn a_chain_is_one_op() {
        let steps = [step(&[E(0)], false), step(&[S(0), E(1)], false), step(&[S(1)], true)];
        assert_eq!(of_large(&steps, &[HELD, SMALL]), 3);
    }

    #[test]
    fn steps_without_a_common_tensor_stay_apart_unless_a_later_step_reads_both() {
        let apart = [step(&[E(0)], true), step(&[E(1)], true)];
        assert_eq!(of_large(&apart, &[HELD; 2]), 1);
        assert_eq!(of_large(&apart, &[SMALL; 2]), 1);
        let meets = [step(&[E(0)], false), step(&[E(1)], false), step(&[S(0), S(1)], true)];
        assert_eq!(of_large(&meets, &[HELD; 2]), 3);
        let shared = [step(&[E(0)], true), step(&[E(0)], true)];
        assert_eq!(of_large(&shared, &[HELD]), 2);
        let shared = [step(&[E(0), E(1)], true), step(&[E(0), E(2)], true)];
        assert_eq!(of_large(&shared, &[SMALL, HELD, HELD]), 1, "a bias in common is not enough");
    }

    #[test]
    fn small_steps_are_one_op_without_a_common_tensor_too() {
        let steps = [step(&[E(0)], true), step(&[E(1)], true)];
        assert_eq!(first_region(&steps, &[SMALL; 2], true), 2);
    }

    #[test]
    fn constants_are_one_op_with_what_reads_them_and_something_else() {
        let constant = || step(&[], false);
        assert_eq!(
            first_region(&[constant(), step(&[S(0)], true)], &[], true),
            1,
            "a program reads something"
        );
        assert_eq!(of_large(&[constant(), step(&[S(0), E(0)], true)], &[HELD]), 2);
        assert_eq!(of_large(&[constant(), step(&[S(0), E(0)], true)], &[MASK]), 1, "a mask has no values");
    }

    #[test]
    fn a_program_has_limited_inputs_outputs_and_scalars() {
        let chain = |count: u8, scalars: bool| -> Vec<PartitionStep> {
            let next = |at: u8| if at == 0 { step(&[E(0)], false) } else { step(&[S(at - 1), E(at)], false) };
            (0..count)
                .map(|at| PartitionStep { scalars: scalars.into(), is_held: at + 1 == count, ..next(at) })
                .collect()
        };
        assert_eq!(of_large(&chain(12, false), &[HELD; 12]), MAX_FUSED_INPUTS);
        let scalars = |count: u8| -> Vec<PartitionStep> {
            let next = |at: u8| if at == 0 { step(&[E(0)], false) } else { step(&[S(at - 1)], false) };
            (0..count).map(|at| PartitionStep { scalars: 1, ..next(at) }).collect()
        };
        let mut steps = scalars(12);
        steps[11].is_held = true;
        assert_eq!(of_large(&steps, &[HELD]), MAX_SCALARS);
        let kept: Vec<PartitionStep> = (0..8).map(|_| step(&[E(0)], true)).collect();
        assert_eq!(of_large(&kept, &[HELD]), MAX_FUSED_OUTPUTS);
    }

    #[test]
    fn a_reduction_ends_the_region_that_it_reads() {
        let sum = |of: StepInput| step(&[of], true);
        assert_eq!(of_large(&[sum(E(0))], &[HELD]), 1);
        assert_eq!(
            of_large(&[step(&[E(0), E(1)], true), step(&[S(0)], false), sum(S(1))], &[HELD, SMALL]),
            3
        );
        let full = (0..MAX_FUSED_OUTPUTS).map(|_| step(&[E(0)], true));
        let with_end: Vec<PartitionStep> = full.chain([sum(S(MAX_FUSED_OUTPUTS as u8 - 1))]).collect();
        assert_eq!(of_large(&with_end, &[HELD]), MAX_FUSED_OUTPUTS, "the reduction is an output too");
    }
}
