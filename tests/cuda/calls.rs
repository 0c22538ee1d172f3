//! What the program's thread asks the driver for: each call takes it a part of a microsecond, and a launch some.

use burn_overcommit::op::{Dtype, Op, Scalar, Shape, Unary};
use burn_overcommit::runtime::{create, run, sync};
use burn_overcommit::{Config, OvercommitDevice, configure};
use burn_overcommit_standin::{Driver, folder};
use serial_test::serial;

use crate::{driver, training};

const DEVICE: OvercommitDevice = OvercommitDevice::Cuda(5);
const OPS: u64 = 2000;

/// Calls of the driver for an op, one of many that run one after the other on so many floats.
fn calls_an_op(driver: &Driver, count: usize) -> f64 {
    let config = Config::new().cuda_libraries(folder()).fusion(false).host_limit_bytes(64 << 20);
    configure(&DEVICE, config.budget("64 MiB")).unwrap();
    let (shape, dtype) = (Shape::new(&[count]), Dtype::F32);
    let mut x = create(&DEVICE, Op::Fill { shape, dtype, value: Scalar::from(1.0) }).unwrap();
    let mut before = 0;
    // The first ones load kernels, map memory and make events.
    for op in 0..2 * OPS {
        if op == OPS {
            sync(&DEVICE).unwrap();
            before = driver.calls();
        }
        x = run(Op::Unary(Unary::Neg), [x]).unwrap();
    }
    (driver.calls() - before) as f64 / OPS as f64
}

#[test]
#[serial]
fn an_op_takes_few_calls() {
    let driver = driver();
    // Whether the context is current, and the launch; of some, how long they take; an event now and then.
    let calls = calls_an_op(&driver, 64);
    assert!(calls <= 2.8, "{calls} calls for a small op");
    // And an event that copies may wait for.
    let calls = calls_an_op(&driver, 1 << 18);
    assert!(calls <= 3.8, "{calls} calls for a large op");
}

#[test]
#[serial]
fn a_training_step_takes_few_launches() {
    let driver = driver();
    configure(&training::DEVICE, training::config().budget("64 MiB")).unwrap();
    training::train(&training::DEVICE);
    let (launches, _) = (driver.launches(), driver.library_work());
    training::train(&training::DEVICE);
    let launches = (driver.launches() - launches) as f64 / training::STEPS as f64;
    let library = driver.library_work().count as f64 / training::STEPS as f64;
    assert!(
        launches <= 42.0 && library <= 11.0,
        "{launches} kernels and {library} calls of libraries a step"
    );
}
