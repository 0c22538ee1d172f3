//! The CUDA engine on libraries that stand in for NVIDIA's (`standin/`). `scripts/check-cuda` runs the op table and the
//! random programs on them too.
#![cfg(target_os = "linux")]

mod calls;
mod device;
mod disk;
mod engine;
mod failures;
mod fragments;
mod fused_rows;
mod libraries;
mod machines;
mod plans;
mod recording;
mod rows;
mod training;
mod values;

use burn_overcommit::engine::cuda::{CudaEngine, CudaOptions};
use burn_overcommit_standin::{Driver, Settings, folder};

/// The driver as it is by default, with nothing failing.
fn driver() -> Driver {
    let driver = Driver::open();
    driver.set(Settings::default());
    driver.fail(0);
    driver
}

/// Objects of the driver, and bytes of device memory: tests that train leave some, and may come first.
fn in_use(driver: &Driver) -> (u64, u64) {
    (driver.objects(), driver.used_bytes())
}

fn options() -> CudaOptions {
    CudaOptions { libraries: Some(folder().into()), ..CudaOptions::default() }
}

fn engine() -> CudaEngine {
    CudaEngine::new(&options()).unwrap_or_else(|error| panic!("{error}"))
}
