use super::testing::floats;
use super::*;
use crate::engine::Operand;
use crate::op::{Dtype, Shape};

fn engine(mode: LaneMode) -> Box<dyn Engine> {
    Box::new(HostEngine::new(HostOptions { mode, device_bytes: 1 << 24, host_bytes: 1 << 24, workers: 2 }))
}

fn operand(span: Span, shape: &[usize]) -> Operand {
    let view = View::contiguous(Dtype::F32, Shape::new(shape));
    Operand { span: span.slice(0, view.size_bytes()), view }
}

fn product(a: Operand, b: Operand, to: Operand) -> Call {
    Call {
        op: Op::Matmul,
        algorithm: Algorithm(0),
        inputs: [a, b].into_iter().collect(),
        outputs: [to].into_iter().collect(),
        scratch: Span::empty(Tier::Device),
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
            let one = operand(at(0), &[1, 64]);
            let call =
                product(operand(at(0), &[64, 1]), one, operand(device.slice(4096, 1 << 15), &[64, 64]));
            engine.launch(Lane::Compute, &call).expect("submitted");
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
fn failed_work_is_an_error_of_sync() {
    let engine = engine(LaneMode::Threads);
    let slab = engine.map(Tier::Device, 4096).expect("it fits");
    let mut call =
        product(operand(slab, &[2, 2]), operand(slab, &[2, 2]), operand(slab.slice(256, 256), &[2, 2]));
    call.inputs[0].view.dtype = Dtype::Bool;
    // SAFETY: the spans are mapped and large enough.
    unsafe { engine.launch(Lane::Compute, &call).expect("submitted") };
    let error = engine.sync(engine.mark(Lane::Compute)).expect_err("it failed");
    assert!(error.to_string().starts_with("matmul"), "{error}");
    // SAFETY: as above.
    let error = unsafe { engine.copy(Lane::Fetch, slab, slab.slice(0, 8)) }.expect_err("sizes differ");
    assert!(error.to_string().contains("8 bytes"), "{error}");
}
