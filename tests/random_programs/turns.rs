//! Several programs on one device at the same time, whose threads take turns.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex};
use std::thread;

use burn_overcommit::{OvercommitDevice, reset_stats};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::check;
use crate::program::{Machine, Program};
use crate::simulator::Outcome;

/// Whose turn it is.
struct Turns {
    next: usize,
    running: Vec<usize>,
    random: ChaCha8Rng,
}

impl Turns {
    /// Passes the turn on, from one who is done if `is_done`.
    fn pass(&mut self, own: usize, is_done: bool) {
        if is_done {
            self.running.retain(|&other| other != own);
        }
        if !self.running.is_empty() {
            self.next = self.running[self.random.random_range(0..self.running.len())];
        }
    }
}

/// Runs the programs at the same time, each on its thread. A seed decides who takes the next step.
pub fn interleaved(device: OvercommitDevice, programs: &[Program], seed: u64) -> Vec<Outcome> {
    reset_stats(&device).expect("a host device");
    let turns =
        Turns { next: 0, running: (0..programs.len()).collect(), random: ChaCha8Rng::seed_from_u64(seed) };
    let (turns, changed) = (Mutex::new(turns), Condvar::new());
    let run = |own: usize, program: &Program| {
        let mut machine = Machine::new(device);
        let mut steps = program.steps();
        loop {
            let turns = turns.lock().expect("nobody panics with it");
            let mut turns =
                changed.wait_while(turns, |turns| turns.next != own).expect("nobody panics with it");
            let done = check::quietly(|| match steps.next() {
                Some(step) => machine.step(step).err().map(Err),
                None => Some(machine.read_all()),
            });
            let done = match done {
                Ok(None) => None,
                Ok(Some(result)) => {
                    let machine = std::mem::replace(&mut machine, Machine::new(device));
                    Some(Ok(Outcome::new(device, machine, result)))
                }
                Err(message) => Some(Err(message)),
            };
            turns.pass(own, done.is_some());
            changed.notify_all();
            drop(turns);
            if let Some(done) = done {
                return done.unwrap_or_else(|message| panic!("{message}"));
            }
        }
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = programs
            .iter()
            .enumerate()
            .map(|(own, program)| scope.spawn(move || run(own, program)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
