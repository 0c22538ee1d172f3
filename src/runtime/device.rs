//! A device at work, and the tensors on it. They share a file because they own each other: a tensor's handle keeps its
//! runtime, and the runtime keeps the tensors that waiting ops read.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crossbeam_queue::SegQueue;
use smallvec::SmallVec;

use super::arrivals::Arrivals;
use super::pace::Pace;
use super::plan_cache::KeptPlans;
use super::random::RandomKeys;
use super::{scope, thread};
use crate::OvercommitDevice;
use crate::config::Supply;
use crate::engine::{Engine, EngineError};
use crate::error::Error;
use crate::fusion::{FusionTarget, ThreadRuns};
use crate::module::ModuleId;
use crate::op::{Dtype, Layout, Shape, View};
use crate::pool::{Pool, StorageId};
use crate::trace::Recording;

/// One device at work.
pub struct Runtime {
    pub(super) device: OvercommitDevice,
    pub(super) engine: Arc<dyn Engine>,
    front: Mutex<Front>,
    /// Shared by the program's accesses to host memory that are under way. It is taken before the lock of `front`.
    pub(super) accesses: RwLock<()>,
    /// Whether the engine prepares for ops before they are submitted.
    pub(super) prepares: bool,
    /// Storages whose handle is gone. A `Drop` may happen anywhere, also under the lock of Burn's graph, so it only
    /// queues here.
    dropped: SegQueue<StorageId>,
    /// Whether the last handle of a result is gone that was not stored.
    forgotten: AtomicBool,
    pub(super) random: RandomKeys,
    /// What reads return on an engine without data.
    pub(super) supply: Supply,
    pub(super) pace: Pace,
    /// The plans of earlier runs, if they are kept.
    pub(super) plans: Option<Arc<KeptPlans>>,
    /// The plans on their way, if a test decides when they arrive.
    pub(super) arrivals: Option<Arrivals>,
}

/// One line, since the contents would fill pages.
impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({})", self.device)
    }
}

/// What the lock guards.
pub struct Front {
    pub pool: Pool,
    pub runs: ThreadRuns<Tensor>,
}

impl Runtime {
    pub(super) fn new(device: OvercommitDevice, engine: Arc<dyn Engine>, pool: Pool, supply: Supply) -> Self {
        let fusion = pool.settings.fusion;
        let arrivals = pool.settings.plan_arrivals.map(Arrivals::new);
        let plans = KeptPlans::new(engine.props(), &pool.settings, engine.times().is_none());
        Runtime {
            device,
            prepares: engine.prepares(),
            engine,
            arrivals,
            front: Mutex::new(Front { pool, runs: ThreadRuns::new(fusion) }),
            accesses: RwLock::default(),
            dropped: SegQueue::new(),
            forgotten: AtomicBool::new(false),
            random: RandomKeys::default(),
            supply,
            pace: Pace::default(),
            plans: plans.map(Arc::new),
        }
    }

