//! Values over time for charts, one for every column of pixels.

use std::borrow::Cow;

use super::ledger::{Ledger, Totals};
use crate::engine::Lane;
use crate::trace::{Event, Ran};

/// Columns of a chart.
pub(super) const COLUMNS: usize = 1010;
/// A lane with at most this many pieces shows each of them.
const MAX_PIECES: usize = 160;

/// The time that a report covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// The most bytes in each column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub device: usize,
    pub host_only: usize,
    pub dropped: usize,
}

/// The work of a lane.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneTime {
    pub busy_ns: u64,
    /// The part of that time in which ops were run again.
    pub recompute_ns: u64,
    /// Every piece of work, if there are few.
    pub pieces: Option<Vec<Piece>>,
    /// For each column, the part of the time in which the lane was busy, and the part in which it ran ops again.
    pub columns: Vec<[f64; 2]>,
}

/// A piece of work.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub name: Cow<'static, str>,
    pub again: bool,
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Window {
    /// Never zero.
    pub fn length_ns(&self) -> u64 {
        (self.end_ns - self.begin_ns).max(1)
    }

    fn column(&self, at_ns: u64) -> usize {
        let part = at_ns.saturating_sub(self.begin_ns) as f64 / self.length_ns() as f64;
        ((part * COLUMNS as f64) as usize).min(COLUMNS - 1)
    }
}

/// The most memory of each kind in each column.
pub(super) fn memory(events: &[Event], moments: &[u64], window: Window) -> Vec<Bytes> {
    let mut columns = vec![Bytes::default(); COLUMNS];
    let mut ledger = Ledger::default();
    let (mut now, mut from, mut since_ns) = (Totals::default(), 0, window.begin_ns);
    for (index, event) in events.iter().enumerate() {
        ledger.take(event);
        let at_ns = moments[index];
        if at_ns < window.begin_ns {
            now = ledger.totals();
            continue;
        }
        let column = window.column(at_ns);
        if at_ns > since_ns {
            columns[from..=column].iter_mut().for_each(|passed| passed.raise(&now));
            (from, since_ns) = (column, at_ns);
        }
        // Of several states at one moment only the last has a duration, but all count for the peak.
        if matches!(event, Event::Allocate { .. }) {
            columns[column].device = columns[column].device.max(ledger.totals().device_bytes);
        }
        if moments.get(index + 1) != Some(&at_ns) {
            now = ledger.totals();
            columns[column].raise(&now);
        }
    }
    for rest in &mut columns[from..] {
        rest.raise(&now);
    }
    columns
}

impl Bytes {
    fn raise(&mut self, totals: &Totals) {
        self.device = self.device.max(totals.device_bytes);
        self.host_only = self.host_only.max(totals.host_only_bytes);
        self.dropped = self.dropped.max(totals.dropped_bytes);
    }
}

/// The work of each lane in the window.
pub(super) fn lanes(events: &[Event], window: Window) -> [LaneTime; Lane::ALL.len()] {
    Lane::ALL.map(|wanted| {
        let works = events.iter().filter_map(|event| {
            let (lane, ran) = event.ran()?;
            (lane == wanted).then_some((event, clip(ran, window)?))
        });
        let mut time = LaneTime { columns: vec![[0.0; 2]; COLUMNS], ..LaneTime::default() };
        let mut pieces = Vec::new();
        for (event, (begin_ns, end_ns)) in works {
            let again = matches!(event, Event::Recompute(_));
            time.busy_ns += end_ns - begin_ns;
            time.recompute_ns += if again { end_ns - begin_ns } else { 0 };
            time.fill(begin_ns, end_ns, again, window);
            if pieces.len() <= MAX_PIECES {
                pieces.push(Piece { name: name(event), again, begin_ns, end_ns });
            }
        }
        time.pieces = (pieces.len() <= MAX_PIECES).then_some(pieces);
        time
    })
}

fn name(event: &Event) -> Cow<'static, str> {
    match event {
        Event::Op(op) => op.name.clone(),
        Event::Recompute(recomputed) => recomputed.name.clone(),
        Event::Copy(copied) => super::units::size(copied.bytes).into(),
        _ => "".into(),
    }
}

/// The part of a piece that lies in the window.
fn clip(ran: Ran, window: Window) -> Option<(u64, u64)> {
    let (begin_ns, end_ns) = (ran.begin_ns.max(window.begin_ns), ran.end_ns.min(window.end_ns));
    (begin_ns < end_ns).then_some((begin_ns, end_ns))
}

impl LaneTime {
    fn fill(&mut self, begin_ns: u64, end_ns: u64, again: bool, window: Window) {
        let width_ns = window.length_ns() as f64 / COLUMNS as f64;
        let at = |ns: u64| (ns - window.begin_ns) as f64 / width_ns;
        let (begin, end) = (at(begin_ns), at(end_ns));
        for column in window.column(begin_ns)..=window.column(end_ns) {
            let part = (end.min((column + 1) as f64) - begin.max(column as f64)).max(0.0);
            self.columns[column][usize::from(again)] += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Tier;
    use crate::trace::{Copied, Recomputed};

    fn ran(begin_ns: u64, end_ns: u64) -> Ran {
        Ran { sequence: 0, begin_ns, end_ns }
    }

    #[test]
    fn a_window_begins_with_what_was_there() {
        let (tier, bytes) = (Tier::Device, 512);
        let events = [
            Event::Allocate { tier, address: 0, bytes },
            Event::Sync,
            Event::Allocate { tier, address: 512, bytes },
            Event::Release { tier, address: 512, bytes },
            Event::Release { tier, address: 0, bytes },
        ];
        let window = Window { begin_ns: 1000, end_ns: 3000 };
        let columns = memory(&events, &[0, 1000, 2000, 2000, 2500], window);
        let device: Vec<usize> = [0, COLUMNS / 4, COLUMNS / 2, COLUMNS * 5 / 8, COLUMNS - 1]
            .map(|column| columns[column].device)
            .into();
        assert_eq!(device, [512, 512, 1024, 512, 0]);
    }

    #[test]
    fn columns_add_up_to_the_time_that_a_lane_was_busy() {
        let again = |ran| Event::Recompute(Recomputed { name: "op".into(), storages: Vec::new(), ran });
        let copy = |ran| Event::Copy(Copied { lane: Lane::Fetch, storage: 0, bytes: 1, within: false, ran });
        let events = [again(ran(0, 150)), copy(ran(100, 103)), again(ran(160, 1100)), copy(ran(900, 5000))];
        let window = Window { begin_ns: 100, end_ns: 1100 };
        let [compute, offload, fetch, ..] = lanes(&events, window);
        assert_eq!(
            [compute.busy_ns, compute.recompute_ns, offload.busy_ns, fetch.busy_ns],
            [990, 990, 0, 203]
        );
        let sum = |lane: &LaneTime| lane.columns.iter().map(|[op, again]| op + again).sum::<f64>();
        for lane in [compute, offload, fetch] {
            assert!((sum(&lane) * 1000.0 / COLUMNS as f64 - lane.busy_ns as f64).abs() < 1e-6);
            assert!(lane.columns.iter().flatten().all(|part| (0.0..1.000001).contains(part)));
        }
    }
}
