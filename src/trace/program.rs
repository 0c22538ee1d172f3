//! A program as a replay needs it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;

use super::event::{Event, Made};
use super::iterations::{self, Iterations};

/// The requests of a program, in order, without evictions, copies and recomputations.
///
/// ```
/// use burn_overcommit::trace::{Event, Made, Program};
///
/// let events = vec![Event::Write(Made { storage: 0, bytes: 4096 }), Event::Note("step 2".into()), Event::Free(0)];
/// let program = Program { events, loops: false };
/// assert_eq!((program.ops(), program.live_peak_bytes()), (0, 4096));
/// assert_eq!(program.from_note("step 2").unwrap().events.len(), 3); // what lives by then is a constant
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Events of the kinds that programs cause.
    pub events: Vec<Event>,
    /// Whether it is a single iteration of a training loop, as in the logs of the DTR simulator, and not a whole run.
    pub loops: bool,
}

/// A trace that cannot be read.
///
/// ```
/// use burn_overcommit::trace::Program;
///
/// let error = Program::open("nowhere.jsonl").unwrap_err();
/// assert!(error.to_string().contains("nowhere.jsonl"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read or written.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// A line is wrong or misplaced.
    #[error("{}:{line}: {reason}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// The error.
        reason: String,
    },
}

/// Checks, event by event, that a program uses only storages that it has.
#[derive(Debug, Default)]
pub(super) struct Checker {
    live: HashMap<u64, usize>,
    made: u64,
}

impl Checker {
    /// Checks the next event and returns what is wrong with it.
    pub fn check(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Op(op) => {
                op.inputs.iter().try_for_each(|&storage| self.alive(storage))?;
                let mut places = op.consumed.iter().chain(&op.in_place).chain(&op.parameters);
                if let Some(place) = places.find(|&&place| place >= op.inputs.len()) {
                    return Err(format!("there is no input {place}: the op has {}", op.inputs.len()));
                }
                op.outputs.iter().try_for_each(|made| self.make(made.storage, made.bytes))?;
                op.consumed.iter().try_for_each(|&place| self.free(op.inputs[place]))
            }
            Event::Constant(made) | Event::Write(made) => self.make(made.storage, made.bytes),
            Event::Read(storage) => self.alive(*storage),
            Event::Free(storage) => self.free(*storage),
            _ => Ok(()),
        }
    }

    fn alive(&self, storage: u64) -> Result<(), String> {
        if self.live.contains_key(&storage) {
            return Ok(());
        }
        let state = if storage < self.made { "was freed before" } else { "was never made" };
        Err(format!("storage {storage} {state}"))
    }

    fn make(&mut self, storage: u64, bytes: usize) -> Result<(), String> {
        if storage < self.made {
            return Err(format!("storage {storage} is made a second time"));
        }
        self.made = storage + 1;
        self.live.insert(storage, bytes);
        Ok(())
    }

    fn free(&mut self, storage: u64) -> Result<(), String> {
        self.alive(storage)?;
        self.live.remove(&storage);
        Ok(())
    }
}

impl Program {
    /// The most bytes of live storages at once, by exact sizes and without workspaces. If an output may take the
    /// memory of an input that its op consumes, only one of the two counts.
    pub fn live_peak_bytes(&self) -> usize {
        let (mut sizes, mut live, mut peak) = (HashMap::new(), 0, 0);
        for event in &self.events {
            let mut freed: Vec<u64> = Vec::new();
            match event {
                Event::Op(op) => {
                    for made in &op.outputs {
                        sizes.insert(made.storage, made.bytes);
                        live += made.bytes;
                    }
                    let overwritten = op.overwritten(|storage, bytes| sizes.get(&storage) == Some(&bytes));
                    let saved: usize = overwritten.iter().map(|&place| sizes[&op.inputs[place]]).sum();
                    peak = peak.max(live - saved);
                    freed.extend(op.consumed.iter().map(|&place| op.inputs[place]));
                }
                Event::Constant(made) | Event::Write(made) => {
                    sizes.insert(made.storage, made.bytes);
                    live += made.bytes;
                    peak = peak.max(live);
                }
                Event::Free(storage) => freed.push(*storage),
                _ => {}
            }
            live -= freed.iter().filter_map(|storage| sizes.get(storage)).sum::<usize>();
        }
        peak
    }

