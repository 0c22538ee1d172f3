//! The runs of all threads of a device, and which ops join them.

use super::deferred::is_deferred;
use super::reduction::reorders;
use super::run::{FusionRun, StepOp};
use super::tensor::{FusionTarget, FusionTensor, TensorMaker, as_inputs};
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{Inputs, Op, Reduce, View};

/// What of a thread waits.
struct Waiting<T: FusionTensor> {
    run: FusionRun<T>,
    /// Steps of small ops that overtake the run: they are submitted before it, and read nothing of it. There are none
    /// unless something is in the run.
    overtaking: FusionRun<T>,
}

impl<T: FusionTensor> Default for Waiting<T> {
    fn default() -> Self {
        Waiting { run: FusionRun::default(), overtaking: FusionRun::default() }
    }
}

/// The runs of all threads that use a device.
pub struct ThreadRuns<T: FusionTensor> {
    /// By the number of the thread.
    threads: Vec<Waiting<T>>,
    /// The thread that submits now.
    thread: usize,
    /// How many checkpointed scopes it is in.
    scopes: u32,
    /// Whether ops join runs.
    fusion: bool,
}

impl<T: FusionTensor> ThreadRuns<T> {
    /// No runs yet.
    pub fn new(fusion: bool) -> Self {
        ThreadRuns { threads: Vec::new(), thread: 0, scopes: 0, fusion }
    }