    /// Locks the device as it is.
    pub(super) fn lock_only(&self) -> Result<MutexGuard<'_, Front>, Error> {
        self.front.lock().map_err(|_| Error::Panicked { device: self.device })
    }

    /// Whether a call panicked under the lock.
    pub(super) fn has_panicked(&self) -> bool {
        self.front.is_poisoned()
    }

    /// Drops ops that wait, whose tensors would keep the device.
    pub(super) fn abandon(&self) {
        let mut front = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        front.runs = ThreadRuns::new(front.pool.settings.fusion);
    }

    /// Locks the device, and releases storages whose handle is gone.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Front>, Error> {
        let mut front = self.lock_only()?;
        if self.forgotten.swap(false, Ordering::Relaxed) {
            front.runs.sweep();
        }
        self.release_queued(&mut front.pool);
        let (thread, scopes) = (thread::number(), scope::depth());
        front.runs.enter(thread, scopes);
        front.pool.enter(thread, scopes);
        Ok(front)
    }

    /// Releases the storages whose handle is gone, in the order of their ids.
    pub(super) fn release_queued(&self, pool: &mut Pool) {
        // Most often there are at most a few.
        let mut dropped = SmallVec::<[StorageId; 32]>::new();
        dropped.extend(std::iter::from_fn(|| self.dropped.pop()));
        dropped.sort_unstable();
        dropped.into_iter().for_each(|id| pool.release(id));
    }

    /// Locks the device, and ends the run of this thread and the runs that make these tensors.
    pub(super) fn settled<'a>(
        self: &'a Arc<Self>,
        tensors: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<MutexGuard<'a, Front>, Error> {
        let mut front = self.lock()?;
        let Front { pool, runs } = &mut *front;
        let mut target = FusionTarget { maker: self, pool };
        runs.end_current(&mut target, &[])?;
        tensors.into_iter().try_for_each(|tensor| runs.end_run_of(&mut target, tensor))?;
        Ok(front)
    }

    /// Locks the device, and ends the runs of all threads.
    pub(super) fn all_settled(self: &Arc<Self>) -> Result<MutexGuard<'_, Front>, Error> {
        let mut front = self.lock()?;
        let Front { pool, runs } = &mut *front;
        let mut target = FusionTarget { maker: self, pool };
        (0..runs.threads()).try_for_each(|thread| runs.end(&mut target, thread, &[]))?;
        Ok(front)
    }

    /// Locks the device to look at it. A thread that submits ends its run, except for ops that find no memory: these go on
    /// waiting, and their error comes when the program next asks for them. The runs of other threads are left alone, and a
    /// thread that never submits changes nothing: so the looks of a monitor do not change what a program does.
    pub(super) fn looked_at(self: &Arc<Self>) -> Result<MutexGuard<'_, Front>, Error> {
        if !thread::has_number() {
            return self.lock_only();
        }
        let mut front = self.lock()?;
        let Front { pool, runs } = &mut *front;
        let refused = pool.refused_ops();
        match runs.end_current(&mut FusionTarget { maker: self, pool }, &[]) {
            Err(error) if error.is_out_of_memory() => pool.refused_only(refused),
            submitted => submitted?,
        }
        Ok(front)
    }

    pub(super) fn engine_error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.device, source }
    }

    /// What happened since the device's first use, or since this was last taken. Waits for all work.
    pub(super) fn recording(self: &Arc<Self>) -> Result<Recording, Error> {
        drop(self.all_settled()?);
        self.wait_for_all()?;
        Ok(self.lock()?.pool.take_recording())
    }

    /// The same as far as work is submitted. Does not change what the program does, which goes on meanwhile.
    pub(super) fn recorded_so_far(&self) -> Result<Recording, Error> {
        let (mut recording, journal, ends) = {
            let front = self.lock_only()?;
            let recording =
                Recording { header: front.pool.header(), events: front.pool.journal().take_events() };
            (recording, front.pool.journal().clone(), front.pool.ends())
        };
        // A simulation's work is done when it is submitted, and its clock is the program's.
        if self.engine.times().is_none() {
            let waited = ends.into_iter().try_for_each(|mark| self.engine.sync(mark));
            waited.map_err(|error| self.engine_error(error))?;
        }
        journal.fill_in(&mut recording.events, &self.engine.recorded());
        Ok(recording)
    }

    /// Waits for all work submitted so far, because the program asks for it.
    pub(super) fn sync(self: &Arc<Self>) -> Result<(), Error> {
        self.all_settled()?.pool.note_sync();
        self.wait_for_all()?;
        self.lock()?.pool.failure()
    }

    /// Waits for all work submitted so far.
    pub(super) fn wait_for_all(&self) -> Result<(), Error> {
        let ends = self.lock()?.pool.ends();
        ends.into_iter().try_for_each(|mark| self.engine.sync(mark)).map_err(|error| self.engine_error(error))
    }
}

/// A view of a storage: what Burn calls a tensor primitive. A clone shares the storage, whose value never changes.
/// See [`write`](super::write) for an example.
#[derive(Clone)]
pub struct Tensor {
    handle: Arc<Handle>,
    /// The tensor's own view, if it has one; otherwise it has the handle's. Behind a pointer, since tensors go by value
    /// from call to call and a view is large.
    view: Option<Arc<View>>,
}

/// A program's hold on a storage, which all tensors of the storage share. Once it is dropped, the next call on the device
/// releases the storage.
pub struct Handle {
    runtime: Arc<Runtime>,
    /// Empty while the op that makes the storage [waits](crate::fusion), and again once an op has consumed the handle.
    id: OnceLock<StorageId>,
    /// Whether the storage is not made unless something asks for it.
    is_shelved: AtomicBool,
    /// The number of the module that the storage is a parameter of.
    parameter_of: AtomicU32,
    /// What the op makes: how the storage is seen unless a tensor has its own view.
    view: View,
}

