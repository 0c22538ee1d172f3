//! Data parallel training: Burn's `ExecutionStrategy::ddp`.
//!
//! Burn's own server for that (0.21) forgets what a device registered if the device begins its next backward pass before the others
//! have ended this one, and then waits for ever. So gradients go from the backward pass straight to [`runtime::all_reduce`].
//!
//! The trait is there if any crate of a program turns Burn's feature `distributed` on, and a backend without it then cannot compute
//! gradients. A feature of this crate would not do: with all features, Burn's other backends could not be tested beside this one. So the
//! implementation names Burn's module through a glob import, and where Burn has no such module the same names lead to [`absent`].

use super::{FloatElement, IntElement, Overcommit, Tensor};
use crate::functions::ok;
use crate::runtime::{self, Reduction};

/// What Burn's module has, without its feature `distributed`.
#[allow(dead_code, reason = "only names matter")]
mod absent {
    pub mod distributed {
        use burn_backend::DeviceId;

        use crate::runtime::Tensor;

        pub trait DistributedBackend: Sized {
            fn start_communication_server(devices: &[crate::OvercommitDevice], config: DistributedConfig);
            fn close_communication_server(device: &crate::OvercommitDevice);
            fn register_sync_parameters(device: &crate::OvercommitDevice, params: Vec<DistributedParams>);
            fn submit_gradient_sync(tensor: TensorRef<Self>, params: DistributedParams);
            fn submit_sync_collective(device: &crate::OvercommitDevice);
            fn all_reduce(tensor: Tensor, op: ReduceOperation, ids: Vec<DeviceId>) -> CollectiveTensor<Self>;
            fn sync_collective(device: &crate::OvercommitDevice);
        }

        pub struct DistributedConfig {
            pub all_reduce_op: ReduceOperation,
        }

        pub struct DistributedParams {
            pub param_id: u64,
        }

        pub enum ReduceOperation {
            Sum,
            Mean,
        }

        pub struct TensorRef<B>(pub *mut Tensor, std::marker::PhantomData<B>);

        pub struct CollectiveTensor<B>(Tensor, std::marker::PhantomData<B>);

        impl<B> CollectiveTensor<B> {
            pub fn new(tensor: Tensor) -> Self {
                CollectiveTensor(tensor, std::marker::PhantomData)
            }
        }
    }
}

const _: () = {
    #[allow(unused_imports, reason = "where Burn has the module")]
    use absent::*;
    const _: () = {
        #[allow(unused_imports, reason = "the module alone is wanted")]
        use burn_backend::*;

        use super::Device;

        fn reduction(op: distributed::ReduceOperation) -> Reduction {
            match op {
                distributed::ReduceOperation::Sum => Reduction::Sum,
                distributed::ReduceOperation::Mean => Reduction::Mean,
            }
        }

        impl<F: FloatElement, I: IntElement> distributed::DistributedBackend for Overcommit<F, I> {
            fn start_communication_server(devices: &[Device], config: distributed::DistributedConfig) {
                runtime::begin_training(devices, reduction(config.all_reduce_op));
            }

            fn close_communication_server(_device: &Device) {
                runtime::end_training();
            }

            // Gradients are matched as they come.
            fn register_sync_parameters(_device: &Device, _params: Vec<distributed::DistributedParams>) {}

            #[track_caller]
            fn submit_gradient_sync(
                tensor: distributed::TensorRef<Self>,
                params: distributed::DistributedParams,
            ) {
                // SAFETY: Burn hands over a tensor of its gradients that nothing else uses until the backward pass has ended, in the
                // thread of that pass.
                let gradient = unsafe { &mut *tensor.0 };
                ok(runtime::reduce_gradient(gradient, &params.param_id));
            }

            #[track_caller]
            fn submit_sync_collective(device: &Device) {
                ok(runtime::sync_collective(device));
            }

            #[track_caller]
            fn all_reduce(
                tensor: Tensor,
                op: distributed::ReduceOperation,
                device_ids: Vec<DeviceId>,
            ) -> distributed::CollectiveTensor<Self> {
                let device = |id: DeviceId| Device::from_parts(id.type_id, id.index_id).unwrap_or_default();
                let devices: Vec<Device> = device_ids.into_iter().map(device).collect();
                let reduced = ok(runtime::reduce_of_program(tensor, reduction(op), &devices));
                distributed::CollectiveTensor::new(reduced)
            }

            #[track_caller]
            fn sync_collective(device: &Device) {
                ok(runtime::sync_collective(device));
            }
        }
    };
};