    /// From now on the thread of this number submits, inside this many checkpointed scopes.
    pub fn enter(&mut self, thread: usize, scopes: u32) {
        (self.thread, self.scopes) = (thread, scopes);
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Waiting::default);
        }
    }

    /// How many threads may have runs; they are numbered from 0 on.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Ends the run of the thread that submits.
    pub fn end_current(&mut self, target: &mut FusionTarget<'_, T>) -> Result<(), Error> {
        self.end(target, self.thread)
    }

    /// Ends the run of a thread: submits what waits there.
    pub fn end(&mut self, target: &mut FusionTarget<'_, T>, thread: usize) -> Result<(), Error> {
        self.end_overtaking(target, thread)?;
        self.submit(target, thread, |waiting| &mut waiting.run)
    }

    /// Submits what has overtaken the run of a thread.
    fn end_overtaking(&mut self, target: &mut FusionTarget<'_, T>, thread: usize) -> Result<(), Error> {
        self.submit(target, thread, |waiting| &mut waiting.overtaking)
    }

    fn submit(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        thread: usize,
        run: impl FnOnce(&mut Waiting<T>) -> &mut FusionRun<T>,
    ) -> Result<(), Error> {
        let run = run(&mut self.threads[thread]);
        if run.is_empty() {
            return Ok(());
        }
        target.pool.enter(thread, run.scopes());
        let submitted = run.submit(target);
        // The run may have been the last to hold its inputs.
        target.maker.release_dropped(target.pool);
        target.pool.enter(self.thread, self.scopes);
        submitted
    }

    /// Ends the run, of whichever thread, that makes a tensor.
    pub fn end_run_of(&mut self, target: &mut FusionTarget<'_, T>, tensor: &T) -> Result<(), Error> {
        if tensor.try_id().is_some() {
            return Ok(());
        }
        for thread in 0..self.threads.len() {
            if self.threads[thread].overtaking.promises(tensor) {
                return self.end_overtaking(target, thread);
            }
            if self.threads[thread].run.promises(tensor) {
                return self.end(target, thread);
            }
        }
        Ok(())
    }

    /// Ends the runs that end before an op that is submitted by itself.
    pub fn make_way(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        op: &Op,
        tensors: &[T],
    ) -> Result<(), Error> {
        if !self.lets_pass(op, tensors) {
            self.end_current(target)?;
        }
        tensors.iter().try_for_each(|tensor| self.end_run_of(target, tensor))
    }

    /// Has an op wait for others, or ends the run in it. Takes the tensors and returns the promise of its result; or
    /// returns nothing if the op is to be submitted by itself.
    pub fn fuse(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        op: &Op,
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        if !self.fusion {
            return Ok(None);
        }
        if let Some(step) = StepOp::of(op, tensors) {
            return self.push(target, step, (op, tensors));
        }
        match *op {
            Op::Reduce { kind: kind @ (Reduce::Sum | Reduce::Mean), axis } => {
                self.reduce(target, (kind, axis), tensors)
            }
            _ if is_deferred(op) => self.defer(target, op, tensors),
            _ if reorders(op, tensors) => self.copy(target, op, tensors),
            _ => Ok(None),
        }
    }

    /// The run of the thread that submits.
    fn current(&mut self) -> &mut FusionRun<T> {
        &mut self.threads[self.thread].run
    }

    /// Whether an op may be submitted before the run of the thread.
    fn lets_pass(&self, op: &Op, tensors: &[T]) -> bool {
        let run = &self.threads[self.thread].run;
        run.scopes() == self.scopes && run.lets_pass(op, tensors)
    }

    /// Takes an elementwise op in as the next step of the thread's run, or of what overtakes it.
    fn push(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        step: StepOp,
        (op, tensors): (&Op, &mut Inputs<T>),
    ) -> Result<Option<T>, Error> {
        let (scopes, thread) = (self.scopes, self.thread);
        let overtakes = !self.current().continues(&step, tensors, scopes) && self.lets_pass(op, tensors);
        if !self.joined(overtakes).continues(&step, tensors, scopes) {
            match overtakes {
                true => self.end_overtaking(target, thread)?,
                false => self.end_current(target)?,
            }
            self.joined(overtakes).begin(Some(step.made), scopes);
        }
        for tensor in tensors.iter().filter(|tensor| tensor.try_id().is_none()) {
            if !self.joined(overtakes).has_whole(tensor) {
                self.end_run_of(target, tensor)?;
            }
        }
        // An op that does not fit the budget is submitted by itself, so that its own call reports the error.
        let (run, pool) = (self.joined(overtakes), &mut *target.pool);
        let is_allowed = pool.has_allowed(run.max_need_bytes(pool, tensors)) || {
            let need_bytes = run.need_bytes(pool, &step.made, tensors);
            pool.allows(need_bytes)
        };
        if !is_allowed {
            return Ok(None);
        }
        Ok(Some(run.push(target.maker, step, tensors.drain(..))))
    }

    /// The run that the next step joins: that of the thread, or what overtakes it.
    fn joined(&mut self, overtakes: bool) -> &mut FusionRun<T> {
        let waiting = &mut self.threads[self.thread];
        if overtakes { &mut waiting.overtaking } else { &mut waiting.run }
    }

    /// Takes a copy in another order in, which may be reduced next.
    fn copy(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        op: &Op,
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        let (scopes, from) = (self.scopes, &tensors[0]);
        let made = View::contiguous(from.view().dtype, *from.view().shape());
        let joins = self.current().scopes() == scopes && self.current().can_copy(from);
        if !joins && (self.lets_pass(op, tensors) || from.try_id().is_none()) {
            return Ok(None);
        }
        let read_bytes = from.try_id().map_or(made.size_bytes(), |id| target.pool.size_bytes(id));
        // As in `push`.
        if !target.pool.allows(aligned(read_bytes) + aligned(made.size_bytes())) {
            return Ok(None);
        }
        if !joins {
            self.end_current(target)?;
            self.current().begin(Some(made), scopes);
        }
        Ok(Some(self.current().copy(target.maker, *op, tensors.swap_remove(0))))
    }

    /// Ends the thread's run in a reduction, unless that cannot be.
    fn reduce(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        reduce: (Reduce, usize),
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        let run = &mut self.threads[self.thread].run;
        if run.scopes() != self.scopes {
            return Ok(None);
        }
        match run.reduce(target, reduce, tensors.swap_remove(0)) {
            Err(tensor) => {
                tensors.push(tensor);
                Ok(None)
            }
            Ok(promised) => {
                self.end_current(target)?;
                Ok(Some(promised))
            }
        }
    }

    /// Has a gradient wait for others that read the same tensors.
    fn defer(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        op: &Op,
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        let scopes = self.scopes;
        self.end_current(target)?;
        tensors.iter().try_for_each(|tensor| self.end_run_of(target, tensor))?;
        // As in `push`.
        if !target.pool.allows_op(op, &as_inputs(tensors)) {
            return Ok(None);
        }
        Ok(Some(self.current().defer(target.maker, *op, std::mem::take(tensors), scopes)))
    }
}
