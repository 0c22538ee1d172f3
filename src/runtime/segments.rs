//! Which steps of a run become one op; pure. It is the longest beginning of what is left whose steps belong together,
//! by what they make or by a large tensor that they both read, and that takes no more new memory at once than one op
//! after the other would.

use arrayvec::ArrayVec;

use super::collect::MOST_GIVEN;
use crate::op::{MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_SCALARS, MAX_STEPS};

/// The most steps of a run, with what it ends in.
pub const MOST_STEPS: usize = MAX_STEPS + 1;

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A tensor from outside.
    Given(u8),
    /// What an earlier step made.
    Step(u8),
}

/// A step of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it reads.
    pub operands: ArrayVec<Operand, 2>,
    /// Whether it has a scalar.
    pub has_scalar: bool,
    /// Whether a handle exists of what it makes.
    pub kept: bool,
    /// Whether it is what the program ends in, a reduction: then what it makes is small.
    pub reduces: bool,
}

/// A tensor from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// It is as large as what a step makes.
    pub is_large: bool,
    /// It goes once the run is done with it, and an output can have its memory.
    pub goes: bool,
}

/// How many of the first steps are to be one op, at least one: as many as fit a program, belong together, and need no more new
/// memory at once than one after the other.
///
/// They belong together if each reads what another makes, or a tensor that another reads. Where a step begins that has nothing to
/// do with those before, it may yet meet them later.
pub fn first(steps: &[Step], given: &[Given]) -> usize {
    let mut segment = Segment::new(steps, given);
    let mut longest = 1;
    for end in 1..=steps.len() {
        if !segment.add(end as u8 - 1) {
            break;
        }
        if segment.is_one() && segment.is_worth_it(end) {
            longest = end;
        }
    }
    longest
}

/// The first steps of a run, more and more of them.
struct Segment<'a> {
    steps: &'a [Step],
    given: &'a [Given],
    /// The last step that reads each step's value, or each tensor from outside.
    last_of_step: ArrayVec<Option<u8>, MOST_STEPS>,
    last_of_given: ArrayVec<Option<u8>, MOST_GIVEN>,
    /// Steps with the same number belong together.
    groups: ArrayVec<u8, MOST_STEPS>,
    /// That of the steps that read a large tensor from outside.
    group_of_given: ArrayVec<Option<u8>, MOST_GIVEN>,
    inputs: usize,
    scalars: usize,
    /// Tensors in memory that were not before, one step after the other; and the most of them.
    new: isize,
    most_new: isize,
}

impl<'a> Segment<'a> {
    fn new(steps: &'a [Step], given: &'a [Given]) -> Self {
        let mut segment = Segment {
            steps,
            given,
            last_of_step: steps.iter().map(|_| None).collect(),
            last_of_given: given.iter().map(|_| None).collect(),
            groups: ArrayVec::new(),
            group_of_given: given.iter().map(|_| None).collect(),
            inputs: 0,
            scalars: 0,
            new: 0,
            most_new: 0,
        };
        for (at, step) in (0..).zip(steps) {
            for &operand in &step.operands {
                match operand {
                    Operand::Given(place) => segment.last_of_given[place as usize] = Some(at),
                    Operand::Step(place) => segment.last_of_step[place as usize] = Some(at),
                }
            }
        }
        segment
    }

    /// Takes the next step in, if a program can have so many inputs and scalars.
    fn add(&mut self, at: u8) -> bool {
        let (before, step) = (&self.steps[..at as usize], &self.steps[at as usize]);
        self.scalars += usize::from(step.has_scalar);
        self.groups.push(at);
        let mut freed = 0;
        for (n, &operand) in step.operands.iter().enumerate() {
            if step.operands[..n].contains(&operand) {
                continue;
            }
            match operand {
                Operand::Step(place) => {
                    self.join(self.groups[place as usize], at);
                    let dies = !self.steps[place as usize].kept;
                    freed += isize::from(dies && self.last_of_step[place as usize] == Some(at));
                }
                Operand::Given(place) => {
                    let given = self.given[place as usize];
                    let is_first = !before.iter().any(|step| step.operands.contains(&operand));
                    self.inputs += usize::from(is_first);
                    if given.is_large {
                        if let Some(group) = self.group_of_given[place as usize] {
                            self.join(group, at);
                        }
                        self.group_of_given[place as usize] = Some(at);
                    }
                    freed += isize::from(given.goes && self.last_of_given[place as usize] == Some(at));
                }
            }
        }
        // What goes makes place for what comes.
        let made = isize::from(!step.reduces);
        self.most_new = self.most_new.max(self.new + isize::from(freed == 0).min(made));
        self.new += made - freed;
        self.inputs <= MAX_FUSED_INPUTS && self.scalars <= MAX_SCALARS
    }

    fn join(&mut self, group: u8, with: u8) {
        let given = self.group_of_given.iter_mut().flatten();
        self.groups.iter_mut().chain(given).filter(|other| **other == group).for_each(|other| *other = with);
    }

