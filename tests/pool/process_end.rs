//! A process may end at any time, whatever its devices are doing.

use std::time::Duration;

use burn_overcommit::op::{Dtype, Op, Shape};
use burn_overcommit::{OvercommitDevice, runtime};

use support::process::{child, is_child};

/// How many processes end.
const PROCESSES: u64 = 200;

/// The variable that says after how many microseconds one ends.
const WAIT: &str = "ENDS_AFTER_US";

/// Ends this process while its device begins.
fn end_at_once() -> ! {
    let (shape, value) = (Shape::new(&[8]), 1.0.into());
    let fill = Op::Fill { shape, dtype: Dtype::F32, value };
    let made = runtime::create(&OvercommitDevice::Host(0), fill).expect("it fits");
    // The thread that computes begins only now.
    drop(runtime::run(Op::Copy { dtype: Dtype::F32 }, [made]));
    let wait_us = std::env::var(WAIT).expect("it is set").parse().expect("a number");
    std::thread::sleep(Duration::from_micros(wait_us));
    std::process::exit(0);
}

#[test]
fn a_process_that_ends_while_its_device_begins_ends_well() {
    if is_child() {
        end_at_once();
    }
    for process in 0..PROCESSES {
        let ended = child(module_path!(), "a_process_that_ends_while_its_device_begins_ends_well")
            .env(WAIT, (process % 20 * 20).to_string())
            .output()
            .unwrap();
        assert!(ended.status.success(), "process {process}: {}", ended.status);
    }
}
