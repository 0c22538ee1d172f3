//! Results that are not stored. What cheap steps make of one large tensor takes a kernel no more memory traffic to compute
//! again than to read. When a run ends, such results go to the thread's shelf with what they are computed from. A later step
//! that reads one computes it for itself; anything else that reads one has it stored. So the values that Burn's batch norm
//! keeps for its gradient are never in memory beside the norm's input.

use arrayvec::ArrayVec;

use super::partition::StepInput;
use super::run::{FusionRun, MAX_SMALL_BYTES, MIN_RATIO_TO_OVERTAKE, WaitingStep};
use super::shelf::{Shelf, Shelved};
use super::tensor::{FusionTarget, FusionTensor, Promise, TensorMaker};
use crate::error::Error;
use crate::op::{Binary, Dtype, MAX_STEPS, StepKind, Unary};
use crate::pool::Pool;

/// The most steps that a result on the shelf takes.
const MAX_STEPS_AGAIN: usize = 6;

/// What a result can be computed again from.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// The only large tensor, if there is one: an external one, or what a step stores.
    large: Option<StepInput>,
    /// How many steps that takes.
    steps: usize,
}

impl Again {
    /// From what two values can be computed again.
    fn and(self, other: Again) -> Option<Again> {
        let large = match (self.large, other.large) {
            (Some(one), Some(two)) if one != two => return None,
            (one, two) => one.or(two),
        };
        Some(Again { large, steps: self.steps + other.steps })
    }

    /// What one step more makes of it.
    fn step(self) -> Option<Again> {
        let steps = self.steps + 1;
        (steps <= MAX_STEPS_AGAIN).then_some(Again { steps, ..self })
    }
}

/// Whether a kernel computes a step again in less time than it reads a result from memory. Arithmetic always is such a step. On a
/// GPU, functions of `f32` are too; a result of 16 bits is read in half the time.
fn is_cheap(kind: StepKind, dtype: Dtype, pool: &Pool) -> bool {
    use {Binary as B, Unary as U};
    match kind {
        StepKind::Unary(U::Neg | U::Abs | U::Square | U::Cube | U::Relu) | StepKind::MaskFill => true,
        StepKind::Unary(U::Exp | U::Log | U::Sqrt | U::Recip | U::Tanh | U::Erf | U::Sigmoid) => {
            dtype == Dtype::F32 && pool.is_gpu()
        }
        StepKind::Draw => pool.is_gpu(),
        StepKind::Unary(_) | StepKind::Row(_) => false,
        StepKind::Binary(kind) => {
            matches!(kind, B::Add | B::Sub | B::Mul | B::Div | B::Max | B::Min | B::ReverseSub)
        }
    }
}

impl<T: FusionTensor> FusionRun<T> {
    /// Puts the results of steps that can be computed again on the shelf, but for these tensors, which something is about to
    /// read. The run itself makes them no longer, except for its other steps.
    pub fn shelve(&mut self, shelf: &mut Shelf<T>, asked: &[T], target: &FusionTarget<'_, T>) {
        self.unshelve_copied(shelf);
        let Some(whole) = self.view.filter(|view| view.size_bytes() > MAX_SMALL_BYTES) else { return };
        if self.scopes() > 0 {
            return;
        }
        let stays = self.stays(target.pool, asked);
        let mut results = ArrayVec::<Option<T>, MAX_STEPS>::new();
        for (at, stays) in stays.into_iter().enumerate().take(self.steps.len()) {
            let Some(steps) = stays else {
                results.push(None);
                continue;
            };
            let read = self.steps[at].inputs.clone();
            let inputs = read.into_iter().map(|input| match input {
                StepInput::Step(from) if self.steps[from as usize].is_row => {
                    self.row_result(target.maker, from as usize)
                }
                StepInput::Step(from) => match &results[from as usize] {
                    Some(shelved) => shelved.clone(),
                    None => self.steps[from as usize].promise.tensor().expect("it is stored"),
                },
                StepInput::External(place) => self.external(place).clone(),
            });
            let inputs = inputs.collect();
            let step = &mut self.steps[at];
            let promised = step.promise.tensor();
            if step.is_shelved && promised.is_some() {
                results.push(promised);
                continue;
            }
            let promised = promised.unwrap_or_else(|| target.maker.promise(whole));
            promised.note_shelved();
            (step.promise, step.is_shelved) = (Promise::of(&promised), true);
            let WaitingStep { op, kind, .. } = *step;
            let (scalars, promise) = (step.scalars.clone(), Promise::of(&promised));
            shelf.put(Shelved { op, kind, scalars, inputs, made: whole, promise, steps });
            results.push(Some(promised));
        }
    }

