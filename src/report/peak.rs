//! The peak snapshot: the contents of device memory when the most of it was in use.

use std::collections::HashMap;

use super::ledger::{Block, Ledger};
use super::modules::{Modules, of_layers};
use crate::engine::{Lane, Tier};
use crate::trace::{Event, How};

/// The moment when the most device memory was in use.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Peak {
    pub bytes: usize,
    pub at_ns: u64,
    /// The op that ran then.
    pub op: Option<String>,
    /// Storages in device memory, the most bytes first.
    pub residents: Vec<Resident>,
}

/// Storages of one size that one op made, in one module or in layers that are alike, and that had the same fate.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Resident {
    pub made_by: String,
    pub module: Option<String>,
    pub size_bytes: usize,
    pub count: usize,
    pub fate: Fate,
}

/// The fate of a storage, with the number of evictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub(super) struct Fate {
    /// It is no storage, but the workspace of an op.
    pub workspace: bool,
    pub offloaded: u32,
    /// Evicted while the host had the bytes already.
    pub clean: u32,
    pub dropped: u32,
    pub recomputed: u32,
}

/// The peak among the events from `first` on.
pub(super) fn peak(events: &[Event], moments: &[u64], first: usize) -> Peak {
    let Some(at) = highest(events, first) else { return Peak::default() };
    let mut ledger = Ledger::default();
    events[..=at].iter().for_each(|event| ledger.take(event));
    let (bytes, mut blocks) = (ledger.totals().device_bytes, ledger.device_blocks());
    // The storages of blocks that were just placed are known once the op is submitted.
    let computes = |event: &Event| {
        !matches!(event, Event::Copy(_)) && event.ran().is_some_and(|(lane, _)| lane == Lane::Compute)
    };
    let work = (at + 1..events.len()).find(|&index| computes(&events[index]));
    for event in &events[at + 1..=work.unwrap_or(at)] {
        ledger.take(event);
    }
    for (address, block) in &mut blocks {
        block.storage = block.storage.or_else(|| ledger.owner(*address));
    }
    let op = work.and_then(|index| match &events[index] {
        Event::Op(op) => Some(op.name.to_string()),
        Event::Recompute(recomputed) => Some(recomputed.name.to_string()),
        _ => None,
    });
    let fates = fates(&events[first..]);
    let storages = Storages { ledger: &ledger, modules: Modules::of(events), fates };
    let residents = grouped(blocks, &storages, op.as_ref());
    Peak { bytes, at_ns: moments[at], op, residents }
}

/// The event after which the most is in use for the first time.
fn highest(events: &[Event], first: usize) -> Option<usize> {
    let mut ledger = Ledger::default();
    let mut most: Option<(usize, usize)> = None;
    for (index, event) in events.iter().enumerate() {
        ledger.take(event);
        let bytes = ledger.totals().device_bytes;
        let counts = index >= first && matches!(event, Event::Allocate { tier: Tier::Device, .. });
        if (counts || index == first) && bytes > most.map_or(0, |most| most.0) {
            most = Some((bytes, index));
        }
    }
    most.map(|most| most.1)
}

fn fates(events: &[Event]) -> HashMap<u64, Fate> {
    let mut fates: HashMap<u64, Fate> = HashMap::new();
    for event in events {
        match event {
            Event::Evict(evicted) => {
                let fate = fates.entry(evicted.storage).or_default();
                match evicted.how {
                    How::Offload => fate.offloaded += 1,
                    How::Clean => fate.clean += 1,
                    How::Drop | How::Encode => fate.dropped += 1,
                }
            }
            Event::Recompute(recomputed) => {
                for made in &recomputed.storages {
                    fates.entry(made.storage).or_default().recomputed += 1;
                }
            }
            _ => {}
        }
    }
    fates
}

/// What is known of storages.
struct Storages<'a> {
    ledger: &'a Ledger,
    modules: Modules<'a>,
    fates: HashMap<u64, Fate>,
}

