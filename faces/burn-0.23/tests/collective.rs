//! Burn's collective operations over devices with budgets of their own.

use burn::tensor::Tensor;
use burn_overcommit_023::{Config, OvercommitDevice, device_on};
use burn_std::distributed::ReduceOperation;

#[test]
fn tensors_of_two_devices_are_reduced() {
    let device = |index| device_on(OvercommitDevice::Host(index), Config::new().budget("1 MiB"));
    let devices = [50, 51].map(|index| device(index).expect("a host device"));
    let of = |index: usize| Tensor::<1>::from_floats([1.0 + index as f32, 4.0], &devices[index]);
    for (operation, expected) in [(ReduceOperation::Sum, [3.0, 8.0]), (ReduceOperation::Mean, [1.5, 4.0])] {
        // A device may come twice.
        for members in [vec![0, 1], vec![1, 0], vec![0, 1, 0]] {
            let scale = if members.len() == 3 { None } else { Some(expected) };
            let reduced = Tensor::all_reduce(members.iter().map(|&index| of(index)).collect(), operation);
            for (tensor, index) in reduced.into_iter().zip(&members) {
                assert!(tensor.device() == devices[*index]);
                let values = tensor.into_data().try_to_vec::<f32>().expect("floats");
                scale.into_iter().for_each(|expected| assert_eq!(values, expected));
            }
        }
    }
}
