//! The context of each event: the work that it is for, the op, the last note.

use std::collections::HashMap;

use super::modules::Modules;
use super::moments::moments;
use crate::trace::{Event, Recording};

/// Stands for no event.
const NONE: u32 = u32::MAX;

/// A recording, with the context of each event.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub events: &'a [Event],
    pub moments: Vec<u64>,
    pub modules: Modules<'a>,
    /// For each event, the first op, recomputed op, copy or write at or after it.
    works: Vec<u32>,
    /// For each event, the first op at or after it.
    ops: Vec<u32>,
    /// For each event, the number of ops before it.
    counts: Vec<u32>,
    /// For each event, the last note at or before it.
    notes: Vec<u32>,
    makers: HashMap<u64, &'a str>,
}

impl<'a> Scene<'a> {
    /// Works out the contexts of a recording's events.
    pub fn new(recording: &'a Recording) -> Self {
        let events = recording.events.as_slice();
        let is_op = |event: &Event| matches!(event, Event::Op(_));
        let is_work = |event: &Event| event.ran().is_some() || matches!(event, Event::Write(_));
        let (mut ops_before, mut note) = (0, NONE);
        let (mut counts, mut notes) = (Vec::with_capacity(events.len()), Vec::with_capacity(events.len()));
        let mut makers = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            counts.push(ops_before);
            match event {
                Event::Op(op) => {
                    ops_before += 1;
                    makers.extend(op.outputs.iter().map(|made| (made.storage, op.name.as_ref())));
                }
                Event::Note(_) => note = index as u32,
                _ => {}
            }
            notes.push(note);
        }
        Scene {
            events,
            moments: moments(events),
            modules: Modules::of(events),
            works: following(events, is_work),
            ops: following(events, is_op),
            counts,
            notes,
            makers,
        }
    }

    /// The work that an event is for.
    pub fn next_work(&self, index: usize) -> Option<usize> {
        found(&self.works, index)
    }

    /// The op that an event is for.
    pub fn next_op(&self, index: usize) -> Option<usize> {
        found(&self.ops, index)
    }

    /// Ops submitted before an event.
    pub fn ops_before(&self, index: usize) -> u64 {
        u64::from(self.counts[index])
    }

    /// The last note of the program at an event.
    pub fn note(&self, index: usize) -> Option<&'a str> {
        match &self.events[found(&self.notes, index)?] {
            Event::Note(text) => Some(text),
            _ => None,
        }
    }

    /// The op that made a storage.
    pub fn made_by(&self, storage: u64) -> &'a str {
        self.makers.get(&storage).copied().unwrap_or("upload")
    }
}

fn found(of: &[u32], index: usize) -> Option<usize> {
    of.get(index).filter(|&&found| found != NONE).map(|&found| found as usize)
}

/// For each event, the first event of some kind at or after it.
fn following(events: &[Event], kind: impl Fn(&Event) -> bool) -> Vec<u32> {
    let (mut next, mut found) = (NONE, vec![NONE; events.len()]);
    for (index, event) in events.iter().enumerate().rev() {
        if kind(event) {
            next = index as u32;
        }
        found[index] = next;
    }
    found
}
