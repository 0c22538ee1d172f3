//! What is found, and what is said where something is missing.

use burn_overcommit::engine::cuda::{CudaEngine, CudaOptions, check_kernels, device_count};
use burn_overcommit::engine::{Engine, Tier};
use burn_overcommit_standin::{Settings, folder};
use serial_test::serial;

use crate::{driver, engine, in_use, options};

#[test]
#[serial]
fn the_profile_is_the_devices() {
    let _driver = driver();
    let engine = engine();
    let props = engine.props();
    assert_eq!(props.name, "stand-in");
    assert_eq!(props.page_bytes, Some(2 << 20));
    // 10 multiprocessors of 128 lanes at 1 GHz; 256 bits at 1 GHz, both edges.
    assert_eq!((props.flops.f32, props.memory_bytes_per_second), (2560e9, 64e9));
    assert!(props.device_bytes <= 4 << 30 && props.device_bytes > 3 << 30, "{}", props.device_bytes);
}

#[test]
#[serial]
fn what_is_missing_is_said() {
    let driver = driver();
    let error = |options: &CudaOptions| CudaEngine::new(options).expect_err("it cannot start");
    assert!(error(&CudaOptions { index: 64, ..options() }).contains("64 devices"));
    driver.set(Settings { version: 12040, ..Settings::default() });
    let text = error(&options());
    assert!(text.contains("12.4") && text.contains("12.8"), "{text}");
    driver.set(Settings { devices: 0, ..Settings::default() });
    let text = error(&options());
    assert!(text.contains("cuInit") && text.contains("NO_DEVICE"), "{text}");
    driver.set(Settings::default());
    assert_eq!(device_count(Some(folder())), Ok(64));
}

#[test]
#[serial]
fn a_device_without_pages_gives_slabs() {
    let driver = driver();
    let before = in_use(&driver);
    driver.set(Settings { maps_pages: false, memory_bytes: before.1 + (64 << 20), ..Settings::default() });
    let engine = engine();
    assert_eq!(engine.props().page_bytes, None);
    assert!(engine.reserve(2 << 20).is_err());
    let slab = engine.map(Tier::Device, 32 << 20).expect("there is room");
    engine.unmap(slab);
    drop(engine);
    assert_eq!(in_use(&driver), before);
}

#[test]
#[serial]
fn kernels_that_the_compiler_does_not_make_are_counted_and_named() {
    // What the stand-in makes of a file names no kernel.
    let report = check_kernels(Some(folder()), &[75, 90], 2).expect("NVRTC is there");
    assert!(report.failed > 1000, "{report}");
    assert_eq!((report.compiled, report.mismatches, report.architectures), (0, 0, 2), "{report}");
    assert_eq!(report.messages.len(), report.failed);
    assert!(report.messages.iter().any(|text| text.contains("has no such kernel") && text.contains("sm_75")));
    assert!(report.to_string().starts_with("kernels: compiled=0 failed="), "{report}");
}
