//! The front door: run an op, read, write, sync. Each device has one runtime: an engine, a pool under a short lock, and
//! the queue of dropped handles.

mod beside;
mod collect;
mod defer;
mod ending;
mod exit;
mod pace;
#[doc(hidden)]
pub mod paper_figures;
mod registry;
mod scope;
mod segments;
mod tensor;
mod thread;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::SegQueue;
use smallvec::SmallVec;

use collect::{AsStep, Run};
use pace::Pace;
pub(crate) use registry::portrait;
pub use registry::{configure, recording, reset_stats, stats};
#[doc(hidden)]
pub use registry::{configure_with_engine, pinned_storages};
pub use scope::{Scope, keep_result};
pub use tensor::Tensor;

use crate::OvercommitDevice;
use crate::config::{Fusion, Planning, Supply};
use crate::engine::{Engine, EngineError, aligned};
use crate::error::Error;
use crate::op::{Dtype, Inputs, Op, PerOutput, Reduce, Shape, Traced, View, bytes_view};
use crate::planner::{self, PlanRequest};
use crate::pool::{Input, Pool, StorageId};
use crate::schedule::Log;

/// One device at work.
pub struct Runtime {
    device: OvercommitDevice,
    engine: Arc<dyn Engine>,
    front: Mutex<Front>,
    /// Which elementwise ops wait for others.
    fuses: Fusion,
    /// Whether the engine is told what comes.
    prepares: bool,
    /// Storages whose last handle went; a `Drop` may happen anywhere, also under Burn's graph lock, so it only queues.
    dropped: SegQueue<StorageId>,
    seed: AtomicU64,
    drawn: AtomicU64,
    supply: Supply,
    pace: Pace,
}

/// One line: everything in it would fill pages.
impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({})", self.device)
    }
}

/// What the lock guards.
#[derive(Debug)]
struct Front {
    pool: Pool,
    /// By the number of the thread, what of its ops waits.
    runs: Vec<Run>,
    /// The thread that has the lock.
    thread: usize,
    scopes: u32,
}

impl Front {
    /// The run of the thread that has the lock.
    fn run(&mut self) -> &mut Run {
        &mut self.runs[self.thread]
    }

    /// Whether an op may be submitted before what waits of the thread's.
    fn lets_pass(&mut self, op: &Op, tensors: &[Tensor]) -> bool {
        let scopes = self.scopes;
        let run = self.run();
        run.scopes() == scopes && run.lets_pass(op, tensors)
    }
}

/// The seed until one is set: fixed, so that a program without a seed is repeatable too.
const DEFAULT_SEED: u64 = 0x6f76_6572_636f_6d6d;

impl Runtime {
    fn new(device: OvercommitDevice, engine: Arc<dyn Engine>, pool: Pool, supply: Supply) -> Self {
        Runtime {
            device,
            prepares: engine.prepares(),
            engine,
            fuses: pool.settings.fusion,
            front: Mutex::new(Front { pool, runs: Vec::new(), thread: 0, scopes: 0 }),
            dropped: SegQueue::new(),
            seed: AtomicU64::new(DEFAULT_SEED),
            drawn: AtomicU64::new(0),
            supply,
            pace: Pace::default(),
        }
    }