/// One line, whatever the format: device, shape, element type and storage, which is unknown while the op that makes it
/// waits.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}, ", self.device(), self.shape(), self.dtype())?;
        match self.handle.id() {
            Some(id) => write!(f, "storage {id})"),
            None => f.write_str("not made yet)"),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.runtime.dropped.push(id);
        } else if *self.is_shelved.get_mut() {
            self.runtime.forgotten.store(true, Ordering::Relaxed);
        }
    }
}

impl Handle {
    fn new(runtime: Arc<Runtime>, id: OnceLock<StorageId>, view: View) -> Self {
        Handle { runtime, id, is_shelved: AtomicBool::new(false), parameter_of: AtomicU32::new(0), view }
    }

    /// The storage, unless the op that makes it waits.
    pub(super) fn id(&self) -> Option<StorageId> {
        self.id.get().copied()
    }

    /// Has the runtime told when the handle is dropped, although there is no storage.
    pub(super) fn note_shelved(&self) {
        self.is_shelved.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked for.
    pub(super) fn is_shelved(&self) -> bool {
        self.is_shelved.load(Ordering::Relaxed)
    }

    /// The module that the storage is a parameter of.
    pub(super) fn parameter_of(&self) -> ModuleId {
        ModuleId(self.parameter_of.load(Ordering::Relaxed))
    }

    /// Takes the storage from the handle, whose end then releases nothing.
    pub(super) fn take_id(&mut self) -> Option<StorageId> {
        self.id.take()
    }
}

impl Tensor {
    /// A tensor of a storage that has no other.
    pub(super) fn new(runtime: Arc<Runtime>, id: StorageId, view: View) -> Self {
        Tensor { handle: Arc::new(Handle::new(runtime, id.into(), view)), view: None }
    }

    /// A tensor whose storage is made later.
    pub(super) fn promised(runtime: Arc<Runtime>, view: View) -> Self {
        Tensor { handle: Arc::new(Handle::new(runtime, OnceLock::new(), view)), view: None }
    }

    /// The promised tensor with this handle, whose storage now exists.
    pub(super) fn kept(handle: Arc<Handle>, id: StorageId) -> Self {
        handle.id.set(id).expect("a promise is kept once");
        Tensor { handle, view: None }
    }

    /// The tensor with this handle, seen as its op makes it.
    pub(super) fn of(handle: Arc<Handle>) -> Self {
        Tensor { handle, view: None }
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The handle alone.
    pub(super) fn into_handle(self) -> Arc<Handle> {
        self.handle
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.handle.runtime
    }

    /// Element type and layout.
    pub fn view(&self) -> &View {
        self.view.as_deref().unwrap_or(&self.handle.view)
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.view().dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        self.view().shape()
    }

    /// Layout.
    pub fn layout(&self) -> &Layout {
        &self.view().layout
    }

    /// Makes the storage known as a parameter of a module.
    pub(crate) fn belongs_to(&self, module: ModuleId) {
        self.handle.parameter_of.store(module.0, Ordering::Relaxed);
    }

    /// The device that it lives on.
    pub fn device(&self) -> OvercommitDevice {
        self.handle.runtime.device
    }

    /// The same bytes as elements of another type.
    ///
    /// # Panics
    /// If elements of that type are stored in another way.
    #[track_caller]
    pub fn with_dtype(mut self, dtype: Dtype) -> Self {
        let own = self.dtype();
        assert!(own.stored() == dtype.stored(), "burn-overcommit: {own} cannot be seen as {dtype}; cast it");
        self.view_mut().dtype = dtype;
        self
    }

    /// The same storage seen through another layout.
    ///
    /// # Panics
    /// If the layout goes beyond the storage, or has more elements than a tensor can have.
    #[track_caller]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        if *self.layout() != layout {
            let whole = self.handle.view.shape();
            assert!(
                layout.lies_within(whole.count()),
                "burn-overcommit: a tensor of shape {whole:?} cannot be seen as {layout:?}, which goes beyond it"
            );
            self.view_mut().layout = layout;
        }
        self
    }

    /// The tensor's own view, which it gets if it has none.
    fn view_mut(&mut self) -> &mut View {
        Arc::make_mut(self.view.get_or_insert_with(|| Arc::new(self.handle.view)))
    }
}
