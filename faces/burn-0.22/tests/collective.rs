//! What Burn asks of a backend whose devices train together, by the same functions as for Burn 0.21.

use burn_backend::distributed::{
    DistributedConfig, DistributedOps, DistributedParamId, DistributedParams, ReduceOperation, TensorRef,
};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DeviceOps, TensorData};
use burn_overcommit_022::OvercommitDevice;
use burn_overcommit_022_backend::{Member, Overcommit};

type Float = <Overcommit as burn_backend::BackendTypes>::FloatTensorPrimitive;

const DEVICES: [Member; 2] = [Member(OvercommitDevice::Host(50)), Member(OvercommitDevice::Host(51))];

fn tensor(values: [f32; 2], device: &Member) -> Float {
    Overcommit::float_from_data(TensorData::from(values), device)
}

fn values(tensor: Float) -> Vec<f32> {
    let data = Overcommit::float_into_data(tensor);
    let data = std::pin::pin!(data);
    match data.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(data) => data.expect("it can be read").try_to_vec().expect("floats"),
        std::task::Poll::Pending => panic!("a read is done when it is asked for"),
    }
}

#[test]
fn tensors_of_two_devices_are_reduced() {
    let ids = DEVICES.map(|device| device.id()).to_vec();
    let of = |index: usize| tensor([1.0 + index as f32, 4.0], &DEVICES[index]);
    let sums = [0, 1].map(|index| Overcommit::all_reduce(of(index), ReduceOperation::Sum, ids.clone()));
    assert_eq!(sums.map(|sum| values(sum.resolve())), [vec![3.0, 8.0], vec![3.0, 8.0]]);
    let means = [0, 1].map(|index| Overcommit::all_reduce(of(index), ReduceOperation::Mean, ids.clone()));
    assert_eq!(means.map(|mean| values(mean.resolve())), [vec![1.5, 4.0], vec![1.5, 4.0]]);
}

#[test]
fn gradients_are_reduced_by_parameter() {
    let config = DistributedConfig { all_reduce_op: ReduceOperation::Mean };
    Overcommit::start_communication_server(&DEVICES, config);
    let parameter = |id: u64| DistributedParams { param_id: DistributedParamId::from(id) };
    // Each device brings the gradients of its parameters in another order.
    let mut gradients: Vec<[Float; 2]> = Vec::new();
    for (index, device) in DEVICES.iter().enumerate() {
        let scale = 1.0 + index as f32;
        let mut own = [tensor([scale, 0.0], device), tensor([0.0, scale], device)];
        for of in if index == 0 { [0, 1] } else { [1, 0] } {
            Overcommit::submit_gradient_sync(TensorRef(&mut own[of]), parameter(of as u64));
        }
        gradients.push(own);
    }
    for (device, own) in DEVICES.iter().zip(gradients) {
        Overcommit::submit_sync_collective(device);
        assert_eq!(own.map(values), [vec![1.5, 0.0], vec![0.0, 1.5]]);
    }
    Overcommit::close_communication_server(&DEVICES[0]);
}
