//! Memory, lanes and launches.

use burn_overcommit::engine::cuda::CudaEngine;
use burn_overcommit::engine::{Algorithm, Engine, Instruction, Lane, Launch, Span, Tier};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, View};
use serial_test::serial;

use crate::{driver, engine, in_use};

const COUNT: usize = 1000;
const BYTES: usize = 4096;

/// `a + b`, elementwise, of floats.
fn sum(engine: &CudaEngine, [a, b, to]: [Span; 3]) -> Launch {
    let view = View::contiguous(Dtype::F32, Shape::new(&[COUNT]));
    let op = Op::Binary(Binary::Add);
    let bytes = view.size_bytes();
    Launch {
        instruction: Instruction::new(engine, op, Algorithm::default(), &[view, view]).into(),
        inputs: [a.slice(0, bytes), b.slice(0, bytes)].into_iter().collect(),
        outputs: [to.slice(0, bytes)].into_iter().collect(),
        scratch: Span::empty(Tier::Device),
    }
}

/// The floats of a host span.
fn floats(engine: &CudaEngine, span: Span) -> Vec<f32> {
    let start = engine.bytes(span).expect("host memory").cast();
    // SAFETY: the span is mapped as long as the engine lives, and the tests wait for all work on it.
    unsafe { std::slice::from_raw_parts(start, COUNT) }.to_vec()
}

/// Sets the floats of a host span.
fn fill(engine: &CudaEngine, span: Span, value: f32) {
    let start = engine.bytes(span).expect("host memory").cast();
    // SAFETY: as above, and nobody else writes it.
    unsafe { std::slice::from_raw_parts_mut(start, COUNT) }.fill(value);
}

/// The sum of what two host spans hold, by way of the device; without the waits if `careless`.
fn round_trip(engine: &CudaEngine, host: Span, device: Span, careless: bool) {
    let parts = |span: Span| [0, 1, 2].map(|part| span.slice(part * BYTES, BYTES));
    let ([a, b, to], on_device) = (parts(host), parts(device));
    // SAFETY: the spans are mapped and large enough; what the waits are for, the tests look at.
    unsafe {
        engine.copy(Lane::Fetch, a, on_device[0]).unwrap();
        engine.copy(Lane::Fetch, b, on_device[1]).unwrap();
        if !careless {
            engine.wait(Lane::Compute, engine.mark(Lane::Fetch)).unwrap();
        }
        engine.launch(Lane::Compute, &sum(engine, on_device)).unwrap();
        if !careless {
            engine.wait(Lane::Offload, engine.mark(Lane::Compute)).unwrap();
        }
        engine.copy(Lane::Offload, on_device[2], to).unwrap();
    }
    engine.sync(engine.mark(Lane::Offload)).expect("nothing fails");
}

#[test]
#[serial]
fn a_round_trip_needs_its_waits() {
    let driver = driver();
    let before = in_use(&driver);
    let engine = engine();
    let host = engine.map(Tier::Host, 3 * BYTES).unwrap();
    let device = engine.map(Tier::Device, 3 * BYTES).unwrap();
    fill(&engine, host, 1.5);
    fill(&engine, host.slice(BYTES, BYTES), 2.0);
    let made = host.slice(2 * BYTES, BYTES);
    round_trip(&engine, host, device, true);
    assert!(floats(&engine, made).iter().all(|&x| x != 3.5), "the stand-in did not defer its work");
    round_trip(&engine, host, device, false);
    assert!(floats(&engine, made).iter().all(|&x| x == 3.5));
    let mark = engine.mark(Lane::Offload);
    assert!(engine.reached(mark) && engine.reached(engine.mark(Lane::Fetch)));
    drop(engine);
    assert_eq!(in_use(&driver), before);
}

