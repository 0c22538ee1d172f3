//! What fusion needs of tensors, and of the runtime that makes them.

use std::sync::{Arc, Weak};

use crate::error::Error;
use crate::module::ModuleId;
use crate::op::{Inputs, Layout, View};
use crate::pool::{Input, Pool, StorageId};

/// A view of a storage, which may be promised: then an op that waits makes it later.
pub trait FusionTensor: Clone {
    /// The program's hold on a storage, which all tensors of the storage share.
    type Handle;
    /// The runtime that makes such tensors.
    type Maker: TensorMaker<Self>;

    /// Element type and layout.
    fn view(&self) -> &View;

    /// The storage, unless the op that makes it waits.
    fn try_id(&self) -> Option<StorageId>;

    /// The handle of its storage.
    fn handle(&self) -> &Arc<Self::Handle>;

    /// The tensor with this handle, seen as its op makes it.
    fn of(handle: Arc<Self::Handle>) -> Self;

    /// The same storage in this layout.
    fn with_layout(self, layout: Layout) -> Self;

    /// Has the maker told when the tensor's last handle is gone, although it has no storage.
    fn note_shelved(&self);

    /// Whether that was asked for.
    fn is_shelved(&self) -> bool;

    /// The module that it is a parameter of.
    fn parameter_of(&self) -> ModuleId;

    /// How an op would be given this tensor.
    fn as_input(&self, consumed: bool) -> Input {
        Input { id: self.id(), view: *self.view(), consumed, parameter_of: self.parameter_of() }
    }

    /// Gives the tensor to an op. If this is the storage's last tensor, the pool frees the storage from now on.
    fn into_input(self) -> Input;

    /// The storage, which exists.
    fn id(&self) -> StorageId {
        self.try_id().expect("an op that waits is submitted before its storage is asked for")
    }

    /// How many tensors hold the storage.
    fn handles(&self) -> usize {
        Arc::strong_count(self.handle())
    }

    /// Whether its elements are all those of this whole, in the same order, whatever the shapes.
    fn is_flat(&self, whole: &View) -> bool {
        let view = self.view();
        view.dtype == whole.dtype
            && view.layout.is_contiguous()
            && view.shape().count() == whole.shape().count()
    }

    /// Whether two tensors share a storage.
    fn is_same_storage(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.handle(), other.handle())
    }
}

/// The runtime, as far as fusion needs it.
pub trait TensorMaker<T: FusionTensor> {
    /// A tensor that an op makes later, seen like this.
    fn promise(&self, view: View) -> T;

    /// The promised tensor with this handle, whose storage now exists.
    fn keep_promise(&self, handle: Arc<T::Handle>, id: StorageId) -> T;

    /// A tensor of a storage that has no other.
    fn tensor(&self, id: StorageId, view: View) -> T;

    /// Is called after each op that was submitted.
    fn after_op(&self, pool: &mut Pool) -> Result<(), Error>;

    /// Releases the storages whose handle is gone.
    fn release_dropped(&self, pool: &mut Pool);
}

/// Where runs are submitted to: a pool, and the maker of tensors for what it returns.
pub struct FusionTarget<'a, T: FusionTensor> {
    /// Makes the tensors.
    pub maker: &'a T::Maker,
    /// Runs the ops.
    pub pool: &'a mut Pool,
}

/// A tensor that was promised to the program, which may have dropped it meanwhile.
pub struct Promise<T: FusionTensor>(Weak<T::Handle>);

impl<T: FusionTensor> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Promise(Weak::clone(&self.0))
    }
}

impl<T: FusionTensor> Promise<T> {
    /// The promise of a tensor.
    pub fn of(tensor: &T) -> Self {
        Promise(Arc::downgrade(tensor.handle()))
    }

    /// The promised tensor, if the program can still ask for it.
    pub fn tensor(&self) -> Option<T> {
        self.0.upgrade().map(T::of)
    }

    /// Whether the program can still ask for it.
    pub fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether it promises this tensor's storage.
    pub fn is_for(&self, tensor: &T) -> bool {
        self.0.as_ptr() == Arc::as_ptr(tensor.handle())
    }

    /// The promised tensor, now that its storage exists.
    pub fn keep(&self, maker: &T::Maker, id: StorageId, view: View) -> T {
        match self.0.upgrade() {
            Some(handle) => maker.keep_promise(handle, id),
            None => maker.tensor(id, view),
        }
    }
}

/// How an op would be given these tensors now; it consumes those that nobody else holds.
pub fn as_inputs<T: FusionTensor>(tensors: &[T]) -> Inputs<Input> {
    tensors.iter().map(|tensor| tensor.as_input(tensor.handles() == 1)).collect()
}
