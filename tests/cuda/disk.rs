//! The order between streams and the disk.

use std::process::Stdio;
use std::time::{Duration, Instant};

use burn_overcommit::engine::{DiskTier, Engine, Lane, Tier};
use serial_test::serial;

use crate::{driver, engine};
use support::process::{child, is_child};

const BYTES: usize = 8192;

#[test]
fn a_thread_that_a_stream_waits_for_can_hang() {
    if is_child() {
        let (driver, _engine) = (driver(), engine());
        driver.wait_by_counter(false);
        println!("it did not hang");
        return driver.wait_by_counter(true);
    }
    let mut child = child(module_path!(), "a_thread_that_a_stream_waits_for_can_hang")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        assert!(child.try_wait().unwrap().is_none(), "the stand-in's lock was not held");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    let said = child.wait_with_output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&said).contains("it did not hang"), "without a call that takes the lock");
}

#[test]
#[serial]
fn memory_is_mapped_while_a_stream_waits_for_the_disk() {
    let _driver = driver();
    let engine = engine();
    engine.open_disk(&DiskTier::new(std::env::temp_dir(), 1 << 20)).unwrap();
    let [host, device, disk] =
        [Tier::Host, Tier::Device, Tier::Disk].map(|tier| engine.map(tier, BYTES).unwrap());
    let bytes = engine.bytes(host).unwrap();
    // SAFETY: the spans are mapped and as large, and each copy waits for the one before.
    unsafe {
        bytes.write_bytes(7, BYTES);
        engine.copy(Lane::Fetch, host, device).unwrap();
        engine.wait(Lane::Spill, engine.mark(Lane::Fetch)).unwrap();
        engine.copy(Lane::Spill, host, disk).unwrap();
        engine.wait(Lane::Offload, engine.mark(Lane::Spill)).unwrap();
        engine.copy(Lane::Offload, device, host).unwrap();
        engine.wait(Lane::Load, engine.mark(Lane::Offload)).unwrap();
        engine.copy(Lane::Load, disk, host).unwrap();
        engine.wait(Lane::Fetch, engine.mark(Lane::Load)).unwrap();
        engine.copy(Lane::Fetch, host, device).unwrap();
        let another = engine.map(Tier::Host, BYTES).expect("it does not hang");
        assert!(!engine.reached(engine.mark(Lane::Fetch)), "the stream still waits");
        engine.sync(engine.mark(Lane::Fetch)).unwrap();
        assert!((0..BYTES).all(|place| bytes.add(place).read() == 7));
        engine.unmap(another);
    }
    assert!(engine.failures().is_empty());
    assert!(engine.measured_disk().is_some());
}
