//! Where memory is too small, an op fails and the process goes on; nothing leaks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use burn::tensor::{Device, Tensor};

use crate::face::{Config, OvercommitDevice, Stats, device_on, stats};
use crate::support::{Convolutions, Recurrent, train};

const MIB: usize = 1 << 20;

fn host(index: u16, budget_bytes: usize) -> (Device, impl Fn() -> Stats) {
    let name = OvercommitDevice::Host(index);
    let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(64 * MIB);
    (device_on(name, config).unwrap(), move || stats(&name).unwrap())
}

/// The message of the panic that this ends in.
fn refused(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("memory is too small");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn an_op_that_does_not_fit_is_refused_and_the_device_goes_on() {
    let (device, stats) = host(20, MIB);
    let x = Tensor::<1>::ones([1 << 16], &device);
    let message =
        refused(|| drop((x.clone().unsqueeze_dim::<2>(1) * x.clone().unsqueeze_dim::<2>(0)).into_data()));
    assert!(message.contains("memory"), "{message}");
    assert_eq!((x.clone() + 1.0).sum().into_scalar::<f32>(), 131_072.0);
    drop(x);
    assert_eq!((stats().allocated_bytes, stats().storages), (0, 0));
}

#[test]
fn uploads_that_do_not_fit_are_refused_by_their_first_op_and_leak_nothing() {
    let (device, stats) = host(21, MIB);
    let kept = Tensor::<1>::ones([1 << 10], &device);
    drop(kept.clone().into_data());
    let before = stats().storages;
    for _ in 0..500 {
        let message = refused(|| {
            let large = Tensor::<1>::from_data(vec![1.0_f32; MIB].as_slice(), &device);
            drop((kept.clone() + large.narrow(0, 0, 1 << 10)).into_data());
        });
        assert!(message.contains("4.0 MiB"), "{message}");
    }
    assert_eq!(stats().storages, before);
    assert_eq!((kept * 2.0).sum().into_scalar::<f32>(), 2048.0);
    assert_eq!((stats().allocated_bytes, stats().storages), (0, 0));
}

#[test]
fn a_device_may_be_dropped_with_work_in_flight() {
    let (device, stats) = host(22, 64 * MIB);
    let x = Tensor::<2>::ones([512, 512], &device);
    let product = (0..20).fold(x.clone(), |product, _| product.matmul(x.clone()) / 512.0);
    drop((device, x));
    assert_eq!(product.into_data().try_to_vec::<f32>().unwrap()[0], 1.0);
    assert_eq!(stats().allocated_bytes, 0);
}

#[test]
fn a_device_that_is_asked_for_again_is_the_same() {
    let config = || Config::new().budget_bytes(8 * MIB);
    let [first, again] = [(); 2].map(|()| device_on(OvercommitDevice::Host(23), config()).unwrap());
    assert_eq!(first, again);
    let sum = Tensor::<1>::ones([4], &first) + Tensor::<1>::ones([4], &again);
    assert_eq!(sum.sum().into_scalar::<f32>(), 8.0);
}

#[test]
fn threads_train_on_two_devices_as_one_after_another() {
    let devices = [24, 25].map(|index| host(index, 64 * MIB).0.autodiff());
    let train_both = |at: usize| {
        let device = devices[at].clone();
        [train::<Convolutions>(&device, 3).bits(), train::<Recurrent>(&device, 3).bits()]
    };
    let alone = train_both(0);
    let together = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || train_both(at % 2))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for trained in together {
        assert!(trained == alone, "threads train as one");
    }
}
