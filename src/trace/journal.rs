//! Where the pool notes what happens, if it is to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{Event, Header, Ran};
use super::program::Program;
use crate::engine::{self, Lane};

/// Notes of a run; cloning shares them. When nothing is recorded, noting costs one comparison.
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Mutex<Notes>>>);

#[derive(Debug, Default)]
struct Notes {
    events: Vec<Event>,
    /// The number of the storage whose record has this place.
    numbers: Vec<u64>,
    made: u64,
}

/// A run as it happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Where and how it ran.
    pub header: Header,
    /// All that happened, in the order of submission.
    pub events: Vec<Event>,
}

impl Journal {
    /// One that notes.
    pub fn recording() -> Self {
        Journal(Some(Arc::default()))
    }

    /// Whether anything is noted.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Notes an event, made from the numbers of storages by the place of their records.
    pub fn note(&self, event: impl FnOnce(&dyn Fn(u32) -> u64) -> Event) {
        if let Some(notes) = &self.0 {
            let mut notes = lock(notes);
            let event = event(&|place| notes.numbers[place as usize]);
            notes.events.push(event);
        }
    }

    /// A storage was made, and its record has this place; returns its number.
    pub fn made(&self, place: u32) -> u64 {
        let Some(notes) = &self.0 else { return 0 };
        let mut notes = lock(notes);
        let (place, number) = (place as usize, notes.made);
        if notes.numbers.len() <= place {
            notes.numbers.resize(place + 1, 0);
        }
        notes.numbers[place] = number;
        notes.made += 1;
        number
    }

    /// All notes so far, with the times that the engine tells; they begin anew.
    pub fn take(&self, header: Header, times: &[engine::Ran]) -> Recording {
        let mut events =
            self.0.as_ref().map(|notes| std::mem::take(&mut lock(notes).events)).unwrap_or_default();
        let mut lanes = Lane::ALL.map(|lane| times.iter().filter(move |ran| ran.mark.lane == lane));
        for event in &mut events {
            let Some((lane, ran)) = event.ran_mut() else { continue };
            let sequence = ran.sequence;
            if let Some(found) = lanes[lane as usize].find(|ran| ran.mark.sequence == sequence) {
                (ran.begin_ns, ran.end_ns) = (found.begin_ns, found.end_ns);
            }
        }
        Recording { header, events }
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    /// The lane and the time of the work, where there is any.
    pub fn ran(&self) -> Option<(Lane, Ran)> {
        match self {
            Event::Op(op) => Some((Lane::Compute, op.ran)),
            Event::Recompute(recomputed) => Some((Lane::Compute, recomputed.ran)),
            Event::Copy(copied) => Some((copied.lane, copied.ran)),
            _ => None,
        }
    }

    fn ran_mut(&mut self) -> Option<(Lane, &mut Ran)> {
        match self {
            Event::Op(op) => Some((Lane::Compute, &mut op.ran)),
            Event::Recompute(recomputed) => Some((Lane::Compute, &mut recomputed.ran)),
            Event::Copy(copied) => Some((copied.lane, &mut copied.ran)),
            _ => None,
        }
    }
}

impl Recording {
    /// What the program asked for, without what was done for it.
    pub fn program(&self) -> Program {
        let asked = |event: &&Event| {
            !matches!(
                event,
                Event::Recompute(_)
                    | Event::Copy(_)
                    | Event::Evict(_)
                    | Event::Allocate { .. }
                    | Event::Release { .. }
                    | Event::Reserve { .. }
            )
        };
        Program { events: self.events.iter().filter(asked).cloned().collect(), loops: false }
    }
}
