//! An error at every call of the driver: it is told, nothing is left behind, and the next program is right.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use burn::tensor::{Tensor, TensorData};
use burn_overcommit::engine::cuda::CudaEngine;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, runtime, stats};
use burn_overcommit_standin::{Settings, folder};
use serial_test::serial;

use crate::{driver, options};

const DEVICE: OvercommitDevice = OvercommitDevice::Cuda(2);

/// A program that offloads, fetches and computes in device memory for a few of its tensors.
fn program() -> Vec<f32> {
    let ones = |value: f32| Tensor::<Overcommit, 2>::full([64, 64], value, &DEVICE);
    let tensors: Vec<_> = (1..=6).map(|n| ones(n as f32)).collect();
    let sum = tensors.iter().skip(1).fold(tensors[0].clone(), |sum, x| sum + x.clone());
    let product = sum.matmul(tensors[5].clone() / 64.0);
    product.sum_dim(1).into_data().to_vec().expect("floats")
}

fn start(page_mapping: bool) -> Result<(), String> {
    let config = Config::new().cuda_libraries(folder()).host_limit_bytes(1 << 20);
    let config = match page_mapping {
        true => config.budget("2 MiB").page_mapping(true),
        false => config.budget("80 KiB").page_mapping(false),
    };
    configure(&DEVICE, config).map_err(|error| error.to_string())
}

/// What the program gives, or what it was told.
fn attempt(page_mapping: bool) -> Result<Vec<f32>, String> {
    start(page_mapping)?;
    catch_unwind(AssertUnwindSafe(program)).map_err(|panic| {
        panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".into())
    })
}

#[test]
#[serial]
fn an_engine_that_fails_to_start_leaves_nothing() {
    let driver = driver();
    drop(CudaEngine::new(&options()).unwrap());
    driver.fail(0);
    drop(CudaEngine::new(&options()).unwrap());
    let calls = driver.calls();
    assert!(calls > 10, "{calls}");
    let before = driver.objects();
    let mut failed = 0;
    for call in 1..=calls {
        driver.fail(call);
        failed += usize::from(CudaEngine::new(&options()).is_err());
        driver.fail(0);
        assert_eq!(driver.objects(), before, "after call {call}");
    }
    assert!(failed > 10, "{failed} of {calls}");
}

#[test]
#[serial]
fn every_failed_call_is_told_once() {
    let driver = driver();
    let loud = take_hook();
    set_hook(Box::new(|_| ()));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for page_mapping in [false, true] {
            let expected = attempt(page_mapping).expect("nothing fails");
            driver.fail(0);
            assert_eq!(attempt(page_mapping).as_ref(), Ok(&expected));
            let calls = driver.calls();
            let (mut told, step) = (0, (calls / 150).max(1));
            for call in (1..=calls).step_by(step as usize) {
                driver.fail(call);
                let result = attempt(page_mapping);
                driver.fail(0);
                // What only asks or gives back may fail without harm.
                match result {
                    Ok(values) => assert_eq!(values, expected, "call {call} of {calls}"),
                    Err(error) => {
                        told += 1;
                        let named = ["unknown error", "UNKNOWN", "INTERNAL_ERROR"];
                        assert!(named.iter().any(|name| error.contains(name)), "call {call}: {error}");
                    }
                }
                let _ = runtime::sync(&DEVICE);
                if let Ok(stats) = stats(&DEVICE) {
                    assert_eq!(stats.allocated_bytes, 0, "call {call}");
                }
                assert_eq!(attempt(page_mapping).as_ref(), Ok(&expected), "after call {call}");
            }
            assert!(told > 20, "{told} of {calls}");
        }
    }));
    set_hook(loud);
    driver.set(Settings::default());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Computes in a budget of 160 MiB, of which the device comes to have `left_bytes` after the first ops. Returns the last values, and the
/// budget at the end.
fn compute_beside(left_bytes: u64) -> (Vec<f32>, usize) {
    let driver = driver();
    let config = Config::new().cuda_libraries(folder()).budget("160 MiB").page_mapping(true);
    configure(&DEVICE, config).unwrap();
    // Each is on the device, in two pages.
    let made = |n: u16| {
        let written = TensorData::new(vec![f32::from(n); 3 << 20], [3 << 20]);
        let x = Tensor::<Overcommit, 1>::from_data(written, &DEVICE).sort(0);
        runtime::sync(&DEVICE).expect("nothing fails");
        x
    };
    let mut tensors: Vec<_> = (0..2).map(made).collect();
    driver.set(Settings { memory_bytes: driver.used_bytes() + left_bytes, ..Settings::default() });
    tensors.extend((2..10).map(made));
    let sum = tensors.iter().skip(1).fold(tensors[0].clone(), |sum, x| sum + x.clone());
    let values = sum.into_data().to_vec().expect("floats");
    driver.set(Settings::default());
    (values, stats(&DEVICE).unwrap().budget_bytes)
}

#[test]
#[serial]
fn a_program_beside_that_takes_memory_makes_the_budget_smaller() {
    let (expected, budget_bytes) = compute_beside(1 << 30);
    assert_eq!(budget_bytes, 160 << 20);
    let (values, budget_bytes) = compute_beside(24 << 20);
    assert_eq!(values, expected);
    assert!((64 << 20..128 << 20).contains(&budget_bytes), "{budget_bytes}");
    // An op that does not fit what is left is refused, and the next ones run.
    let large = || Tensor::<Overcommit, 1>::ones([35 << 20], &DEVICE).into_data();
    let panic = catch_unwind(AssertUnwindSafe(large)).expect_err("it does not fit");
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains("out of device memory"), "{text}");
    assert_eq!(Tensor::<Overcommit, 1>::ones([4], &DEVICE).into_data().to_vec::<f32>().unwrap(), [1.0; 4]);
}
