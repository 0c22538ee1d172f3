//! The smallest footprint that a choice of addresses reaches if nothing is evicted.

use std::collections::HashMap;

use serde::Serialize;

use super::Replay;
use crate::engine::aligned;
use crate::planner::{Lifetime, peak_bytes, place};
use crate::trace::{Event, OpEvent};

/// Memory that the storages and workspaces of an iteration take.
///
/// ```
/// use burn_overcommit::SimProfile;
/// use burn_overcommit::replay::Replay;
/// use burn_overcommit::trace::Program;
///
/// let profile = SimProfile::named("v100").and_then(SimProfile::get).unwrap();
/// let program = Program::default();
/// let footprint = Replay::new(&program, profile, 1)?.footprint(1000);
/// assert_eq!((footprint.blocks, footprint.footprint_bytes), (0, 0));
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Footprint {
    /// The number of blocks: workspaces and storages, but for storages that take the memory of another.
    pub blocks: usize,
    /// The most bytes in blocks at once, multiples of 256 each.
    pub peak_bytes: usize,
    /// The highest end of a block, with the addresses that were found.
    pub footprint_bytes: usize,
}

impl Replay<'_> {
    /// Chooses addresses for all blocks of an iteration, as plans do, and improves them in this many steps, of which
    /// some hundred million take a second.
    pub fn footprint(&self, most_steps: u64) -> Footprint {
        let (blocks, period) = Blocks::of(&self.program.events);
        let peak_bytes = peak_bytes(&blocks, period);
        let placed = place(&blocks, period, 0, most_steps);
        Footprint { blocks: blocks.len(), peak_bytes, footprint_bytes: placed.footprint_bytes }
    }
}

/// The blocks of a program, with the time in which each is in use.
#[derive(Default)]
struct Blocks {
    lifetimes: Vec<Lifetime>,
    /// By storage.
    current: HashMap<u64, usize>,
}

impl Blocks {
    /// Each event has two moments: when it runs, and when the memory that it frees is free.
    fn of(events: &[Event]) -> (Vec<Lifetime>, u32) {
        let period = 2 * events.len() as u32;
        let mut blocks = Blocks::default();
        for (event, now) in events.iter().zip((0..).step_by(2)) {
            match event {
                Event::Op(op) => blocks.op(op, now, period),
                Event::Constant(made) => {
                    blocks.lifetimes.push(Lifetime { bytes: aligned(made.bytes), from: 0, until: period });
                }
                Event::Write(made) => blocks.begin(made.storage, made.bytes, now, period),
                Event::Free(storage) => blocks.end(*storage, now),
                _ => {}
            }
        }
        (blocks.lifetimes, period)
    }

    /// A storage that is not freed within its iteration stays until the next iteration has made its counterpart.
    fn begin(&mut self, storage: u64, bytes: usize, now: u32, period: u32) {
        self.current.insert(storage, self.lifetimes.len());
        self.lifetimes.push(Lifetime { bytes: aligned(bytes), from: now, until: now + period });
    }

    fn end(&mut self, storage: u64, now: u32) {
        if let Some(index) = self.current.remove(&storage) {
            self.lifetimes[index].until = now + 1;
        }
    }

    fn op(&mut self, op: &OpEvent, now: u32, period: u32) {
        let fits = |storage: u64, bytes: usize| {
            self.current.get(&storage).is_some_and(|&index| self.lifetimes[index].bytes == aligned(bytes))
        };
        let overwritten = op.overwritten(fits);
        for (place, made) in op.outputs.iter().enumerate() {
            let input = overwritten.get(place).map(|&input| op.inputs[input]);
            match input.and_then(|storage| self.current.remove(&storage)) {
                Some(block) => {
                    self.current.insert(made.storage, block);
                }
                None => self.begin(made.storage, made.bytes, now, period),
            }
        }
        if op.scratch_bytes > 0 {
            let bytes = aligned(op.scratch_bytes);
            self.lifetimes.push(Lifetime { bytes, from: now, until: now + 1 });
        }
        op.consumed.iter().for_each(|&place| self.end(op.inputs[place], now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dtype, Work};
    use crate::trace::Made;

    #[test]
    fn an_output_in_the_place_of_an_input_is_one_block_with_it() {
        let made = |storage, bytes| Made { storage, bytes };
        let work = Work { flops: 0, read_bytes: 0, written_bytes: 0, dtype: Dtype::U8, measured_ns: None };
        let op = |inputs: &[u64], outputs: &[Made], consumed: &[usize]| {
            Event::Op(OpEvent {
                name: "op".into(),
                inputs: inputs.to_vec(),
                consumed: consumed.to_vec(),
                in_place: vec![0],
                parameters: Vec::new(),
                outputs: outputs.to_vec(),
                scratch_bytes: 100,
                work,
                exact: true,
                module: None,
                ran: Default::default(),
            })
        };
        let events = [
            Event::Constant(made(0, 1000)),
            op(&[0], &[made(1, 500)], &[]),
            op(&[1], &[made(2, 500)], &[0]),
            op(&[2], &[made(3, 500)], &[]),
            Event::Free(2),
        ];
        let (blocks, period) = Blocks::of(&events);
        let lifetime = |bytes, from, until| Lifetime { bytes, from, until };
        let scratch = |now| lifetime(256, now, now + 1);
        let expected = [
            lifetime(1024, 0, 10),
            lifetime(512, 2, 9),
            scratch(2),
            scratch(4),
            lifetime(512, 6, 16),
            scratch(6),
        ];
        assert_eq!((blocks.as_slice(), period), (expected.as_slice(), 10));
    }
}
