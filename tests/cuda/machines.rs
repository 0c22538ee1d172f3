//! Machines that do less than their driver says: what the engine does instead, and that it says so.

use burn::tensor::{Tensor, TensorData};
use burn_overcommit::engine::{Engine, Lane, Tier};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, Stats, configure, stats};
use burn_overcommit_standin::{Settings, folder};

use crate::training::{DEVICE, config, train};
use crate::{driver, engine};
use support::process::{child, is_child};

/// Runs a test in a process of its own, which is told this.
fn is_told(test: &str, message: &str) -> bool {
    if !is_child() {
        let child = child(module_path!(), test).env("OVERCOMMIT_LOG", "info").output().unwrap();
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{}{told}", String::from_utf8_lossy(&child.stdout));
        assert_eq!(told.matches(message).count(), 1, "{message}: {told}");
    }
    is_child()
}

fn evicting() -> Config {
    config().policy(Policy::EvictAll)
}

/// Trains on a machine in the smallest budget, to the bits of any other machine.
fn train_on(settings: Settings, config: fn() -> Config) -> Stats {
    let driver = driver();
    configure(&DEVICE, config().budget("64 MiB")).unwrap();
    let expected = train(&DEVICE);
    let smallest_bytes = stats(&DEVICE).unwrap().smallest_budget_bytes;
    driver.set(settings);
    configure(&DEVICE, config().budget_bytes(smallest_bytes)).unwrap();
    assert_eq!(train(&DEVICE), expected);
    stats(&DEVICE).unwrap()
}

#[test]
fn a_driver_that_maps_no_page_gives_slabs() {
    if is_told(
        "a_driver_that_maps_no_page_gives_slabs",
        "cannot be mapped by pages of 33554432 bytes (cuMemMap",
    ) {
        let settings = Settings { maps_pages: 0, ..Settings::default() };
        let driver = driver();
        let before = driver.objects();
        driver.set(settings);
        let engine = engine();
        assert_eq!(engine.props().page_bytes, None);
        drop(engine);
        assert_eq!(driver.objects(), before);
        train_on(settings, evicting);
    }
}

/// Makes ten products of 1 MiB in a budget of 6 MiB, and reads them in turn.
fn multiply(is_integrated: i32) -> Stats {
    let device = OvercommitDevice::Cuda(3);
    driver().set(Settings { is_integrated, ..Settings::default() });
    configure(&device, Config::new().cuda_libraries(folder()).budget("6 MiB")).unwrap();
    let x = Tensor::<Overcommit, 2>::ones([512, 512], &device);
    let made: Vec<_> = (0..10).map(|n| x.clone().matmul(x.clone() * n as f32)).collect();
    for (n, product) in made.into_iter().enumerate() {
        assert_eq!(product.slice([0..1, 0..1]).into_scalar(), (512 * n) as f32);
    }
    stats(&device).unwrap()
}

#[test]
fn memory_shared_with_the_host_is_not_offloaded() {
    if is_told("memory_shared_with_the_host_is_not_offloaded", "stand-in shares its memory with the host") {
        let (shared, apart) = (multiply(1), multiply(0));
        assert!(shared.counters.recomputed_ops > 0, "{shared}");
        assert_eq!(apart.counters.recomputed_ops, 0, "a copy takes less time than a product: {apart}");
    }
}

#[test]
fn few_addresses_are_for_fewer_views() {
    if is_told(
        "few_addresses_are_for_fewer_views",
        "12884901888 bytes of addresses for views of pages and no more",
    ) {
        let settings = Settings { reserved_bytes: 20 << 30, ..Settings::default() };
        driver().set(settings);
        assert_eq!(engine().props().view_bytes, Some(12 << 30), "96 GiB were asked for");
        driver().set(Settings { reserved_bytes: 7 << 30, ..settings });
        assert_eq!(engine().props().page_bytes, None, "a view may take 4 GiB beside as many of the budget");
    }
}

#[test]
fn the_host_tier_ends_where_pinned_memory_does() {
    const FLOATS: usize = 3 << 20;
    if is_told("the_host_tier_ends_where_pinned_memory_does", "the Host tier ends at") {
        let device = OvercommitDevice::Cuda(3);
        driver().set(Settings { pinned_bytes: 100 << 20, ..Settings::default() });
        let config = Config::new().cuda_libraries(folder()).budget("48 MiB");
        configure(&device, config.host_limit_bytes(1 << 30).policy(Policy::EvictAll)).unwrap();
        let made: Vec<_> =
            (0..12).map(|n| Tensor::<Overcommit, 1>::full([FLOATS], n as f32, &device).sort(0)).collect();
        for (n, x) in made.into_iter().enumerate() {
            let expected = TensorData::new(vec![n as f32; FLOATS], [FLOATS]);
            assert!(x.into_data() == expected);
        }
        let seen = stats(&device).unwrap();
        assert!((64 << 20..100 << 20).contains(&seen.peak_host_bytes), "{seen}");
    }
}

#[test]
fn host_memory_that_cannot_be_pinned_is_pageable() {
    if is_told(
        "host_memory_that_cannot_be_pinned_is_pageable",
        "67108864 bytes of host memory cannot be pinned",
    ) {
        let seen = train_on(Settings { pinned_bytes: 32 << 20, ..Settings::default() }, evicting);
        assert!(seen.counters.offloaded_bytes > 0 && seen.counters.fetched_bytes > 0, "{seen}");
    }
}

#[test]
fn copies_through_a_pinned_slab_are_in_order() {
    if is_told("copies_through_a_pinned_slab_are_in_order", "cannot be pinned") {
        copy_through_staging();
    }
}

/// Copies to a device and back, in more parts than one.
fn copy_through_staging() {
    // More than a lane's part of the slab, and no multiple of it.
    const BYTES: usize = (5 << 19) + 256;
    let driver = driver();
    let before = driver.objects();
    driver.set(Settings { pinned_bytes: 32 << 20, ..Settings::default() });
    let engine = engine();
    let [from, to] = [(); 2].map(|()| engine.map(Tier::Host, BYTES).unwrap());
    let device = engine.map(Tier::Device, BYTES).unwrap();
    let [written, read] = [from, to].map(|span| engine.bytes(span).unwrap());
    // SAFETY: the spans are mapped and as large, and the copies wait for each other.
    unsafe {
        (0..BYTES).for_each(|place| written.add(place).write((place / 1000) as u8));
        engine.copy(Lane::Fetch, from, device).unwrap();
        engine.wait(Lane::Offload, engine.mark(Lane::Fetch)).unwrap();
        engine.copy(Lane::Offload, device, to).unwrap();
        engine.sync(engine.mark(Lane::Offload)).unwrap();
        assert!((0..BYTES).all(|place| read.add(place).read() == (place / 1000) as u8));
    }
    drop(engine);
    assert_eq!(driver.objects(), before);
}
