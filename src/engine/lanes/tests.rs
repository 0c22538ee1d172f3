use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::queue::PieceRunner;
use super::*;
use crate::engine::{EngineError, Span, Tier};

/// A copy that stands for anything: `address` tells pieces apart.
fn piece(number: u64) -> Piece {
    let span = Span { tier: Tier::Device, address: number, bytes: 0 };
    Piece::Copy { from: span, to: span }
}

fn number(piece: &Piece) -> u64 {
    match piece {
        Piece::Copy { from, .. } => from.address,
        _ => unreachable!("only copies run here"),
    }
}

type Log = Arc<Mutex<Vec<u64>>>;

/// Runs pieces by noting their number; 13 fails, 14 panics, 1000 and above take a while.
fn noting() -> (Log, PieceRunner) {
    let log = Log::default();
    let run = {
        let log = Arc::clone(&log);
        Box::new(move |piece: &Piece| {
            let number = number(piece);
            if number >= 1000 {
                std::thread::sleep(Duration::from_micros(200));
            }
            queue::lock(&log).push(number);
            match number {
                13 => Err(EngineError::Copy { bytes: 0, reason: "unlucky".into() }),
                14 => panic!("planted"),
                _ => Ok(()),
            }
        })
    };
    (log, run)
}

/// Lanes of threads.
fn threads(run: PieceRunner) -> Lanes {
    Lanes::threads(run, &Lane::ALL)
}

fn both(run: impl Fn(Log, Lanes)) {
    let (log, runs) = noting();
    run(log, threads(runs));
    for seed in 0..20 {
        let (log, runs) = noting();
        run(log, Lanes::deferred(runs, seed));
    }
}

#[test]
fn a_lane_keeps_its_order() {
    both(|log, lanes| {
        for number in 100..900 {
            lanes.submit(Lane::Compute, piece(number));
            if number % 7 == 0 {
                lanes.finish(lanes.mark(Lane::Compute));
                assert_eq!(queue::lock(&log).len() as u64, number - 99);
            }
        }
        let mark = lanes.mark(Lane::Compute);
        lanes.finish(mark);
        assert!(lanes.reached(mark));
        assert_eq!(*queue::lock(&log), (100..900).collect::<Vec<_>>());
    });
}

#[test]
fn waits_order_lanes() {
    both(|log, lanes| {
        for round in 0..100 {
            let base = 1000 + Lane::ALL.len() as u64 * round;
            for (step, lane) in Lane::ALL.into_iter().enumerate() {
                lanes.submit(lane, piece(base + step as u64));
                let next = Lane::ALL[(step + 1) % Lane::ALL.len()];
                lanes.submit(next, Piece::Wait(lanes.mark(lane)));
            }
        }
        lanes.finish(lanes.mark(Lane::Compute));
        assert_eq!(*queue::lock(&log), (1000..1000 + 100 * Lane::ALL.len() as u64).collect::<Vec<_>>());
    });
}

#[test]
fn many_callers_may_wait() {
    let (log, run) = noting();
    let lanes = threads(run);
    std::thread::scope(|scope| {
        for caller in 0..4_u64 {
            let lanes = &lanes;
            scope.spawn(move || {
                for round in 0..2000 {
                    let lane = Lane::ALL[(caller + round) as usize % Lane::ALL.len()];
                    let other = Lane::ALL[(caller + round / 3) as usize % Lane::ALL.len()];
                    lanes.submit(lane, piece(100 + caller));
                    if other != lane {
                        lanes.submit(other, Piece::Wait(lanes.mark(lane)));
                    }
                    if round % 5 == 0 {
                        lanes.finish(lanes.mark(other));
                    }
                }
                for lane in Lane::ALL {
                    lanes.finish(lanes.mark(lane));
                }
            });
        }
    });
    assert_eq!(queue::lock(&log).len(), 8000);
}

#[test]
fn workers_run_what_nobody_waits_for() {
    let (log, run) = noting();
    let lanes = threads(run);
    for _ in 0..50 {
        lanes.submit(Lane::Fetch, piece(1));
        lanes.submit(Lane::Compute, Piece::Wait(lanes.mark(Lane::Fetch)));
        lanes.submit(Lane::Compute, piece(2));
        let mark = lanes.mark(Lane::Compute);
        while !lanes.reached(mark) {
            std::thread::yield_now();
        }
    }
    assert_eq!(queue::lock(&log).len(), 100);
}

