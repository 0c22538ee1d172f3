use super::testing::floats;
use super::*;
use crate::engine::Instruction;
use crate::op::{Dtype, Shape};

fn engine(mode: LaneMode) -> Box<dyn Engine> {
    Box::new(HostEngine::new(HostOptions {
        mode,
        device_bytes: 1 << 24,
        host_bytes: 1 << 24,
        workers: 2,
        ..HostOptions::default()
    }))
}

/// The product of matrices of these sizes.
fn product(engine: &dyn Engine, dtypes: [Dtype; 2], sizes: [[usize; 2]; 2], spans: [Span; 3]) -> Launch {
    let [a, b] = [0, 1].map(|n| View::contiguous(dtypes[n], Shape::new(&sizes[n])));
    let instruction = Instruction::new(engine, Op::Matmul, Algorithm(0), &[a, b]);
    let made = instruction.outputs[0];
    let [from_a, from_b, to] = spans;
    Launch {
        inputs: [from_a.slice(0, a.size_bytes()), from_b.slice(0, b.size_bytes())].into_iter().collect(),
        outputs: [to.slice(0, made.size_bytes())].into_iter().collect(),
        scratch: Span::empty(Tier::Device),
        instruction: instruction.into(),
    }
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let engine = engine(LaneMode::Threads);
    let all = engine.map(Tier::Device, 1 << 24).expect("it fits");
    assert_eq!(all.address % crate::engine::ALIGN_BYTES as u64, 0);
    let error = engine.map(Tier::Device, 1).expect_err("nothing is left");
    assert!(error.to_string().contains("0 bytes of 16777216 are left"), "{error}");
    engine.map(Tier::Host, 1 << 20).expect("the other tier has room");
    engine.unmap(all);
    let empty = engine.map(Tier::Device, 0).expect("an empty slab");
    assert_ne!(empty.address, 0);
    engine.map(Tier::Device, 1 << 24).expect("it fits again");
}

#[test]
fn a_round_trip_through_both_tiers() {
    for mode in [LaneMode::Threads, LaneMode::Deferred { seed: 7 }] {
        let engine = engine(mode);
        let device = engine.map(Tier::Device, 1 << 20).expect("it fits");
        let host = engine.map(Tier::Host, 1 << 20).expect("it fits");
        let values = floats(64, 1);
        // SAFETY: the slab is larger, and no work uses it yet.
        unsafe {
            let to = engine.bytes(host).expect("host memory").cast::<f32>();
            to.copy_from_nonoverlapping(values.as_ptr(), 64);
        }
        let at = |index: usize| device.slice(index * 256, 256);
        // SAFETY: the spans are mapped, large enough, and the marks order the lanes.
        unsafe {
            engine.copy(Lane::Fetch, host.slice(0, 256), at(0)).expect("submitted");
            engine.wait(Lane::Compute, engine.mark(Lane::Fetch)).expect("submitted");
            let spans = [at(0), at(0), device.slice(4096, 1 << 15)];
            let product = product(&*engine, [Dtype::F32; 2], [[64, 1], [1, 64]], spans);
            engine.launch(Lane::Compute, &product).expect("submitted");
            engine.wait(Lane::Offload, engine.mark(Lane::Compute)).expect("submitted");
            let (from, to) = (device.slice(4096, 1 << 14), host.slice(0, 1 << 14));
            engine.copy(Lane::Offload, from, to).expect("submitted");
        }
        let mark = engine.mark(Lane::Offload);
        engine.sync(mark).expect("nothing failed");
        assert!(engine.reached(mark));
        // SAFETY: all work on the slab is done.
        let got = unsafe {
            std::slice::from_raw_parts(engine.bytes(host).expect("host memory").cast::<f32>(), 64 * 64)
        };
        assert!((0..64 * 64).all(|index| got[index] == values[index / 64] * values[index % 64]));
    }
}

