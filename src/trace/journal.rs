//! Where the pool records events, if recording is on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{Event, Header, Ran};
use super::program::Program;
use crate::engine::{self, Lane};

/// A record of a run, which clones share. If recording is off, noting an event costs one comparison.
///
/// ```
/// use burn_overcommit::trace::{Event, Header, Journal};
///
/// let journal = Journal::recording();
/// journal.note(|| Event::Note("step 1".into()));
/// assert_eq!(journal.take(Header::default(), &[]).events.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Journal(Option<Arc<Mutex<Noted>>>);

/// What a journal has.
#[derive(Debug, Default)]
struct Noted {
    events: Vec<Event>,
    /// Times of events that are not taken yet.
    times: Vec<engine::Ran>,
}

/// A run as it happened.
///
/// ```
/// use burn_overcommit::trace::{Event, Header, Recording};
///
/// let header = Header { trace: 1, device: "host:0".into(), ..Header::default() };
/// let recording = Recording { header, events: vec![Event::Note("step 1".into())] };
/// let path = std::env::temp_dir().join("burn-overcommit-example.jsonl");
/// recording.save(&path)?;
/// assert_eq!(Recording::open(&path)?, recording);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Where and how it ran.
    pub header: Header,
    /// All that happened, in the order of submission.
    pub events: Vec<Event>,
}

impl Journal {
    /// A journal that records.
    pub fn recording() -> Self {
        Journal(Some(Arc::default()))
    }

    /// Whether anything is noted.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Notes an event.
    pub fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(noted) = &self.0 {
            let event = event();
            lock(noted).events.push(event);
        }
    }

    /// Takes all events so far, with the engine's times. The journal is empty afterwards.
    pub fn take(&self, header: Header, times: &[engine::Ran]) -> Recording {
        let mut events = self.take_events();
        self.fill_in(&mut events, times);
        Recording { header, events }
    }

    /// Takes all events so far, without times.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        self.0.as_ref().map(|noted| std::mem::take(&mut lock(noted).events)).unwrap_or_default()
    }

    /// Fills in the times of events that were taken, which the engine recorded since this was last called. Those of later
    /// events are kept for these.
    pub(crate) fn fill_in(&self, events: &mut [Event], times: &[engine::Ran]) {
        let Some(noted) = &self.0 else { return };
        let mut known = std::mem::take(&mut lock(noted).times);
        known.extend(times);
        let mut lanes = Lane::ALL.map(|lane| known.iter().filter(move |ran| ran.mark.lane == lane));
        let mut last = [0; Lane::ALL.len()];
        for event in events {
            let Some((lane, ran)) = event.ran_mut() else { continue };
            let sequence = ran.sequence;
            last[lane as usize] = sequence;
            if let Some(found) = lanes[lane as usize].find(|ran| ran.mark.sequence == sequence) {
                (ran.begin_ns, ran.end_ns) = (found.begin_ns, found.end_ns);
            }
        }
        known.retain(|ran| ran.mark.sequence > last[ran.mark.lane as usize]);
        lock(noted).times = known;
    }
}

fn lock(noted: &Mutex<Noted>) -> MutexGuard<'_, Noted> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    /// The lane and the time of the event's work, if it has any.
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
    /// The program's requests, without the decisions of the pool.
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
