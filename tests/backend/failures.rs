//! What a program sees of an index out of range: all that descends from it tells so, and nothing else does.

use burn::tensor::{Int, Tensor};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, Policy, configure, runtime, stats};
use support::labels::{self, read};

type B = Overcommit;

fn device(index: u16, config: Config) -> OvercommitDevice {
    let device = OvercommitDevice::Host(index);
    configure(&device, config).unwrap();
    device
}

fn ints<const N: usize>(values: [i32; N], device: &OvercommitDevice) -> Tensor<B, 1, Int> {
    Tensor::from_ints(values, device)
}

#[track_caller]
fn tells(tensor: &Tensor<B, 1>, what: &str) {
    let text = read(tensor.clone()).expect_err("it means nothing");
    assert!(text.contains(what), "no \"{what}\" in: {text}");
}

/// A tensor that comes of an index out of range.
fn bad(x: &Tensor<B, 1>, index: i32) -> Tensor<B, 1> {
    x.clone().gather(0, ints([0, index, 1], &x.device()))
}

#[test]
fn what_descends_from_an_index_out_of_range_tells_so_until_it_is_gone() {
    for fusion in [true, false] {
        let device = device(400, Config::new().fusion(fusion));
        let x = Tensor::<B, 1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
        let gathered = bad(&x, 9);
        let other = x.clone().slice(0..3) * 2.0;
        let descendant = (gathered.clone() + other.clone()).exp();
        let before = other.clone();
        // Other tensors go on, whenever they are read.
        assert_eq!(read(before), Ok(vec![2.0, 4.0, 6.0]));
        for _ in 0..3 {
            tells(&gathered, "gather: index 9 is out of range for 4 elements");
            tells(&descendant, "gather: index 9 is out of range for 4 elements");
            tells(&(gathered.clone() * 0.0 + 1.0), "index 9");
            assert_eq!(read(other.clone()), Ok(vec![2.0, 4.0, 6.0]));
        }
        assert_eq!(stats(&device).unwrap().counters.failed_ops, 1);
        drop((gathered, descendant));
        assert_eq!(read(x * 3.0), Ok(vec![3.0, 6.0, 9.0, 12.0]));
        drop(other);
        assert_eq!(stats(&device).unwrap().storages, 0);
    }
}

#[test]
fn each_tensor_tells_the_failure_that_it_descends_from() {
    let device = device(401, Config::new());
    let x = Tensor::<B, 1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
    let (seven, eight) = (bad(&x, 7), bad(&x, -8));
    let selected = x.clone().select(0, ints([5], &device));
    let updated = x.clone().select_assign(
        0,
        ints([1, 6], &device),
        Tensor::from_floats([1.0, 1.0], &device),
        burn::tensor::IndexingUpdateOp::Add,
    );
    tells(&(seven * 2.0), "index 7");
    tells(&(eight * 2.0), "index -8");
    tells(&(selected * 2.0), "select: index 5");
    tells(&(updated * 2.0), "index 6 is out of range for 4 elements");
}

/// Two values of one fused op, of which one alone descends from the index.
#[test]
fn outputs_of_one_fused_op_descend_from_what_they_read_alone() {
    let device = device(402, Config::new());
    let x = Tensor::<B, 1>::from_floats([1.0, 2.0, 3.0], &device);
    let gathered = bad(&x, 9);
    runtime::sync(&device).expect_err("a gather failed");
    runtime::sync(&device).expect("that was told");
    let ops = || stats(&device).unwrap().counters.ops;
    let before = ops();
    let sum = x.clone() + 1.0;
    let good = sum.clone().exp();
    let spoiled = sum * gathered;
    assert_eq!(ops(), before + 1, "both are of one op");
    assert_eq!(read(good), Ok([2.0f32, 3.0, 4.0].map(f32::exp).to_vec()));
    tells(&spoiled, "index 9");
}

#[test]
fn a_failure_that_is_found_late_is_told_all_the_same() {
    let device = device(403, Config::new().fusion(false));
    let x = Tensor::<B, 1>::from_floats([1.0, 2.0, 3.0], &device);
    let (mut spoiled, mut good) = (bad(&x, 9), x.clone());
    for _ in 0..3000 {
        spoiled = spoiled * 0.5;
        good = good * 1.0;
    }
    // Others that can fail, and do not.
    for _ in 0..300 {
        good = good.gather(0, ints([0, 1, 2], &device));
    }
    tells(&spoiled, "index 9");
    assert_eq!(read(good), Ok(vec![1.0, 2.0, 3.0]));
}

#[test]
fn what_is_recomputed_tells_the_same() {
    for policy in [Policy::EvictAll, Policy::Recompute, Policy::Auto] {
        let config = Config::new().budget_bytes(64 << 10).policy(policy).planning(Planning::AtOnce);
        let device = device(404, config);
        let x = Tensor::<B, 1>::random([4096], burn::tensor::Distribution::Default, &device);
        let index = Tensor::<B, 1, Int>::full([4096], 5000, &device);
        let spoiled: Vec<_> = (1..9).map(|part| x.clone().gather(0, index.clone()) * part as f32).collect();
        let good: Vec<_> = (1..9).map(|part| x.clone() * part as f32).collect();
        for _ in 0..3 {
            spoiled.iter().for_each(|tensor| tells(tensor, "index 5000 is out of range for 4096 elements"));
            good.iter().for_each(|tensor| assert!(read(tensor.clone()).is_ok()));
        }
        assert!(stats(&device).unwrap().counters.recomputed_ops > 0, "{policy}");
    }
}

#[test]
fn weights_that_were_updated_from_a_label_that_there_is_not_say_so() {
    labels::check(&device(405, Config::new()), 8, 3);
    let small = |policy| Config::new().budget_bytes(6 << 10).policy(policy);
    for policy in [Policy::EvictAll, Policy::Recompute, Policy::Auto] {
        labels::check(&device(405, small(policy)), 8, 3);
    }
}
