use std::fmt;
use std::sync::{Arc, OnceLock};

use super::Runtime;
use crate::OvercommitDevice;
use crate::op::{Dtype, Layout, Shape, View};
use crate::pool::{Input, StorageId};

/// A view of a storage: what Burn calls a tensor primitive. Cloning shares the storage; nothing is ever written twice.
#[derive(Clone)]
pub struct Tensor {
    handle: Arc<Handle>,
    /// Where it is not the handle's. Apart, since tensors go by value from call to call, and a view is large.
    view: Option<Arc<View>>,
}

/// A program's claim on a storage. The last one to go frees it at the next plan, `stats` or `sync`.
pub struct Handle {
    runtime: Arc<Runtime>,
    /// Nothing while the op that makes the storage [waits](super::collect), and once an op has consumed the handle.
    id: OnceLock<StorageId>,
    /// What the op makes: how the storage is seen unless a tensor says otherwise.
    view: View,
}

/// One line, whatever the format: device, shape, element type and storage, which is not known while the op that makes it waits.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {}, ", self.device(), self.shape(), self.dtype())?;
        match self.try_id() {
            Some(id) => write!(f, "storage {id})"),
            None => f.write_str("not made yet)"),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.runtime.dropped.push(id);
        }
    }
}

impl Tensor {
    pub(super) fn new(runtime: Arc<Runtime>, id: StorageId, view: View) -> Self {
        Tensor { handle: Arc::new(Handle { runtime, id: id.into(), view }), view: None }
    }

    /// What an op is to make that waits.
    pub(super) fn promised(runtime: Arc<Runtime>, view: View) -> Self {
        Tensor { handle: Arc::new(Handle { runtime, id: OnceLock::new(), view }), view: None }
    }

    /// What was promised by a handle.
    pub(super) fn keeping(handle: Arc<Handle>, id: StorageId) -> Self {
        handle.id.set(id).expect("a promise is kept once");
        Tensor { handle, view: None }
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// How many tensors there are of the storage.
    pub(super) fn handles(&self) -> usize {
        Arc::strong_count(&self.handle)
    }

    /// The storage, unless the op that makes it waits.
    pub(super) fn try_id(&self) -> Option<StorageId> {
        self.handle.id.get().copied()
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.handle.runtime
    }

    pub(super) fn id(&self) -> StorageId {
        self.try_id().expect("what waits is submitted before its storage is asked for")
    }

    /// Gives the tensor to an op. If this was the storage's last handle, freeing it is now up to the pool.
    pub(super) fn into_input(self) -> Input {
        let (id, view) = (self.id(), *self.view());
        let consumed = Arc::into_inner(self.handle).is_some_and(|mut handle| handle.id.take().is_some());
        Input { id, view, consumed }
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

    /// The device it lives on.
    pub fn device(&self) -> OvercommitDevice {
        self.handle.runtime.device
    }

    /// The same bytes as elements of another type, which must be stored alike.
    pub fn with_dtype(mut self, dtype: Dtype) -> Self {
        debug_assert_eq!(self.dtype().stored(), dtype.stored(), "not a view");
        self.view_mut().dtype = dtype;
        self
    }

    /// The same storage seen through another layout, which must lie inside it.
    pub fn with_layout(mut self, layout: Layout) -> Self {
        if *self.layout() != layout {
            self.view_mut().layout = layout;
        }
        self
    }

    /// Its own view.
    fn view_mut(&mut self) -> &mut View {
        Arc::make_mut(self.view.get_or_insert_with(|| Arc::new(self.handle.view)))
    }
}