#[test]
#[serial]
fn marks_are_reached_in_order() {
    let _driver = driver();
    let engine = engine();
    let [a, b] = [0, 1].map(|_| engine.map(Tier::Host, BYTES).unwrap());
    // More pieces than there are events.
    let marks: Vec<_> = (0..10_000)
        .map(|_| {
            // SAFETY: the spans are mapped, as large, and apart.
            unsafe { engine.copy(Lane::Fetch, a, b) }.unwrap();
            engine.mark(Lane::Fetch)
        })
        .collect();
    assert!(marks.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    assert!(!engine.reached(marks[9_999]) && !engine.reached(marks[0]), "nothing was waited for");
    engine.sync(marks[5_000]).unwrap();
    assert!(engine.reached(marks[5_000]) && engine.reached(marks[0]) && !engine.reached(marks[9_999]));
    engine.wait(Lane::Compute, marks[9_999]).unwrap();
    engine.sync(marks[9_999]).unwrap();
    assert!(engine.reached(marks[9_999]));
}

#[test]
#[serial]
fn memory_is_bounded_and_comes_back() {
    let driver = driver();
    let before = in_use(&driver);
    let engine = engine();
    let capacity_bytes = engine.props().device_bytes;
    let all = engine.map(Tier::Device, capacity_bytes).expect("it fits");
    let error = engine.map(Tier::Device, 1).expect_err("nothing is left").to_string();
    assert!(error.contains("0 bytes of"), "{error}");
    engine.unmap(all);
    let empty = engine.map(Tier::Device, 0).expect("an empty slab");
    assert_ne!(empty.address, 0);
    engine.unmap(empty);
    assert_eq!(in_use(&driver).1, before.1);
    // Memory that another process took meanwhile.
    let settings =
        burn_overcommit_standin::Settings { memory_bytes: before.1 + (1 << 20), ..Default::default() };
    driver.set(settings);
    let error = engine.map(Tier::Device, 2 << 20).expect_err("the driver refuses");
    assert!(error.is_exhausted() && error.to_string().contains("OUT_OF_MEMORY"), "{error}");
    engine.map(Tier::Device, 1 << 20).expect("it has that");
}

#[test]
#[serial]
fn a_page_is_the_same_bytes_at_every_address() {
    let driver = driver();
    let before = in_use(&driver);
    let engine = engine();
    let page = engine.props().page_bytes.expect("it maps pages");
    let range = engine.reserve(8 * page).expect("addresses are plentiful");
    let host = engine.map(Tier::Host, 2 * BYTES).unwrap();
    let (from, to) = (host.slice(0, BYTES), host.slice(BYTES, BYTES));
    let at = |index: usize, count: usize| range.slice(index * page, count * page);
    let byte_at = |index: usize| {
        // SAFETY: pages are behind the address, and the copy is waited for.
        unsafe { engine.copy(Lane::Offload, at(index, 1).slice(0, BYTES), to) }.unwrap();
        engine.sync(engine.mark(Lane::Offload)).unwrap();
        floats(&engine, to)[0]
    };
    // SAFETY: the work on these addresses is waited for.
    unsafe {
        engine.map_pages(at(0, 3), &[2, 0, 1], &[]).expect("it fits");
        engine.map_pages(at(5, 2), &[0, 1], &[]).expect("nothing new");
        for (index, value) in [(1, 7.0), (2, 8.0)] {
            fill(&engine, from, value);
            engine.copy(Lane::Fetch, from, at(index, 1).slice(0, BYTES)).unwrap();
            engine.sync(engine.mark(Lane::Fetch)).unwrap();
        }
        assert_eq!([byte_at(5), byte_at(6)], [7.0, 8.0]);
        // Another page, once the copy through the address is done.
        engine.copy(Lane::Offload, at(5, 1).slice(0, BYTES), to).unwrap();
        engine.map_pages(at(5, 1), &[1], &[engine.mark(Lane::Offload)]).unwrap();
        assert_eq!(floats(&engine, to)[0], 7.0);
        assert_eq!(byte_at(5), 8.0);
    }
    assert_eq!(driver.used_bytes() - before.1, 3 * page as u64);
    engine.release_pages(&[0, 2, 9]);
    assert_eq!(driver.used_bytes() - before.1, page as u64);
    // SAFETY: it is not used.
    let error = unsafe { engine.map_pages(at(0, 1), &[3], &[]) };
    error.expect("what was released has room for another");
    drop(engine);
    assert_eq!(in_use(&driver), before);
}

#[test]
#[serial]
fn what_does_not_fit_leaves_nothing_mapped() {
    let driver = driver();
    let before = in_use(&driver);
    let engine = engine();
    let page = engine.props().page_bytes.expect("it maps pages");
    driver.set(burn_overcommit_standin::Settings {
        memory_bytes: before.1 + 3 * page as u64,
        ..Default::default()
    });
    let range = engine.reserve(8 * page).unwrap();
    // SAFETY: no work is submitted.
    unsafe {
        engine.map_pages(range.slice(0, 2 * page), &[0, 1], &[]).unwrap();
        let error = engine.map_pages(range.slice(0, 4 * page), &[1, 2, 3, 4], &[]).expect_err("five pages");
        assert!(error.to_string().contains("cuMemCreate"), "{error}");
        assert_eq!(driver.used_bytes() - before.1, 2 * page as u64, "the pages that were there stay");
        engine.map_pages(range.slice(0, 3 * page), &[2, 0, 1], &[]).expect("three pages");
    }
}

#[test]
#[serial]
fn an_index_out_of_range_is_told_once_with_the_launch() {
    let _driver = driver();
    let engine = engine();
    let host = engine.map(Tier::Host, 3 * BYTES).unwrap();
    let device = engine.map(Tier::Device, 3 * BYTES).unwrap();
    let parts = |span: Span| [0, 1, 2].map(|part| span.slice(part * BYTES, 40));
    let ([values, indices, _], [x, index, to]) = (parts(host), parts(device));
    let start = engine.bytes(indices).expect("host memory").cast::<i32>();
    let gather = |index_view: View| {
        let x_view = View::contiguous(Dtype::F32, Shape::new(&[10]));
        Instruction::new(&engine, Op::Gather { axis: 0 }, Algorithm::default(), &[x_view, index_view])
    };
    let launch = Launch {
        instruction: gather(View::contiguous(Dtype::I32, Shape::new(&[10]))).into(),
        inputs: [x, index].into_iter().collect(),
        outputs: [to].into_iter().collect(),
        scratch: Span::empty(Tier::Device),
    };
    let run = |last: i32| {
        // SAFETY: the spans are mapped and large enough, and all work is waited for.
        unsafe {
            (0..10).for_each(|place| start.add(place).write(if place == 9 { last } else { place as i32 }));
            engine.copy(Lane::Fetch, values, x).unwrap();
            engine.copy(Lane::Fetch, indices, index).unwrap();
            engine.wait(Lane::Compute, engine.mark(Lane::Fetch)).unwrap();
            engine.launch(Lane::Compute, &launch).unwrap();
        }
        let mark = engine.mark(Lane::Compute);
        engine.sync(mark).unwrap();
        (mark, engine.failures())
    };
    assert_eq!(run(9).1, []);
    let (mark, failures) = run(10);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].mark, mark);
    let error = failures[0].error.to_string();
    assert!(error.starts_with("gather") && error.contains("index 10 is out of range for 10"), "{error}");
    assert_eq!(run(9).1, [], "a failure is told once");
    // More launches than there are words for their faults.
    for _ in 0..9000 {
        // SAFETY: as above.
        unsafe { engine.launch(Lane::Compute, &launch) }.unwrap();
    }
    engine.sync(engine.mark(Lane::Compute)).unwrap();
}