#[test]
fn failed_work_is_told_once_with_its_mark() {
    let engine = engine(LaneMode::Threads);
    let slab = engine.map(Tier::Device, 4096).expect("it fits");
    let spans = [slab, slab, slab.slice(256, 256)];
    let product = product(&*engine, [Dtype::Bool, Dtype::F32], [[2, 2], [2, 2]], spans);
    // SAFETY: the spans are mapped and large enough.
    unsafe { engine.launch(Lane::Compute, &product).expect("submitted") };
    let mark = engine.mark(Lane::Compute);
    engine.sync(mark).expect("the device is well");
    let failures = engine.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].mark, mark);
    assert!(failures[0].error.to_string().starts_with("matmul"), "{failures:?}");
    assert_eq!(engine.failures(), []);
    // SAFETY: as above.
    let error = unsafe { engine.copy(Lane::Fetch, slab, slab.slice(0, 8)) }.expect_err("sizes differ");
    assert!(error.to_string().contains("8 bytes"), "{error}");
}

/// A page of the device tier.
#[cfg(target_os = "linux")]
const PAGE: usize = 64 << 10;

#[cfg(target_os = "linux")]
fn paged(mode: LaneMode) -> HostEngine {
    let options =
        HostOptions { mode, device_bytes: 4 * PAGE, host_bytes: 1 << 24, workers: 1, page_bytes: PAGE };
    let engine = HostEngine::new(options);
    assert_eq!(engine.props().page_bytes, Some(PAGE));
    engine
}

#[cfg(target_os = "linux")]
fn byte(engine: &HostEngine, span: Span) -> &'static mut u8 {
    // SAFETY: the tests ask for mapped spans that no submitted work uses, and keep none of these.
    unsafe { &mut *engine.bytes(span).expect("host memory") }
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_is_the_same_bytes_at_every_address() {
    let engine = paged(LaneMode::Threads);
    let range = engine.reserve(8 * PAGE).expect("addresses are plentiful");
    let at = |page: usize, count: usize| range.slice(page * PAGE, count * PAGE);
    // SAFETY: nothing is submitted to this engine.
    unsafe {
        engine.map_pages(at(0, 3), &[2, 0, 1], &[]).expect("it fits");
        engine.map_pages(at(5, 2), &[0, 1], &[]).expect("nothing new");
        let error = engine.map_pages(at(3, 2), &[3, 4], &[]).expect_err("the device has four pages");
        assert!(error.to_string().contains("65536 bytes of 262144 are left"), "{error}");
        engine.map_pages(at(3, 1), &[3], &[]).expect("it has that");
    }
    *byte(&engine, at(1, 1)) = 7;
    *byte(&engine, at(2, 1)) = 8;
    assert_eq!([5, 6].map(|page| *byte(&engine, at(page, 1))), [7, 8]);
    engine.map(Tier::Device, 1).expect_err("pages count as much as slabs");
    engine.release_pages(&[0, 3]);
    engine.map(Tier::Device, 2 * PAGE).expect("two came back");
    assert_eq!([5, 6].map(|page| *byte(&engine, at(page, 1))), [0, 8], "what came back is forgotten");
}

#[cfg(target_os = "linux")]
#[test]
fn a_mapping_is_replaced_only_after_old_work() {
    for seed in 0..20 {
        let engine = paged(LaneMode::Deferred { seed });
        let (range, host) = (engine.reserve(PAGE).unwrap(), engine.map(Tier::Host, PAGE).unwrap());
        // SAFETY: the span is reserved, and the copy on it is waited for.
        unsafe {
            engine.map_pages(range, &[0], &[]).expect("it fits");
            *byte(&engine, range) = 1;
            engine.copy(Lane::Offload, range, host).expect("submitted");
            engine.map_pages(range, &[1], &[engine.mark(Lane::Offload)]).expect("it fits");
        }
        *byte(&engine, range) = 2;
        engine.sync(engine.mark(Lane::Offload)).expect("nothing failed");
        assert_eq!(*byte(&engine, host), 1);
    }
}