#[test]
fn a_caller_helps() {
    let here = std::thread::current().id();
    let ran_here = Arc::new(AtomicUsize::new(0));
    let run = {
        let ran_here = Arc::clone(&ran_here);
        Box::new(move |_: &Piece| {
            ran_here.fetch_add((std::thread::current().id() == here) as usize, Ordering::SeqCst);
            Ok(())
        })
    };
    let lanes = threads(run);
    for _ in 0..2000 {
        lanes.submit(Lane::Compute, piece(1));
        lanes.finish(lanes.mark(Lane::Compute));
    }
    assert!(ran_here.load(Ordering::SeqCst) > 0, "the caller never ran a piece");
}

#[test]
fn a_failure_is_reported_once() {
    both(|log, lanes| {
        for unlucky in [13, 14] {
            for number in [1, unlucky, 2] {
                lanes.submit(Lane::Compute, piece(number));
            }
            let mark = lanes.mark(Lane::Compute);
            lanes.finish(mark);
            let failed = lanes.failures().into_iter().map(|failure| failure.mark.sequence);
            assert_eq!(failed.collect::<Vec<_>>(), [mark.sequence - 1]);
            assert_eq!(lanes.failures(), []);
        }
        assert_eq!(*queue::lock(&log), [1, 13, 2, 1, 14, 2]);
    });
}

#[test]
fn lanes_can_be_dropped_with_work_queued() {
    for round in 0..50 {
        both(|_, lanes| {
            for number in 0..20 {
                lanes.submit(Lane::Compute, piece(1000 + number));
                lanes.submit(Lane::Offload, Piece::Wait(lanes.mark(Lane::Compute)));
                lanes.submit(Lane::Offload, piece(number + 20));
            }
            if round % 2 == 0 {
                lanes.finish(Mark { lane: Lane::Offload, sequence: 3 });
            }
        });
    }
}

#[test]
fn deferred_work_is_bounded_and_runs_only_when_waited_for() {
    let (log, run) = noting();
    let lanes = Lanes::deferred(run, 1);
    for number in 0..3000 {
        lanes.submit(Lane::Fetch, piece(number % 10));
    }
    assert!(queue::lock(&log).is_empty());
    for number in 0..3000 {
        lanes.submit(Lane::Fetch, piece(number % 10));
    }
    let ran = queue::lock(&log).len();
    assert!((2048..6000).contains(&ran), "{ran} pieces ran");
}

/// Two lanes over one cell, sixteen times: fetch writes, compute reads, fetch writes over it. What compute read.
fn program(seed: u64, wait_before_read: bool, wait_before_write: bool) -> Vec<u64> {
    let (cell, log) = (Arc::new(Mutex::new(0)), Log::default());
    let run = {
        let log = Arc::clone(&log);
        Box::new(move |piece: &Piece| {
            match number(piece) {
                0 => queue::lock(&log).push(*queue::lock(&cell)),
                value => *queue::lock(&cell) = value,
            }
            Ok(())
        })
    };
    let lanes = Deferred::new(run, seed);
    let mark = |lane| Mark { lane, sequence: lanes.shared().queues[lane as usize].submitted() };
    for value in 1..=16 {
        if wait_before_write {
            lanes.submit(Lane::Fetch, Piece::Wait(mark(Lane::Compute)));
        }
        lanes.submit(Lane::Fetch, piece(value));
        if wait_before_read {
            lanes.submit(Lane::Compute, Piece::Wait(mark(Lane::Fetch)));
        }
        lanes.submit(Lane::Compute, piece(0));
    }
    lanes.finish(mark(Lane::Compute));
    queue::lock(&log).clone()
}

#[test]
fn deferred_lanes_show_every_missing_wait() {
    let right: Vec<u64> = (1..=16).collect();
    for seed in 0..200 {
        assert_eq!(program(seed, true, true), right, "seed {seed}");
        assert_ne!(program(seed, false, true), right, "seed {seed}: no wait before the read");
        assert_ne!(program(seed, true, false), right, "seed {seed}: no wait before the write");
    }
}
