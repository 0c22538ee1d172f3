//! Data parallel training: Burn's `ExecutionStrategy::ddp`.
//!
//! Burn's own server for that (0.21) forgets what a device registered if the device begins its next backward pass before the others
//! have ended this one, and then waits for ever. So gradients go from the backward pass straight to [`runtime::all_reduce`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_backend::DeviceId;
use burn_backend::distributed::{
    CollectiveTensor, DistributedBackend, DistributedConfig, DistributedParams, ReduceOperation, TensorRef,
};

use super::{Device, FloatElement, IntElement, Overcommit, Tensor};
use crate::functions::ok;
use crate::runtime::{self, Reduction};

/// The devices that train together, and what becomes of their gradients.
static SESSION: Mutex<Option<(Vec<Device>, Reduction)>> = Mutex::new(None);

fn session() -> MutexGuard<'static, Option<(Vec<Device>, Reduction)>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reduction(op: ReduceOperation) -> Reduction {
    match op {
        ReduceOperation::Sum => Reduction::Sum,
        ReduceOperation::Mean => Reduction::Mean,
    }
}

/// The key of tensors that a program reduces itself.
const OF_PROGRAM: u64 = 0;

impl<F: FloatElement, I: IntElement> DistributedBackend for Overcommit<F, I> {
    fn start_communication_server(devices: &[Device], config: DistributedConfig) {
        *session() = Some((devices.to_vec(), reduction(config.all_reduce_op)));
    }

    fn close_communication_server(_device: &Device) {
        *session() = None;
    }

    // Gradients are matched as they come.
    fn register_sync_parameters(_device: &Device, _params: Vec<DistributedParams>) {}

    #[track_caller]
    fn submit_gradient_sync(tensor: TensorRef<Self>, params: DistributedParams) {
        let Some((devices, reduction)) = session().clone() else { return };
        let mut hasher = DefaultHasher::new();
        params.param_id.hash(&mut hasher);
        // SAFETY: Burn hands over a tensor of its gradients that nothing else uses until the backward pass has ended, in the thread
        // of that pass.
        let gradient = unsafe { &mut *tensor.0 };
        *gradient = ok(runtime::all_reduce(gradient.clone(), reduction, hasher.finish(), &devices));
    }

    #[track_caller]
    fn submit_sync_collective(device: &Device) {
        ok(runtime::sync_collective(device));
    }

    #[track_caller]
    fn all_reduce(tensor: Tensor, op: ReduceOperation, device_ids: Vec<DeviceId>) -> CollectiveTensor<Self> {
        let device = |id: DeviceId| Device::from_parts(id.type_id, id.index_id).unwrap_or_default();
        let devices: Vec<Device> = device_ids.into_iter().map(device).collect();
        CollectiveTensor::new(ok(runtime::all_reduce(tensor, reduction(op), OF_PROGRAM, &devices)))
    }

    #[track_caller]
    fn sync_collective(device: &Device) {
        ok(runtime::sync_collective(device));
    }
}
