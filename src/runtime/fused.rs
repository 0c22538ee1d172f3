//! The runtime and its tensors as fusion sees them.

use std::sync::Arc;

use super::device::{Handle, Runtime, Tensor};
use crate::error::Error;
use crate::fusion::{FusionTensor, TensorMaker};
use crate::module::ModuleId;
use crate::op::{Layout, View};
use crate::pool::{Input, Pool, StorageId};

impl FusionTensor for Tensor {
    type Handle = Handle;
    type Maker = Arc<Runtime>;

    fn view(&self) -> &View {
        Tensor::view(self)
    }

    fn try_id(&self) -> Option<StorageId> {
        Tensor::handle(self).id()
    }

    fn handle(&self) -> &Arc<Handle> {
        Tensor::handle(self)
    }

    fn of(handle: Arc<Handle>) -> Self {
        Tensor::of(handle)
    }

    fn with_layout(self, layout: Layout) -> Self {
        Tensor::with_layout(self, layout)
    }

    fn note_shelved(&self) {
        Tensor::handle(self).note_shelved();
    }

    fn is_shelved(&self) -> bool {
        Tensor::handle(self).is_shelved()
    }

    fn parameter_of(&self) -> ModuleId {
        Tensor::handle(self).parameter_of()
    }

    fn into_input(self) -> Input {
        let (id, view, parameter_of) = (self.id(), *self.view(), self.parameter_of());
        let handle = Arc::into_inner(self.into_handle());
        let consumed = handle.is_some_and(|mut handle| handle.take_id().is_some());
        Input { id, view, consumed, parameter_of }
    }
}

impl TensorMaker<Tensor> for Arc<Runtime> {
    fn promise(&self, view: View) -> Tensor {
        Tensor::promised(self.clone(), view)
    }

    fn keep_promise(&self, handle: Arc<Handle>, id: StorageId) -> Tensor {
        Tensor::kept(handle, id)
    }

    fn tensor(&self, id: StorageId, view: View) -> Tensor {
        Tensor::new(self.clone(), id, view)
    }

    fn after_op(&self, pool: &mut Pool) -> Result<(), Error> {
        self.plan_known_iteration(pool)
    }

    fn release_dropped(&self, pool: &mut Pool) {
        self.release_queued(pool);
    }
}