fn grouped(blocks: Vec<(u64, Block)>, storages: &Storages, op: Option<&String>) -> Vec<Resident> {
    let mut groups: HashMap<(String, Option<String>, usize, Fate), usize> = HashMap::new();
    for (_, block) in blocks {
        let storage = block.storage.and_then(|number| Some((number, storages.ledger.storage(number)?)));
        let key = match storage {
            Some((number, storage)) => {
                let module = storages.modules.of_storage(number).map(of_layers);
                let fate = storages.fates.get(&number).copied().unwrap_or_default();
                (storage.made_by.clone(), module, storage.bytes, fate)
            }
            None => {
                let fate = Fate { workspace: true, ..Fate::default() };
                (op.cloned().unwrap_or_default(), None, block.bytes, fate)
            }
        };
        *groups.entry(key).or_default() += 1;
    }
    let resident =
        |((made_by, module, size_bytes, fate), count)| Resident { made_by, module, size_bytes, count, fate };
    let mut residents: Vec<Resident> = groups.into_iter().map(resident).collect();
    residents.sort_by(|a, b| {
        let key = |resident: &Resident| (resident.size_bytes * resident.count, resident.size_bytes);
        key(b).cmp(&key(a)).then_with(|| (&a.made_by, &a.module).cmp(&(&b.made_by, &b.module)))
    });
    residents
}

impl Fate {
    /// The fate, in words.
    pub fn words(&self) -> String {
        if self.workspace {
            return "workspace, gone with the op".into();
        }
        let times = |what: &str, count: u32| (count > 0).then(|| format!("{what} {count}×"));
        let parts = [
            times("offloaded", self.offloaded),
            times("left to its host copy", self.clean),
            times("dropped", self.dropped).filter(|_| self.recomputed == 0),
            times("recomputed", self.recomputed),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "kept".into() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dtype, Work};
    use crate::trace::{Made, OpEvent, Ran};

    fn allocate(address: u64, bytes: usize) -> Event {
        Event::Allocate { tier: Tier::Device, address, bytes }
    }

    fn op(name: &'static str, inputs: Vec<u64>, consumed: Vec<usize>, storage: u64) -> Event {
        Event::Op(OpEvent {
            name: name.into(),
            inputs,
            in_place: consumed.clone(),
            parameters: Vec::new(),
            consumed,
            outputs: vec![Made { storage, bytes: 500 }],
            scratch_bytes: 0,
            work: Work { flops: 0, read_bytes: 0, written_bytes: 0, dtype: Dtype::F32, measured_ns: None },
            exact: true,
            module: None,
            ran: Ran::default(),
        })
    }

    /// The snapshot includes the outputs and the workspace of the op at the peak, and an output that took its input's
    /// memory.
    #[test]
    fn every_block_at_the_peak_has_a_name() {
        let release = |address, bytes| Event::Release { tier: Tier::Device, address, bytes };
        let events = [
            allocate(0, 512),
            op("first", vec![], vec![], 0),
            op("second", vec![0], vec![0], 1),
            allocate(512, 512),
            allocate(1024, 256),
            release(1024, 256),
            op("third", vec![1], vec![], 2),
            release(0, 512),
        ];
        let peak = peak(&events, &[0, 0, 0, 5, 5, 9, 9, 9], 0);
        assert_eq!((peak.bytes, peak.at_ns, peak.op.as_deref()), (1280, 5, Some("third")));
        let found: Vec<_> = peak
            .residents
            .iter()
            .map(|resident| (resident.made_by.as_str(), resident.size_bytes, resident.fate.words()))
            .collect();
        let (kept, workspace) = ("kept".to_string(), "workspace, gone with the op".to_string());
        assert_eq!(found, [("second", 500, kept.clone()), ("third", 500, kept), ("third", 256, workspace)]);
    }
}