#[test]
#[serial]
fn what_ran_is_recorded() {
    let _driver = driver();
    let engine = engine();
    let host = engine.map(Tier::Host, 3 * BYTES).unwrap();
    let device = engine.map(Tier::Device, 3 * BYTES).unwrap();
    assert!(engine.recorded().is_empty());
    engine.record();
    round_trip(&engine, host, device, false);
    let ran = engine.recorded();
    assert_eq!(ran.len(), 4);
    assert!(ran.iter().all(|piece| piece.begin_ns <= piece.end_ns));
    let end_of =
        |lane: Lane| ran.iter().filter(|piece| piece.mark.lane == lane).map(|piece| piece.end_ns).max();
    assert!(end_of(Lane::Fetch) <= end_of(Lane::Compute) && end_of(Lane::Compute) <= end_of(Lane::Offload));
}

#[test]
#[serial]
fn a_copy_of_two_sizes_is_refused() {
    let _driver = driver();
    let engine = engine();
    let host = engine.map(Tier::Host, BYTES).unwrap();
    // SAFETY: nothing is copied.
    let error = unsafe { engine.copy(Lane::Fetch, host, host.slice(0, 8)) }.expect_err("sizes differ");
    assert!(error.to_string().contains("8 bytes"), "{error}");
}

#[test]
#[serial]
fn pinned_memory_is_made_ahead_of_its_use_within_the_bound() {
    let driver = driver();
    let engine = engine();
    let before = driver.objects();
    let slabs = |count: u64| {
        let wanted = before + count;
        (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            driver.objects() == wanted
        })
    };
    engine.bound(Tier::Host, 3 * BYTES);
    let first = engine.map(Tier::Host, BYTES).unwrap();
    assert!(slabs(2), "one more than was asked for");
    // The next needs nothing of the driver.
    driver.fail(1);
    let second = engine.map(Tier::Host, BYTES).expect("it is there");
    // One that could not be made ahead is made when it is asked for; and beyond the bound there is none.
    let third = engine.map(Tier::Host, BYTES).expect("there is room");
    driver.fail(0);
    assert!(slabs(3));
    [first, second, third].into_iter().for_each(|slab| engine.unmap(slab));
    assert_eq!(driver.objects(), before);
    let first = engine.map(Tier::Host, BYTES).unwrap();
    let larger = engine.map(Tier::Host, 2 * BYTES).expect("what was made ahead has another size");
    [first, larger].into_iter().for_each(|slab| engine.unmap(slab));
    assert_eq!(driver.objects(), before);
}