    /// The pool and what waits, with all dropped handles taken account of, in the order of their ids.
    fn lock(&self) -> MutexGuard<'_, Front> {
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        self.release_dropped(&mut front.pool);
        (front.thread, front.scopes) = (thread::number(), scope::depth());
        if front.runs.len() <= front.thread {
            let count = front.thread + 1;
            front.runs.resize_with(count, Run::default);
        }
        let (thread, scopes) = (front.thread, front.scopes);
        front.pool.enter(thread, scopes);
        front
    }

    fn release_dropped(&self, pool: &mut Pool) {
        // Most often there are none or a few.
        let mut dropped = SmallVec::<[StorageId; 32]>::new();
        dropped.extend(std::iter::from_fn(|| self.dropped.pop()));
        dropped.sort_unstable();
        dropped.into_iter().for_each(|id| pool.release(id));
    }

    /// The same once nothing of this thread waits, nor what makes these tensors.
    fn settled<'a>(
        self: &'a Arc<Self>,
        tensors: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<MutexGuard<'a, Front>, Error> {
        let mut front = self.lock();
        let thread = front.thread;
        self.end_run(&mut front, thread)?;
        tensors.into_iter().try_for_each(|tensor| self.end_run_of(&mut front, tensor))?;
        Ok(front)
    }

    /// The same once nothing waits.
    fn all_settled(self: &Arc<Self>) -> Result<MutexGuard<'_, Front>, Error> {
        let mut front = self.lock();
        (0..front.runs.len()).try_for_each(|thread| self.end_run(&mut front, thread))?;
        Ok(front)
    }

    /// The same but for what finds no memory, which waits on: that is not told here, but when the program next asks for it.
    fn settled_as_far_as_can_be(self: &Arc<Self>) -> Result<MutexGuard<'_, Front>, Error> {
        let mut front = self.lock();
        for thread in 0..front.runs.len() {
            let refused = front.pool.refused_ops();
            match self.end_run(&mut front, thread) {
                Err(error) if error.is_out_of_memory() => front.pool.refused_only(refused),
                submitted => submitted?,
            }
        }
        Ok(front)
    }

    /// Submits what waits of a thread's ops.
    fn end_run(self: &Arc<Self>, front: &mut Front, thread: usize) -> Result<(), Error> {
        let Front { pool, runs, .. } = front;
        let run = &mut runs[thread];
        if run.is_empty() {
            return Ok(());
        }
        pool.enter(thread, run.scopes());
        let submitted = run.submit(self, pool);
        // What the run had and nobody else has any more.
        self.release_dropped(pool);
        pool.enter(front.thread, front.scopes);
        submitted
    }

    /// Submits what makes a tensor, if that waits.
    fn end_run_of(self: &Arc<Self>, front: &mut Front, tensor: &Tensor) -> Result<(), Error> {
        if tensor.try_id().is_some() {
            return Ok(());
        }
        let thread = front.runs.iter().position(|run| run.promises(tensor));
        thread.map_or(Ok(()), |thread| self.end_run(front, thread))
    }

    /// Takes an op in as the next of the thread's run, with its tensors, unless it is to be submitted by itself.
    fn collect(
        self: &Arc<Self>,
        front: &mut Front,
        op: &Op,
        step: AsStep,
        tensors: &mut Inputs<Tensor>,
    ) -> Result<Option<Tensor>, Error> {
        let (thread, scopes) = (front.thread, front.scopes);
        let made = View::contiguous(tensors[0].dtype(), *tensors[0].shape());
        if !front.run().continues(&made, scopes) {
            if front.lets_pass(op, tensors) {
                return Ok(None);
            }
            self.end_run(front, thread)?;
            front.run().begin(Some(made), scopes);
        }
        for tensor in tensors.iter().filter(|tensor| tensor.try_id().is_none()) {
            if !front.run().has_whole(tensor) {
                self.end_run_of(front, tensor)?;
            }
        }
        // What is refused is refused at once.
        let run = &front.runs[thread];
        let is_allowed = front.pool.has_allowed(run.most_bytes(&front.pool, tensors)) || {
            let need_bytes = run.need_bytes(&front.pool, tensors);
            front.pool.allows(need_bytes)
        };
        if !is_allowed {
            return Ok(None);
        }
        Ok(Some(front.run().push(self, *op, step, tensors.drain(..))))
    }

    /// Takes a copy in another order in, which may be reduced next, with its tensor, unless it is to be submitted by itself.
    fn collect_copy(
        self: &Arc<Self>,
        front: &mut Front,
        op: &Op,
        tensors: &mut Inputs<Tensor>,
    ) -> Result<Option<Tensor>, Error> {
        let (thread, scopes, from) = (front.thread, front.scopes, &tensors[0]);
        let made = View::contiguous(from.dtype(), *from.shape());
        let joins = front.run().scopes() == scopes && front.run().can_copy(from);
        if !joins && (front.lets_pass(op, tensors) || from.try_id().is_none()) {
            return Ok(None);
        }
        let read_bytes = from.try_id().map_or(made.size_bytes(), |id| front.pool.size_bytes(id));
        // What is refused is refused at once.
        if !front.pool.allows(aligned(read_bytes) + aligned(made.size_bytes())) {
            return Ok(None);
        }
        if !joins {
            self.end_run(front, thread)?;
            front.run().begin(Some(made), scopes);
        }
        Ok(Some(front.run().copy(self, *op, tensors.swap_remove(0))))
    }

    /// Submits what waits with a reduction of it as its end, unless that cannot be.
    fn end_in(
        self: &Arc<Self>,
        front: &mut Front,
        reduce: (Reduce, usize),
        tensors: &mut Inputs<Tensor>,
    ) -> Result<Option<Tensor>, Error> {
        let Front { pool, runs, thread, scopes } = front;
        let run = &mut runs[*thread];
        if run.scopes() != *scopes {
            return Ok(None);
        }
        match run.end_in(self, pool, reduce, tensors.swap_remove(0)) {
            Err(tensor) => {
                tensors.push(tensor);
                Ok(None)
            }
            Ok(made) => {
                let thread = *thread;
                self.end_run(front, thread)?;
                Ok(Some(made))
            }
        }
    }

    /// Has an op wait, with its tensors, for those that read what it reads, unless it is to be submitted by itself.
    fn defer(
        self: &Arc<Self>,
        front: &mut Front,
        op: &Op,
        tensors: &mut Inputs<Tensor>,
    ) -> Result<Option<Tensor>, Error> {
        let (thread, scopes) = (front.thread, front.scopes);
        self.end_run(front, thread)?;
        tensors.iter().try_for_each(|tensor| self.end_run_of(front, tensor))?;
        // What is refused is refused at once.
        if !front.pool.allows_op(op, &defer::as_inputs(tensors)) {
            return Ok(None);
        }
        Ok(Some(front.run().defer(self, *op, std::mem::take(tensors), scopes)))
    }

    /// Has an op wait, with its tensors, for others, or others that wait end in it, unless it is to be submitted by itself.
    fn fuse(
        self: &Arc<Self>,
        front: &mut Front,
        op: &Op,
        tensors: &mut Inputs<Tensor>,
    ) -> Result<Option<Tensor>, Error> {
        if let Some(step) = self.as_step(op, tensors) {
            return self.collect(front, op, step, tensors);
        }
        let fuses_all = self.fuses == Fusion::All;
        match *op {
            Op::Reduce { kind: kind @ (Reduce::Sum | Reduce::Mean), axis } if fuses_all => {
                self.end_in(front, (kind, axis), tensors)
            }
            _ if defer::waits(op) => self.defer(front, op, tensors),
            _ if fuses_all && ending::reorders(op, tensors) => self.collect_copy(front, op, tensors),
            _ => Ok(None),
        }
    }

    /// How an op on these tensors is a step of a run, if it is to be one.
    fn as_step(&self, op: &Op, tensors: &[Tensor]) -> Option<AsStep> {
        let is_wanted = match self.fuses {
            Fusion::Off => false,
            Fusion::InOrder => tensors.iter().all(|tensor| tensor.layout().is_contiguous()),
            Fusion::All => true,
        };
        is_wanted.then(|| collect::as_step(op, tensors)).flatten()
    }

    /// Gets the engine ready for an op, and for those that it may become part of.
    fn prepare(&self, op: &Op, tensors: &[Tensor]) {
        self.engine.prepare(op, &mut tensors.iter().map(Tensor::view));
        let fused = match *op {
            Op::Reduce { kind: kind @ (Reduce::Sum | Reduce::Mean), axis } if self.fuses == Fusion::All => {
                Some(ending::sample(kind, axis)).filter(|_| tensors[0].dtype().is_float())
            }
            _ => self.as_step(op, tensors).map(|_| collect::sample()),
        };
        if let Some(fused) = fused {
            self.engine.prepare(&fused, &mut tensors.iter().take(1).map(Tensor::view));
        }
    }

    fn submit(self: &Arc<Self>, op: &Op, mut tensors: Inputs<Tensor>) -> Result<PerOutput<Tensor>, Error> {
        // Outside the lock: this may wait.
        self.pace.keep(&*self.engine).map_err(|error| self.engine_error(error))?;
        if self.prepares {
            self.prepare(op, &tensors);
        }
        let mut front = self.lock();
        if self.fuses != Fusion::Off
            && let Some(promised) = self.fuse(&mut front, op, &mut tensors)?
        {
            return Ok([promised].into_iter().collect());
        }
        let thread = front.thread;
        if !front.lets_pass(op, &tensors) {
            self.end_run(&mut front, thread)?;
        }
        tensors.iter().try_for_each(|tensor| self.end_run_of(&mut front, tensor))?;
        let inputs: Inputs<Input> = tensors.into_iter().map(Tensor::into_input).collect();
        let outputs = front.pool.run(op, &inputs)?;
        if let Err(error) = self.plan_what_was_learned(&mut front.pool) {
            outputs.iter().for_each(|&(id, _)| front.pool.release(id));
            return Err(error);
        }
        drop(front);
        Ok(outputs.into_iter().map(|(id, view)| Tensor::new(self.clone(), id, view)).collect())
    }

    /// Plans an iteration, if the program has shown one that is worth it.
    fn plan_what_was_learned(self: &Arc<Self>, pool: &mut Pool) -> Result<(), Error> {
        if pool.settings.planning != Planning::Off
            && let Some((log, period)) = pool.learned()?
        {
            self.plan(pool, log, period);
        }
        Ok(())
    }

    /// Plans an iteration: beside the program, or at once where no time passes or the same decisions are wanted every time.
    fn plan(self: &Arc<Self>, pool: &mut Pool, log: Log, period: usize) {
        let settings = pool.settings.clone();
        if self.engine.times().is_some() || pool.settings.planning == Planning::AtOnce {
            let mut best = None;
            let props = self.engine.props();
            let request = PlanRequest { log: &log, period, props, settings: &settings, throttle: 0 };
            planner::plan(&request, |schedule| {
                best = Some(schedule);
                true
            });
            best.into_iter()
                .for_each(|schedule| pool.follow(log.plan, Arc::new(schedule), log.stream, false));
            return;
        }
        if let Err(error) = beside::plan(self, settings, log, period) {
            pool.settings.log(log::Level::Warn, format_args!("no thread to plan with: {error}"));
        }
    }

    fn engine_error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.device, source }
    }

    /// Waits for all work submitted so far, as the program asked.
    fn sync(self: &Arc<Self>) -> Result<(), Error> {
        self.all_settled()?.pool.note_sync();
        self.wait_for_all()?;
        self.lock().pool.failure()
    }

    /// Waits for all work submitted so far.
    fn wait_for_all(&self) -> Result<(), Error> {
        let ends = self.lock().pool.ends();
        ends.into_iter().try_for_each(|mark| self.engine.sync(mark)).map_err(|error| self.engine_error(error))
    }
}