    /// Has the run make what its copy reads.
    fn unshelve_copied(&mut self, shelf: &mut Shelf<T>) {
        let Some(from) = self.copy.as_ref().map(|copy| copy.from()) else { return };
        if let Some((at, _)) = self.step_of(from).zip(shelf.take(from)) {
            self.steps[at].is_shelved = false;
        }
    }

    /// For each step whose result is to be computed again, how many steps that takes. The program must hold the result, or
    /// another result that is to be computed again from it.
    fn stays(&self, pool: &Pool, asked: &[T]) -> [Option<usize>; MAX_STEPS] {
        let dtype = self.view.map(|view| view.dtype);
        let copied = self.copy.as_ref().map(|copy| copy.from());
        let is_stored =
            |step: &WaitingStep<T>| asked.iter().chain(copied).any(|tensor| step.promise.is_for(tensor));
        let mut again = ArrayVec::<Option<Again>, MAX_STEPS>::new();
        for step in &self.steps {
            let mut inputs = step.inputs.iter().map(|&input| match input {
                // It is stored: there is little of it.
                StepInput::Step(at) if self.steps[at as usize].is_row => {
                    Some(Again { large: None, steps: 0 })
                }
                StepInput::Step(at) => again[at as usize].or_else(|| {
                    let WaitingStep { promise, is_shelved, .. } = &self.steps[at as usize];
                    let is_stored = promise.is_wanted() && !is_shelved;
                    is_stored.then_some(Again { large: Some(input), steps: 0 })
                }),
                StepInput::External(at) => self.read_again(pool, at),
            });
            let of_inputs = inputs.try_fold(Again { large: None, steps: 0 }, |of, input| of.and(input?));
            let is_cheap = dtype.is_some_and(|dtype| is_cheap(step.kind, dtype, pool));
            let is_cheap = is_cheap && !step.is_row;
            again.push(of_inputs.and_then(Again::step).filter(|_| is_cheap && !is_stored(step)));
        }
        let (mut stays, mut is_read) = ([None; MAX_STEPS], [false; MAX_STEPS]);
        for (at, step) in self.steps.iter().enumerate().rev() {
            let is_kept = step.promise.is_wanted() || is_read[at];
            stays[at] = again[at].filter(|_| is_kept).map(|again| again.steps);
            for input in step.inputs.iter().filter(|_| stays[at].is_some()) {
                if let StepInput::Step(at) = *input {
                    is_read[at as usize] = true;
                }
            }
        }
        stays
    }

    /// An external tensor as what a result can be computed again from. Its storage must not be larger than the result.
    fn read_again(&self, pool: &Pool, place: u8) -> Option<Again> {
        let made_bytes = self.view.map_or(0, |view| view.size_bytes());
        match pool.size_bytes(self.external(place).try_id()?) {
            bytes if bytes <= made_bytes / MIN_RATIO_TO_OVERTAKE => Some(Again { large: None, steps: 0 }),
            bytes if bytes <= made_bytes => Some(Again { large: Some(StepInput::External(place)), steps: 0 }),
            _ => None,
        }
    }
}

/// Has a tensor stored that is on the shelf. After an error it is still there.
pub fn store<T: FusionTensor>(
    shelf: &mut Shelf<T>,
    target: &mut FusionTarget<'_, T>,
    tensor: &T,
) -> Result<(), Error> {
    let Some(shelved) = shelf.take(tensor) else { return Ok(()) };
    let mut run = FusionRun::default();
    run.begin(Some(shelved.made), 0);
    let place = usize::from(run.compute_again(shelf, &shelved));
    (run.steps[place].promise, run.steps[place].is_shelved) = (shelved.promise.clone(), false);
    // What was there for this result alone is in the way of taking its memory.
    drop(shelved);
    shelf.sweep();
    let submitted = run.submit(target);
    if submitted.is_err() {
        run.shelve(shelf, &[], target);
    }
    submitted
}