    /// The program from its last note of this text on. Storages that it has by then are constants, which it may free. `None` if
    /// there is no such note.
    pub fn from_note(&self, text: &str) -> Option<Program> {
        let is_note = |event: &Event| matches!(event, Event::Note(note) if note == text);
        let begin = self.events.iter().rposition(is_note)?;
        Some(self.part(begin..self.events.len()))
    }

    /// The program's events in a range. Storages that it has by then are constants, which it may free.
    pub(crate) fn part(&self, range: Range<usize>) -> Program {
        let mut live: BTreeMap<u64, usize> = BTreeMap::new();
        for event in &self.events[..range.start] {
            match event {
                Event::Op(op) => {
                    live.extend(op.outputs.iter().map(|made| (made.storage, made.bytes)));
                    op.consumed.iter().for_each(|&place| {
                        live.remove(&op.inputs[place]);
                    });
                }
                Event::Constant(made) | Event::Write(made) => {
                    live.insert(made.storage, made.bytes);
                }
                Event::Free(storage) => {
                    live.remove(storage);
                }
                _ => {}
            }
        }
        let constants = live.into_iter().map(|(storage, bytes)| Event::Constant(Made { storage, bytes }));
        let events = constants.chain(self.events[range].iter().cloned()).collect();
        Program { events, loops: false }
    }

    /// The loop that most of the program's ops belong to, if there is one.
    ///
    /// ```
    /// use burn::tensor::Tensor;
    /// use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, recording};
    ///
    /// let device = OvercommitDevice::Host(0);
    /// configure(&device, Config::new().record())?;
    /// let x = Tensor::<Overcommit, 2>::ones([8, 8], &device);
    /// for _ in 0..8 {
    ///     x.clone().matmul(x.clone()).cumsum(0).cumsum(1).into_data();
    /// }
    /// assert_eq!(recording(&device)?.program().iterations().map(|found| found.ops), Some(3));
    /// # Ok::<(), burn_overcommit::Error>(())
    /// ```
    pub fn iterations(&self) -> Option<Iterations> {
        iterations::found(&self.events)
    }

    /// The events of the last whole iteration: all if nothing repeats.
    pub(crate) fn last_iteration(&self) -> Range<usize> {
        let ops: Vec<usize> =
            (0..self.events.len()).filter(|&at| matches!(self.events[at], Event::Op(_))).collect();
        let Some(found) = self.iterations() else { return 0..self.events.len() };
        let end = found.since + found.count(ops.len()) * found.ops;
        ops[end - found.ops]..ops.get(end).copied().unwrap_or(self.events.len())
    }

    /// The program with the times that its ops took in place of predicted ones.
    #[must_use]
    pub fn as_it_ran(mut self) -> Program {
        for event in &mut self.events {
            if let Event::Op(op) = event {
                op.work.measured_ns = Some(op.ran.end_ns.saturating_sub(op.ran.begin_ns));
            }
        }
        self
    }

    /// How many ops it submits.
    pub fn ops(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Op(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_has_at_a_note_are_constants() {
        let write = |storage| Event::Write(Made { storage, bytes: 10 });
        let note = |text: &str| Event::Note(text.into());
        let events = vec![
            write(0),
            note("step 1"),
            write(1),
            Event::Free(0),
            note("step 2"),
            write(2),
            Event::Free(1),
        ];
        let program = Program { events, loops: false };
        let constant = Event::Constant(Made { storage: 1, bytes: 10 });
        let expected = vec![constant, note("step 2"), write(2), Event::Free(1)];
        assert_eq!(program.from_note("step 2").unwrap().events, expected);
        assert!(program.from_note("step 3").is_none());
    }
}