    fn is_one(&self) -> bool {
        self.groups.iter().all(|group| *group == self.groups[0])
    }

    /// Whether the steps before `end` can be written by one op, which needs no more new memory than they do.
    fn is_worth_it(&self, end: usize) -> bool {
        let outlives = |at: usize| {
            self.steps[at].kept || self.last_of_step[at].is_some_and(|last| usize::from(last) >= end)
        };
        let outputs = (0..end).filter(|&at| outlives(at)).count();
        let small = self.steps[..end].iter().filter(|step| step.reduces).count();
        let goes = |at: usize| {
            self.given[at].goes && self.last_of_given[at].is_some_and(|last| usize::from(last) < end)
        };
        let in_place = (0..self.given.len()).any(goes);
        let large = outputs - small;
        outputs <= MAX_FUSED_OUTPUTS && large as isize - isize::from(in_place && large > 0) <= self.most_new
    }
}

#[cfg(test)]
mod tests {
    use super::Operand::{Given as G, Step as S};
    use super::*;

    fn step(operands: &[Operand], kept: bool) -> Step {
        Step { operands: operands.iter().copied().collect(), has_scalar: false, kept, reduces: false }
    }

    const STAYS: Given = Given { is_large: true, goes: false };
    const GOES: Given = Given { is_large: true, goes: true };
    const SMALL: Given = Given { is_large: false, goes: false };

    #[test]
    fn a_chain_is_one_op() {
        let steps = [step(&[G(0)], false), step(&[S(0), G(1)], false), step(&[S(1)], true)];
        assert_eq!(first(&steps, &[STAYS, SMALL]), 3);
    }

    #[test]
    fn what_has_nothing_in_common_stays_apart_unless_it_meets() {
        let apart = [step(&[G(0)], true), step(&[G(1)], true)];
        assert_eq!(first(&apart, &[STAYS; 2]), 1);
        assert_eq!(first(&apart, &[SMALL; 2]), 1);
        let meets = [step(&[G(0)], false), step(&[G(1)], false), step(&[S(0), S(1)], true)];
        assert_eq!(first(&meets, &[STAYS; 2]), 3);
        let shared = [step(&[G(0)], true), step(&[G(0)], true)];
        assert_eq!(first(&shared, &[STAYS]), 2);
        let shared = [step(&[G(0), G(1)], true), step(&[G(0), G(2)], true)];
        assert_eq!(first(&shared, &[SMALL, STAYS, STAYS]), 1, "a bias in common is not enough");
    }

    #[test]
    fn a_program_has_so_many_inputs_outputs_and_scalars() {
        let chain = |count: u8, scalars: bool| -> Vec<Step> {
            let next = |at: u8| if at == 0 { step(&[G(0)], false) } else { step(&[S(at - 1), G(at)], false) };
            (0..count).map(|at| Step { has_scalar: scalars, kept: at + 1 == count, ..next(at) }).collect()
        };
        assert_eq!(first(&chain(12, false), &[STAYS; 12]), MAX_FUSED_INPUTS);
        let scalars = |count: u8| -> Vec<Step> {
            let next = |at: u8| if at == 0 { step(&[G(0)], false) } else { step(&[S(at - 1)], false) };
            (0..count).map(|at| Step { has_scalar: true, ..next(at) }).collect()
        };
        let mut steps = scalars(12);
        steps[11].kept = true;
        assert_eq!(first(&steps, &[STAYS]), MAX_SCALARS);
        let kept: Vec<Step> = (0..8).map(|_| step(&[G(0)], true)).collect();
        assert_eq!(first(&kept, &[STAYS]), MAX_FUSED_OUTPUTS);
    }

    #[test]
    fn a_reduction_is_the_end_of_what_it_reads() {
        let sum = |of: Operand| Step { reduces: true, ..step(&[of], true) };
        assert_eq!(first(&[sum(G(0))], &[STAYS]), 1);
        assert_eq!(first(&[step(&[G(0), G(1)], true), step(&[S(0)], false), sum(S(1))], &[STAYS, SMALL]), 3);
        // What it makes takes no memory to speak of.
        assert_eq!(first(&[step(&[G(0)], true), sum(S(0))], &[GOES]), 2);
        let full = [step(&[G(0)], true), step(&[G(0)], true), step(&[G(0)], true), step(&[G(0)], true)];
        let with_end: Vec<Step> = full.into_iter().chain([sum(S(3))]).collect();
        assert_eq!(first(&with_end, &[STAYS]), 4, "it is an output too");
    }

    #[test]
    fn it_takes_no_more_memory_than_one_after_the_other() {
        // Each in place of its own input: together the second could not be.
        let steps = [step(&[G(0)], true), step(&[S(0), G(1)], true)];
        assert_eq!(first(&steps, &[GOES, GOES]), 1);
        // As an average that is kept and used.
        let steps = [step(&[G(0)], false), step(&[G(1)], false), step(&[S(0), S(1)], true)];
        assert_eq!(first(&steps, &[GOES, STAYS]), 3);
    }
}
