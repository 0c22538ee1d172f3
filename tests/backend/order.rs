//! The backend's sorting and running sums against burn-flex's.

use crate::support::{Answers, Ours, Reference, assert_same, floats, ints};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, s};
use burn_overcommit::OvercommitDevice;

compare! {
    sorting, 0.0;
    running, 1e-6;
}

fn sorting<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 2>([4, 6], device);
    let t = floats::<B, 3>([5, 3, 70], device).permute([2, 0, 1]);
    let i = ints::<B, 2>([7, 100], 1000, device).sub_scalar(500);
    let odd =
        Tensor::<B, 1>::from_floats([2.0, f32::NAN, f32::INFINITY, 0.0, f32::NEG_INFINITY, -2.5], device);
    answers! { out;
        x.clone().sort(1);
        x.clone().sort_descending(0);
        x.clone().argsort(1);
        x.clone().topk(2, 1);
        t.clone().sort(0);
        t.clone().argsort_descending(0);
        t.clone().sort_descending_with_indices(1).0;
        t.clone().sort_descending_with_indices(1).1;
        t.clone().topk(3, 0);
        t.clone().topk_with_indices(3, 0).1;
        i.clone().sort(1);
        i.clone().argsort(0);
        i.clone().sort_with_indices(1).1;
        i.clone().topk(5, 1);
        odd.clone().sort(0);
        odd.clone().argsort_descending(0);
    }
}

fn running<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 5, 6], device);
    let t = x.clone().permute([2, 0, 1]).slice(s![..;-1, .., ..]);
    let i = ints::<B, 2>([4, 30], 9, device).sub_scalar(4);
    let odd =
        Tensor::<B, 1>::from_floats([2.0, f32::INFINITY, 3.0, f32::NAN, 0.0, f32::NEG_INFINITY], device);
    answers! { out;
        x.clone().cumsum(0);
        t.clone().cumsum(2);
        x.clone().cumprod(1);
        t.clone().cumprod(0);
        x.clone().cummin(2);
        t.clone().cummax(1);
        i.clone().cumsum(1);
        i.clone().cumprod(0);
        i.clone().cummin(1);
        i.clone().cummax(0);
        odd.clone().cummin(0);
        odd.clone().cummax(0);
        odd.clone().cumsum(0);
    }
}

#[test]
fn the_first_of_an_order_are_found_without_sorting_all() {
    let device = OvercommitDevice::Host(0);
    let x = ints::<Ours, 2>([3, 500], 10_000, &device);
    let (values, places) = x.clone().topk_with_indices(7, 1);
    assert_eq!(x.clone().topk(7, 1).into_data(), values.into_data());
    assert_eq!(x.clone().argtopk(7, 1).into_data(), places.clone().into_data());
    assert_eq!(x.clone().float().argtopk(7, 1).into_data(), places.into_data());
    // Equal elements keep their order.
    let equal = Tensor::<Ours, 1>::zeros([300], &device);
    assert_eq!(equal.clone().argtopk(4, 0).into_data().to_vec::<i32>().unwrap(), [0, 1, 2, 3]);
    assert_eq!(equal.argsort_descending(0).into_data().to_vec::<i32>().unwrap(), Vec::from_iter(0..300));
}
