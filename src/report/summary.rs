//! The summary of a run, for pages and charts.

use super::decisions::Decisions;
use super::leaving::{Leaving, leaving};
use super::ledger::Ledger;
use super::moments::moments;
use super::peak::{Peak, peak};
use super::timeline::{Bytes, LaneTime, Window, lanes, memory};
use crate::engine::Lane;
use crate::replay::Outcome;
use crate::trace::{Event, Header, Recording};

/// The beginning of the note with which each iteration of a repeated program begins.
const ITERATION: &str = "iteration ";

/// A run, summed up for [`write_html`](super::write_html) and [`write_svg`](super::write_svg); as JSON it has all figures but those of
/// the charts.
///
/// ```
/// use burn_overcommit::SimProfile;
/// use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
/// use burn_overcommit::report::{Report, write_html};
/// use burn_overcommit::trace::Program;
///
/// let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
/// let program = Program::default();
/// let replay = Replay::new(&program, profile, ITERATIONS)?;
/// let (outcome, recording) = replay.record(&Settings::new(1 << 30))?;
///
/// let mut page = Vec::new();
/// write_html(&Report::new(&recording, Some(&outcome)).titled("nothing at all"), &mut page)?;
/// assert!(page.starts_with(b"<!DOCTYPE html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    pub(super) title: String,
    pub(super) header: Header,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Outcome>,
    /// The part of the run that the report covers, in words.
    pub(super) part: String,
    /// Whether that is the whole run.
    pub(super) whole: bool,
    #[serde(skip)]
    pub(super) window: Window,
    pub(super) step_ns: u64,
    pub(super) live_peak_bytes: usize,
    pub(super) ops: usize,
    /// Of these, ops that came after the program had read a tensor without data.
    pub(super) ops_after_read: usize,
    #[serde(skip)]
    pub(super) memory: Vec<Bytes>,
    #[serde(skip)]
    pub(super) lanes: [LaneTime; Lane::ALL.len()],
    pub(super) peak: Peak,
    pub(super) decisions: Decisions,
    /// What leaves device memory, that with the largest cost first.
    pub(super) leaving: Vec<Leaving>,
    /// How long the compute lane waits.
    pub(super) wait_ns: u64,
    /// Bytes copied to the host.
    pub(super) offloaded_bytes: usize,
    /// Bytes copied back.
    pub(super) fetched_bytes: usize,
    /// Notes in the window, with their times.
    #[serde(skip)]
    pub(super) notes: Vec<(u64, String)>,
}

impl Report {
    /// Sums up the last iteration of a loop, or all of any other recording. An outcome adds what a recording does not
    /// contain: the time with all memory, the bound, and the reason if a run did not finish.
    pub fn new(recording: &Recording, outcome: Option<&Outcome>) -> Self {
        let begins = |event: &Event| matches!(event, Event::Note(text) if text.starts_with(ITERATION));
        let first = recording.events.iter().rposition(begins);
        let count = recording.events.iter().filter(|event| begins(event)).count();
        let part = match first.map(|first| &recording.events[first]) {
            Some(Event::Note(text)) if count > 1 => format!("{text} of {count}"),
            _ => "the whole run".into(),
        };
        let first = if count > 1 { first.unwrap_or(0) } else { 0 };
        Report::since(recording, outcome, first, part)
    }

    /// Sums up all of a recording, even if it is a loop.
    pub fn whole(recording: &Recording, outcome: Option<&Outcome>) -> Self {
        Report::since(recording, outcome, 0, "the whole run".into())
    }

    /// Uses this title in place of the device's name.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sums up the events from `first` on. Earlier events are followed, but not shown.
    fn since(recording: &Recording, outcome: Option<&Outcome>, first: usize, part: String) -> Self {
        let events = recording.events.as_slice();
        let moments = moments(events);
        let end_ns = |events: &[Event]| {
            let ends = events.iter().filter_map(|event| event.ran()).map(|(_, ran)| ran.end_ns);
            ends.max().unwrap_or(0)
        };
        let begin_ns = if first == 0 { 0 } else { moments[first] };
        let window = Window { begin_ns, end_ns: end_ns(events).max(begin_ns) };
        let measured_ns = end_ns(events) - end_ns(&events[..first]);
        let moved = |wanted: Lane| {
            let copies = events[first..].iter().filter_map(|event| match event {
                Event::Copy(copied) if copied.lane == wanted && !copied.within => Some(copied.bytes),
                _ => None,
            });
            copies.sum()
        };
        let (leaving, wait_ns) = leaving(events, &moments, first);
        let notes = (first..events.len()).filter_map(|index| match &events[index] {
            Event::Note(text) => Some((moments[index], text.clone())),
            _ => None,
        });
        Report {
            title: match recording.header.device.as_str() {
                "" => "A run".into(),
                device => device.into(),
            },
            header: recording.header.clone(),
            outcome: outcome.cloned(),
            part,
            whole: first == 0,
            window,
            step_ns: outcome.and_then(|outcome| outcome.step_ns).filter(|_| first > 0).unwrap_or(measured_ns),
            live_peak_bytes: live_peak_bytes(events, first),
            // A replay repeats the recorded ops, whatever values it reads.
            ops_after_read: if recording.header.simulated && outcome.is_none() {
                ops_after_read(events)
            } else {
                0
            },
            ops: events[first..].iter().filter(|event| matches!(event, Event::Op(_))).count(),
            memory: memory(events, &moments, window),
            lanes: lanes(events, window),
            peak: peak(events, &moments, first),
            decisions: Decisions::new(events, first),
            leaving,
            wait_ns,
            offloaded_bytes: moved(Lane::Offload),
            fetched_bytes: moved(Lane::Fetch),
            notes: notes.collect(),
        }
    }
}

fn ops_after_read(events: &[Event]) -> usize {
    let read = events.iter().position(|event| matches!(event, Event::Read(_)));
    let after = read.map_or(&[][..], |read| &events[read..]);
    after.iter().filter(|event| matches!(event, Event::Op(_))).count()
}

/// The most bytes that the program held at once, from an event on.
fn live_peak_bytes(events: &[Event], first: usize) -> usize {
    let mut ledger = Ledger::default();
    let held = events.iter().enumerate().map(|(index, event)| {
        ledger.take(event);
        if index < first { 0 } else { ledger.totals().live_bytes }
    });
    held.max().unwrap_or(0)
}
