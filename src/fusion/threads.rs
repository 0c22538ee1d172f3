//! The runs of all threads of a device, and which ops join them.

use super::again::store;
use super::deferred::is_deferred;
use super::reduction::reorders;
use super::run::{FusionRun, StepOp};
use super::shelf::Shelf;
use super::tensor::{FusionTarget, FusionTensor, TensorMaker, as_inputs};
use crate::engine::aligned;
use crate::error::Error;
use crate::module;
use crate::op::{Binary, Inputs, Op, Reduce, View};

/// What of a thread waits.
struct Waiting<T: FusionTensor> {
    run: FusionRun<T>,
    /// Steps of small ops that overtake the run: they are submitted before it, and read nothing of it. There are none
    /// unless something is in the run.
    overtaking: FusionRun<T>,
    /// Results of both that are not stored.
    shelf: Shelf<T>,
}

impl<T: FusionTensor> Default for Waiting<T> {
    fn default() -> Self {
        Waiting { run: FusionRun::default(), overtaking: FusionRun::default(), shelf: Shelf::default() }
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

    /// Forgets the unstored results that nobody can ask for any more.
    pub fn sweep(&mut self) {
        self.threads.iter_mut().for_each(|waiting| waiting.shelf.sweep());
    }

    /// Ends the run of the thread that submits, because something reads these tensors.
    pub fn end_current(&mut self, target: &mut FusionTarget<'_, T>, read: &[T]) -> Result<(), Error> {
        self.end(target, self.thread, read)
    }

    /// Ends the run of a thread: submits what waits there, except for results that can be computed again and that nothing
    /// reads now.
    pub fn end(&mut self, target: &mut FusionTarget<'_, T>, thread: usize, read: &[T]) -> Result<(), Error> {
        self.end_overtaking(target, thread, read)?;
        self.submit(target, thread, read, |waiting| (&mut waiting.run, &mut waiting.shelf))
    }

    /// Submits what has overtaken the run of a thread.
    fn end_overtaking(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        thread: usize,
        read: &[T],
    ) -> Result<(), Error> {
        self.submit(target, thread, read, |waiting| (&mut waiting.overtaking, &mut waiting.shelf))
    }

    fn submit(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        thread: usize,
        read: &[T],
        run: impl FnOnce(&mut Waiting<T>) -> (&mut FusionRun<T>, &mut Shelf<T>),
    ) -> Result<(), Error> {
        let (run, shelf) = run(&mut self.threads[thread]);
        if run.is_empty() {
            return Ok(());
        }
        target.pool.enter(thread, run.scopes());
        let _module = module::within(run.module());
        run.shelve(shelf, read, target);
        let submitted = run.submit(target);
        // The run may have been the last to hold its inputs.
        target.maker.release_dropped(target.pool);
        target.pool.enter(self.thread, self.scopes);
        submitted
    }

    /// Ends the run, of whichever thread, that makes a tensor; or has it stored.
    pub fn end_run_of(&mut self, target: &mut FusionTarget<'_, T>, tensor: &T) -> Result<(), Error> {
        if tensor.try_id().is_some() {
            return Ok(());
        }
        let read = std::slice::from_ref(tensor);
        for thread in 0..self.threads.len() {
            let waiting = &mut self.threads[thread];
            if waiting.shelf.awaits(tensor) {
                self.end(target, thread, read)?;
            }
            let waiting = &mut self.threads[thread];
            if waiting.shelf.has(tensor) {
                target.pool.enter(thread, 0);
                let made = store(&mut waiting.shelf, target, tensor);
                target.maker.release_dropped(target.pool);
                target.pool.enter(self.thread, self.scopes);
                return made;
            }
            if waiting.overtaking.promises(tensor) {
                return self.end_overtaking(target, thread, read);
            }
            if waiting.run.promises(tensor) {
                return self.end(target, thread, read);
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
            self.end_current(target, tensors)?;
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
        if let Some(step) = StepOp::of(op, tensors)
            && !self.reads_signs(op, tensors)
        {
            let promised = match self.threads[self.thread].shelf.result(op, tensors) {
                Some(result) => Some(result.with_layout(step.made.layout)),
                None => self.push_narrow(target, &step, (op, tensors))?,
            };
            if promised.is_some() {
                tensors.clear();
                return Ok(promised);
            }
            return self.push(target, step, (op, tensors));
        }
        match *op {
            Op::Reduce { kind: kind @ (Reduce::Sum | Reduce::Mean | Reduce::Max), axis } => {
                self.reduce(target, (kind, axis), tensors)
            }
            _ if is_deferred(op) => self.defer(target, op, tensors),
            _ if reorders(op, tensors) => self.copy(target, op, tensors),
            _ => Ok(None),
        }
    }

    /// Whether an op by itself reads what signs can stand for.
    fn reads_signs(&self, op: &Op, tensors: &[T]) -> bool {
        *op == Op::Binary(Binary::ReluBackward) && !self.threads[self.thread].shelf.has(&tensors[0])
    }

    /// The run of the thread that submits.
    pub(super) fn current(&mut self) -> &mut FusionRun<T> {
        &mut self.threads[self.thread].run
    }

    /// The run of the thread that submits, its shelf, and how many checkpointed scopes it is in.
    pub(super) fn waiting(&self) -> (&FusionRun<T>, &Shelf<T>, u32) {
        let Waiting { run, shelf, .. } = &self.threads[self.thread];
        (run, shelf, self.scopes)
    }

    /// Begins a run of steps that make this; none waits.
    pub(super) fn begin(&mut self, view: View) {
        let scopes = self.scopes;
        self.current().begin(Some(view), scopes);
    }

    /// Whether an op may be submitted before the run of the thread.
    pub(super) fn lets_pass(&self, op: &Op, tensors: &[T]) -> bool {
        let run = &self.threads[self.thread].run;
        run.scopes() == self.scopes && run.lets_pass(op, tensors)
    }

    /// Takes an elementwise op in as the next step of the thread's run, or of what overtakes it.
    pub(super) fn push(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        step: StepOp,
        (op, tensors): (&Op, &mut Inputs<T>),
    ) -> Result<Option<T>, Error> {
        let (scopes, thread) = (self.scopes, self.thread);
        let Waiting { run, overtaking, shelf } = &self.threads[thread];
        let continues = run.continues(shelf, &step, tensors, scopes);
        let overtakes = !continues && self.lets_pass(op, tensors);
        if !(continues || overtakes && overtaking.continues(shelf, &step, tensors, scopes)) {
            match overtakes {
                true => self.end_overtaking(target, thread, tensors)?,
                false => self.end_current(target, tensors)?,
            }
            self.joined(overtakes).0.begin(Some(step.made), scopes);
        }
        for tensor in tensors.iter().filter(|tensor| tensor.try_id().is_none()) {
            let (run, shelf) = self.joined(overtakes);
            if !run.has_whole(shelf, tensor) || shelf.awaits(tensor) {
                self.end_run_of(target, tensor)?;
            }
        }
        // An op that does not fit the budget is submitted by itself, so that its own call reports the error.
        let pool = &mut *target.pool;
        let (run, shelf) = self.joined(overtakes);
        let most_bytes = run.max_need_bytes(pool, tensors);
        let is_allowed = pool.has_allowed(most_bytes) || {
            // What is not stored may be computed from a tensor whose memory the op cannot take.
            let is_stored = shelf.steps(tensors) == 0;
            let need_bytes = if is_stored { run.need_bytes(pool, &step.made, tensors) } else { most_bytes };
            pool.allows(need_bytes)
        };
        if !is_allowed {
            return Ok(None);
        }
        Ok(Some(run.push(target.maker, shelf, step, tensors.drain(..))))
    }

    /// The run that the next step joins: that of the thread, or what overtakes it.
    pub(super) fn joined(&mut self, overtakes: bool) -> (&mut FusionRun<T>, &Shelf<T>) {
        let waiting = &mut self.threads[self.thread];
        let run = if overtakes { &mut waiting.overtaking } else { &mut waiting.run };
        (run, &waiting.shelf)
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
            self.end_current(target, tensors)?;
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
        if let Some(promised) = self.reduce_rows(target, reduce, tensors)? {
            return Ok(Some(promised));
        }
        self.end_rows(target, &tensors[0])?;
        let Waiting { run, shelf, .. } = &mut self.threads[self.thread];
        if run.scopes() != self.scopes {
            return Ok(None);
        }
        match run.reduce(target, shelf, reduce, tensors.swap_remove(0)) {
            Err(tensor) => {
                tensors.push(tensor);
                Ok(None)
            }
            Ok(promised) => {
                self.end_current(target, &[])?;
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
        self.end_current(target, tensors)?;
        tensors.iter().try_for_each(|tensor| self.end_run_of(target, tensor))?;
        // As in `push`.
        if !target.pool.allows_op(op, &as_inputs(tensors)) {
            return Ok(None);
        }
        Ok(Some(self.current().defer(target.maker, *op, std::mem::take(tensors), scopes)))
    }
}
