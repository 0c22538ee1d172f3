//! Which threads work for a device: those whose last op, upload or read was on it. Others that wait for the device learn here whether
//! anything is left to wait for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::OvercommitDevice;

/// The device of a thread that works for none.
const NONE: u64 = 0;

/// A living thread.
#[derive(Debug, Default)]
struct Worker {
    /// The device that it works for, as a number, or [`NONE`].
    device: AtomicU64,
    /// How often it has worked.
    calls: AtomicU64,
}

#[derive(Debug, Default)]
struct Workers {
    living: Vec<Arc<Worker>>,
    /// The devices that threads worked for when they ended.
    ended: HashSet<u64>,
}

static WORKERS: LazyLock<Mutex<Workers>> = LazyLock::new(Mutex::default);

/// A thread's entry, which goes with the thread.
struct Entry(Arc<Worker>);

impl Entry {
    fn new() -> Self {
        let worker = Arc::<Worker>::default();
        lock().living.push(worker.clone());
        Entry(worker)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut workers = lock();
        workers.living.retain(|worker| !Arc::ptr_eq(worker, &self.0));
        workers.ended.insert(self.0.device.load(Ordering::Relaxed));
    }
}

thread_local! {
    static ENTRY: Entry = Entry::new();
}

fn lock() -> MutexGuard<'static, Workers> {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(device: OvercommitDevice) -> u64 {
    let (kind, index) = device.parts();
    ((u64::from(kind) << 16) | u64::from(index)) + 1
}

fn set(device: u64) {
    // A thread that is ending and has no entry any more is not counted.
    let _ = ENTRY.try_with(|Entry(worker)| {
        worker.device.store(device, Ordering::Relaxed);
        // No other thread writes it.
        worker.calls.store(worker.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    });
}

/// This thread works for the device.
pub(super) fn note(device: OvercommitDevice) {
    set(number(device));
}

/// This thread works for no device.
pub(super) fn leave() {
    set(NONE);
}

/// Forgets who worked for the devices.
pub(super) fn forget(devices: &[OvercommitDevice]) {
    let mut workers = lock();
    for device in devices.iter().copied().map(number) {
        workers.ended.remove(&device);
        for worker in &workers.living {
            let _ = worker.device.compare_exchange(device, NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// What is known of a device's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// Whether one has ended, and none lives.
    pub has_ended: bool,
    /// A number that changes when they work.
    pub calls: u64,
}

/// What is known of the device's threads.
pub(super) fn work(device: OvercommitDevice) -> Work {
    let (workers, device) = (lock(), number(device));
    let at_work = |worker: &&Arc<Worker>| worker.device.load(Ordering::Relaxed) == device;
    let mut calls = workers.living.iter().filter(at_work).map(|worker| worker.calls.load(Ordering::Relaxed));
    let first = calls.next();
    Work {
        has_ended: first.is_none() && workers.ended.contains(&device),
        calls: first.map_or(0, |first| first + calls.sum::<u64>()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_device_has_the_threads_whose_last_call_was_on_it() {
        let devices = [OvercommitDevice::Host(9_001), OvercommitDevice::Host(9_002)];
        let has_ended = || devices.map(|device| work(device).has_ended);
        let (ask, asked) = channel();
        let (answer, answered) = channel();
        let worker = thread::spawn(move || {
            for device in asked {
                note(device);
                answer.send(()).unwrap();
            }
        });
        let mut last = work(devices[0]);
        assert_eq!(last, Work { has_ended: false, calls: 0 }, "nobody has worked for it");
        for _ in 0..3 {
            ask.send(devices[0]).unwrap();
            answered.recv().unwrap();
            let now = work(devices[0]);
            assert!(now.calls != last.calls && !now.has_ended);
            last = now;
        }
        ask.send(devices[1]).unwrap();
        answered.recv().unwrap();
        assert_eq!(has_ended(), [false; 2], "a thread that goes to another device has not ended");
        drop(ask);
        worker.join().unwrap();
        assert_eq!(has_ended(), [false, true]);
        note(devices[1]);
        assert_eq!(has_ended(), [false; 2], "another takes over");
        leave();
        assert_eq!(has_ended(), [false, true]);
        forget(&devices);
        assert_eq!(has_ended(), [false; 2]);
    }
}