#[test]
#[serial]
fn what_takes_long_is_done_before_a_launch() {
    let driver = driver();
    let engine = engine();
    let view = View::contiguous(Dtype::I16, Shape::new(&[COUNT]));
    driver.fail(0);
    let op = Op::Binary(Binary::Add);
    engine.prepare(&op, &mut [view, view].iter());
    let calls = driver.calls();
    assert!(calls > 0, "a module was loaded");
    engine.prepare(&op, &mut [view, view].iter());
    engine.prepare(&op, &mut [view, View { dtype: Dtype::F32, ..view }].iter());
    assert_eq!(driver.calls(), calls, "once, and not for what no op takes");
}

#[test]
#[serial]
fn launches_and_copies_are_timed() {
    let _driver = driver();
    let engine = engine();
    let host = engine.map(Tier::Host, 3 * BYTES).unwrap();
    let device = engine.map(Tier::Device, 3 * BYTES).unwrap();
    assert_eq!(engine.measured_link(), None);
    let launch = sum(&engine, [0, 1, 2].map(|part| device.slice(part * BYTES, BYTES)));
    for _ in 0..20 {
        // SAFETY: the spans are mapped and large enough, and all work is waited for.
        unsafe {
            engine.copy(Lane::Fetch, host, device).unwrap();
            engine.wait(Lane::Compute, engine.mark(Lane::Fetch)).unwrap();
            engine.launch(Lane::Compute, &launch).unwrap();
        }
        engine.sync(engine.mark(Lane::Compute)).unwrap();
    }
    // The stand-in's clock: a microsecond for each piece of work, and one for the event.
    assert_eq!(launch.instruction.measured.ns(), Some(2000));
    assert_eq!(engine.measured_link(), Some((3 * BYTES) as f64 / 2000e-9));
}
