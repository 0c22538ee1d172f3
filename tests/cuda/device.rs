//! What is found, and what is said where something is missing.

use std::path::Path;

use burn::tensor::backend::Backend;
use burn_overcommit::engine::cuda::{
    CudaEngine, CudaOptions, Selection, check_device, check_kernels, device_count, found_libraries,
};
use burn_overcommit::engine::{Engine, Tier};
use burn_overcommit::{Overcommit, OvercommitDevice};
use burn_overcommit_standin::{Driver, Settings, folder};
use serial_test::serial;

use crate::{driver, engine, in_use, options};
use support::process::{child, is_child};

#[test]
#[serial]
fn the_profile_is_the_devices() {
    let _driver = driver();
    let engine = engine();
    let props = engine.props();
    assert_eq!(props.name, "stand-in");
    // The largest, of which 4 GiB, less what is taken, have at least 48.
    assert_eq!(props.page_bytes, Some(32 << 20));
    // 10 multiprocessors of 128 lanes at 1 GHz; 256 bits at 1 GHz, both edges.
    assert_eq!((props.flops.f32, props.memory_bytes_per_second), (2560e9, 64e9));
    assert!(props.device_bytes <= 4 << 30 && props.device_bytes > 3 << 30, "{}", props.device_bytes);
}

#[test]
#[serial]
fn what_is_found_is_told() {
    let _driver = driver();
    for (name, found) in found_libraries(Some(folder())) {
        let found = found.expect("it is there");
        assert_eq!(found.file.expect("Linux tells").parent(), Some(folder()));
        assert!(found.version.is_some() && found.missing.is_empty(), "{name}: {:?}", found.missing);
        assert!(found.symbols >= 10);
    }
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
    assert_eq!(check_device(&options()), Ok(()));
    assert!(check_device(&CudaOptions { index: 64, ..options() }).unwrap_err().contains("64 devices"));
}

/// Tells the test what the program's log says.
struct Printed;

impl log::Log for Printed {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        println!("{}: {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

/// Says which device is the default, which a process decides once.
fn say_default() {
    log::set_logger(&Printed).expect("there is no other");
    log::set_max_level(log::LevelFilter::Trace);
    if let Ok(version) = std::env::var("STANDIN_VERSION") {
        let version = version.parse().expect("a number");
        Driver::open().set(Settings { version, ..Settings::default() });
    }
    println!("default: {}, of {} GPUs", OvercommitDevice::default(), Overcommit::<f32, i32>::device_count(0));
}

/// The output of [`say_default`] with these libraries and environment variables.
fn default_device(test: &str, libraries: &Path, variables: &[(&str, &str)]) -> String {
    let child = child(module_path!(), test)
        .env_remove("OVERCOMMIT_DEVICE")
        .env("OVERCOMMIT_CUDA_LIBRARIES", libraries)
        // So that what is found elsewhere has no device.
        .env("CUDA_VISIBLE_DEVICES", "")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    text
}

#[test]
fn the_gpu_is_the_default_where_it_can_be_used() {
    if is_child() {
        return say_default();
    }
    let default_device = |libraries, variables: &[_]| {
        default_device("the_gpu_is_the_default_where_it_can_be_used", libraries, variables)
    };
    let text = default_device(folder(), &[]);
    assert!(text.contains("default: cuda:0, of 64 GPUs") && !text.contains("WARN"), "{text}");
    let text = default_device(folder(), &[("OVERCOMMIT_DEVICE", "host:0")]);
    assert!(text.contains("default: host:0") && !text.contains("WARN"), "{text}");
}

#[test]
fn the_host_is_the_default_where_no_gpu_can_be_used() {
    if is_child() {
        return say_default();
    }
    let default_device = |libraries, variables: &[_]| {
        default_device("the_host_is_the_default_where_no_gpu_can_be_used", libraries, variables)
    };
    let nothing = tempfile::tempdir().unwrap();
    let text = default_device(nothing.path(), &[]);
    assert!(
        text.contains("default: host:0, of 0 GPUs") && text.contains("WARN: host:0 is the default device"),
        "{text}"
    );
    assert!(text.contains("OVERCOMMIT_DEVICE=host:0"), "{text}");
    // No driver, or the system's, to which no device is visible.
    let folder_is_named = text.contains("libcuda.so.1") && text.contains(nothing.path().to_str().unwrap());
    assert!(folder_is_named || text.contains("NO_DEVICE"), "{text}");

    let text = default_device(folder(), &[("STANDIN_VERSION", "12040")]);
    assert!(text.contains("default: host:0") && text.contains("12.4") && text.contains("12.8"), "{text}");
    let text = default_device(nothing.path(), &[("OVERCOMMIT_LOG", "error")]);
    assert!(text.contains("default: host:0") && !text.contains("WARN"), "{text}");
}

#[test]
#[serial]
fn a_device_without_pages_gives_slabs() {
    let driver = driver();
    let before = in_use(&driver);
    driver.set(Settings { says_pages: 0, memory_bytes: before.1 + (64 << 20), ..Settings::default() });
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
    let check = |selection: &Selection, threads| {
        check_kernels(Some(folder()), selection, threads).expect("NVRTC is there")
    };
    let all = Selection { architectures: vec![75, 90], ..Selection::default() };
    let report = check(&all, 2);
    assert!(report.failed > 1000, "{report}");
    assert_eq!((report.compiled, report.mismatches, report.architectures), (0, 0, 2), "{report}");
    assert_eq!(report.messages.len(), report.failed);
    assert!(report.messages.iter().any(|text| text.contains("has no such kernel") && text.contains("sm_75")));
    assert!(report.to_string().starts_with("kernels: compiled=0 failed="), "{report}");
    let some = check(&Selection { architectures: vec![90], files: vec!["norm".into()], sample: false }, 1);
    assert!(some.failed > 0 && some.failed < report.failed / 10, "{some}");
    let sample = check(&Selection { sample: true, ..all }, 1);
    assert!(sample.failed > some.failed && sample.failed < report.failed / 2, "{sample}");
}