fn submit(op: &Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<PerOutput<Tensor>, Error> {
    let tensors: Inputs<Tensor> = inputs.into_iter().collect();
    let runtime = tensors[0].runtime().clone();
    if let Some(other) = tensors.iter().find(|tensor| !Arc::ptr_eq(tensor.runtime(), &runtime)) {
        return Err(Error::MixedDevices { op: op.name(), devices: [runtime.device, other.device()] });
    }
    runtime.submit(op, tensors)
}

/// Runs an op with one output on the device of its inputs. Inputs passed by their last handle may be overwritten.
pub fn run(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<Tensor, Error> {
    Ok(submit(&op, inputs)?.swap_remove(0))
}

/// Runs an op with two outputs.
pub fn run_pair(op: Op, inputs: impl IntoIterator<Item = Tensor>) -> Result<[Tensor; 2], Error> {
    let outputs = submit(&op, inputs)?;
    Ok(outputs.into_inner().expect("an op with two outputs"))
}

/// Runs an op without inputs on `device`.
pub fn create(device: &OvercommitDevice, op: Op) -> Result<Tensor, Error> {
    Ok(registry::runtime(device)?.submit(&op, Inputs::new())?.swap_remove(0))
}

/// Runs an op of a recorded program.
pub(crate) fn run_traced(
    device: &OvercommitDevice,
    op: Traced,
    inputs: Vec<Tensor>,
) -> Result<PerOutput<Tensor>, Error> {
    registry::runtime(device)?.submit(&Op::Traced(op), inputs.into())
}

/// A tensor as [`write`] makes it, on an engine without data.
pub(crate) fn claim(device: &OvercommitDevice, size_bytes: usize) -> Result<Tensor, Error> {
    let runtime = registry::runtime(device)?;
    let (id, access) = runtime.settled([])?.pool.begin_write(size_bytes)?;
    let tensor = Tensor::new(runtime.clone(), id, bytes_view(size_bytes));
    let waited = access.wait();
    runtime.lock().pool.end_write(id);
    waited.map_err(|error| runtime.engine_error(error))?;
    Ok(tensor)
}

/// Waits for a tensor's data as [`read`] does, on an engine without data.
pub(crate) fn wait_for(tensor: &Tensor) -> Result<(), Error> {
    let runtime = tensor.runtime();
    let access = runtime.settled([tensor])?.pool.begin_read(tensor.id())?;
    let waited = access.wait();
    let right = runtime.lock().pool.end_read(tensor.id());
    waited.map_err(|error| runtime.engine_error(error)).and(right)
}

/// Writes where the program is into its recording, such as the beginning of an epoch.
///
/// # Errors
/// A device that this build cannot run.
pub fn note(device: &OvercommitDevice, text: &str) -> Result<(), Error> {
    registry::runtime(device)?.settled([])?.pool.note(text);
    Ok(())
}

/// A tensor with these elements, row-major, as native-endian bytes.
pub fn write(device: &OvercommitDevice, bytes: &[u8], dtype: Dtype, shape: Shape) -> Result<Tensor, Error> {
    let view = View::contiguous(dtype, shape);
    if bytes.len() != view.size_bytes() {
        let (needed_bytes, had_bytes) = (view.size_bytes(), bytes.len());
        return Err(Error::DataSize { dtype, shape, needed_bytes, had_bytes });
    }
    let runtime = registry::runtime(device)?;
    let (id, access) = runtime.settled([])?.pool.begin_write(bytes.len())?;
    let tensor = Tensor::new(runtime.clone(), id, view);
    // Outside the lock: this may wait for the device.
    let written = access.write(bytes);
    runtime.lock().pool.end_write(id);
    written.map_err(|error| runtime.engine_error(error))?;
    Ok(tensor)
}

/// The tensor's elements, row-major, as native-endian bytes. Waits for the work that makes them. An engine without data
/// gives what [`Config::reads`](crate::Config::reads) says.
pub fn read(tensor: Tensor) -> Result<Vec<u8>, Error> {
    let (runtime, view) = (tensor.runtime().clone(), *tensor.view());
    let Some(bytes) = download(tensor)? else {
        if let Some(warning) = runtime.supply.warning(runtime.device) {
            runtime.lock().pool.settings.log(log::Level::Warn, format_args!("{warning}"));
        }
        return runtime.supply.elements(runtime.device, &view);
    };
    Ok(bytes)
}

/// A number that the program goes on with: the only element of an `i64` tensor. An engine without data takes it to be
/// the part of `most` that [`Config::density`](crate::Config::density) says.
pub fn read_count(op: &'static str, tensor: Tensor, most: usize) -> Result<usize, Error> {
    let runtime = tensor.runtime().clone();
    match download(tensor)? {
        Some(bytes) => Ok(bytemuck::pod_read_unaligned::<i64>(&bytes) as usize),
        None => runtime.supply.count(runtime.device, op, most),
    }
}

/// The tensor's elements, if the engine has any.
fn download(tensor: Tensor) -> Result<Option<Vec<u8>>, Error> {
    let view = *tensor.view();
    let tensor =
        if view.layout.is_contiguous() { tensor } else { run(Op::Copy { dtype: view.dtype }, [tensor])? };
    let runtime = tensor.runtime();
    let access = runtime.settled([&tensor])?.pool.begin_read(tensor.id())?;
    // Outside the lock, as in `write`.
    let bytes = access.read();
    let right = runtime.lock().pool.end_read(tensor.id());
    let bytes = bytes.map_err(|error| runtime.engine_error(error)).and_then(|bytes| right.map(|()| bytes))?;
    let Some(mut bytes) = bytes else { return Ok(None) };
    // A view without elements may begin anywhere.
    let begin = tensor.layout().offset() * view.dtype.size_bytes();
    bytes.drain(..begin.min(bytes.len()));
    bytes.truncate(view.size_bytes());
    Ok(Some(bytes))
}

/// Waits for all work submitted to `device`, and reports the first failure that no read and no `sync` has told.
pub fn sync(device: &OvercommitDevice) -> Result<(), Error> {
    registry::runtime(device)?.sync()
}

/// Waits for all work and gives memory that no tensor uses back to the system.
pub fn cleanup(device: &OvercommitDevice) -> Result<(), Error> {
    let runtime = registry::runtime(device)?;
    runtime.sync()?;
    runtime.lock().pool.give_back();
    Ok(())
}

/// Starts the sequence of random numbers that ops on `device` draw anew.
pub fn seed(device: &OvercommitDevice, seed: u64) -> Result<(), Error> {
    let runtime = registry::runtime(device)?;
    runtime.seed.store(seed, Ordering::Relaxed);
    runtime.drawn.store(0, Ordering::Relaxed);
    Ok(())
}

/// A key for one random op: a function of the device's seed and of how many were drawn since it was set.
pub fn next_seed(device: &OvercommitDevice) -> Result<u64, Error> {
    let runtime = registry::runtime(device)?;
    let drawn = runtime.drawn.fetch_add(1, Ordering::Relaxed);
    Ok(mix(runtime.seed.load(Ordering::Relaxed).wrapping_add(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): neighbouring inputs give unrelated outputs.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// What the program asked for once its iteration is known, and how many ops that has, of a device that plans nothing: logs from
/// the first call on.
pub(crate) fn learned(device: &OvercommitDevice) -> Result<Option<(Log, usize)>, Error> {
    let runtime = registry::runtime(device)?;
    let mut front = runtime.settled([])?;
    front.pool.log_at_once();
    front.pool.learned()
}

/// Plans an iteration that was [`learned`] elsewhere, for a device whose program is still to begin.
pub(crate) fn plan_ahead(device: &OvercommitDevice, log: Log, period: usize) -> Result<(), Error> {
    let runtime = registry::runtime(device)?;
    let mut front = runtime.settled([])?;
    runtime.plan(&mut front.pool, log, period);
    Ok(())
}

/// Whether an iteration is planned just now.
#[cfg(test)]
pub(crate) fn is_planning(device: &OvercommitDevice) -> bool {
    registry::runtime(device).expect("a device that is there").lock().pool.is_planning()
}
