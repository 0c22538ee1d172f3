//! A device is made anew after a panic under its lock, and made once where several threads ask for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use burn_overcommit::engine::around::Around;
use burn_overcommit::engine::{Engine, EngineError, Lane, Launch};
use burn_overcommit::op::{Dtype, Layout, Op, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor, configure_with_engine, ensure_configured};
use burn_overcommit::{Config, Error, OvercommitDevice, configure, stats};

/// Panics at the next launch once it is told to.
#[derive(Debug)]
struct Panicking {
    engine: Arc<dyn Engine>,
    panics: Arc<AtomicBool>,
}

impl Around for Panicking {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    unsafe fn around_launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "planted");
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.launch(lane, launch) }
    }
}

fn written(device: &OvercommitDevice) -> Tensor {
    let bytes: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    runtime::write(device, &bytes, Dtype::F32, Shape::new(&[3])).expect("it fits")
}

fn negated(tensor: Tensor) -> Result<Vec<u8>, Error> {
    runtime::run(Op::Unary(Unary::Neg), [tensor]).and_then(runtime::read)
}

fn is_panicked<T: std::fmt::Debug>(result: Result<T, Error>, device: OvercommitDevice) {
    let error = result.expect_err("the device is half-changed");
    assert!(matches!(error, Error::Panicked { device: of } if of == device), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("{device}: an earlier panic")) && text.contains("configure"), "{text}");
}

#[test]
fn a_device_that_panicked_says_so_until_it_is_configured() {
    let [device, other] = [430, 431].map(OvercommitDevice::Host);
    let panics = Arc::new(AtomicBool::new(false));
    let wrap = |engine| Arc::new(Panicking { engine, panics: panics.clone() }) as _;
    configure_with_engine(&device, Config::new(), wrap).unwrap();
    let kept = written(&device);
    let beyond = Layout::contiguous(Shape::new(&[4]));
    let refused = catch_unwind(AssertUnwindSafe(|| kept.clone().with_layout(beyond)));
    assert!(refused.is_err(), "a view beyond its tensor is refused");
    let expected = negated(kept.clone()).expect("a refusal changes nothing");

    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| negated(kept.clone()))).is_err());
    is_panicked(stats(&device).map(drop), device);
    is_panicked(runtime::read(kept.clone()), device);
    is_panicked(negated(kept.clone()), device);
    is_panicked(runtime::sync(&device), device);
    assert_eq!(negated(written(&other)).expect("another device"), expected);

    ensure_configured(&device, Config::new()).expect("it is made anew");
    assert_eq!(negated(written(&device)).expect("it is whole"), expected);
    is_panicked(runtime::read(kept.clone()), device);
    let mixed = [kept, written(&device)];
    is_panicked(runtime::run(Op::Binary(burn_overcommit::op::Binary::Add), mixed).map(drop), device);
    configure(&device, Config::new()).expect("no tensor is alive");
}

#[test]
fn threads_that_configure_a_device_alike_share_it() {
    for device in (440..470).map(OvercommitDevice::Host) {
        let begin = Barrier::new(4);
        let use_it = || {
            begin.wait();
            ensure_configured(&device, Config::new().budget("1 MiB")).expect("it is configured alike");
            negated(written(&device)).expect("it fits")
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(use_it))));
    }
}
