//! One iteration as data flow: what policies that plan look at. Ops by place, values by place; a storage's value never
//! changes, so the two are one.

use crate::op::{Origin, Reads};

use super::parts::{Layer, Phase};

/// An iteration that repeats.
#[derive(Clone, Debug, Default)]
pub struct Dataflow {
    /// In order.
    pub ops: Vec<Operation>,
    /// Those that are there when the iteration begins come first.
    pub values: Vec<Value>,
    /// In order of the touches that they begin with.
    pub gaps: Vec<Gap>,
    /// What the forward pass consists of, in order.
    pub layers: Vec<Layer>,
    /// Device memory, read or written, per second; 0 where that is not known.
    pub memory_bytes_per_second: f64,
    /// Fixed cost of an op.
    pub overhead_ns: u64,
}

/// An op of the iteration.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it is called: ours, or as a recorded program has it.
    pub name: &'static str,
    /// Predicted time.
    pub launch_ns: u64,
    /// When it begins if nothing is evicted.
    pub begin_ns: u64,
    /// Workspace, less what the first output takes over from an input.
    pub extra_bytes: isize,
    /// Device memory while it runs if nothing is evicted.
    pub need_bytes: usize,
    /// Whether it gives the same bits again.
    pub exact: bool,
    /// Values it reads.
    pub inputs: Vec<usize>,
    /// Values it makes.
    pub outputs: Vec<usize>,
    /// The gap that begins at its first operand, inputs before outputs; the others follow.
    pub first_gap: usize,
    /// Which part of the iteration it belongs to.
    pub phase: Phase,
    /// Its layer; none in an update.
    pub layer: Option<usize>,
}

/// A storage.
#[derive(Clone, Debug)]
pub struct Value {
    /// Device memory it takes.
    pub size_bytes: usize,
    /// Predicted time of a copy, one way.
    pub copy_ns: u64,
    /// The program asks for its data.
    pub is_read: bool,
    /// How it is made, if that is known.
    pub origin: Option<Origin>,
    /// The op that makes it; none if it is there when the iteration begins, or written in it.
    pub made_by: Option<usize>,
    /// It is there when the iteration begins.
    pub persists: bool,
    /// What takes its place when the iteration ends, if it persists.
    pub successor: Option<usize>,
    /// The op after which it is dropped.
    pub freed_after: Option<usize>,
    /// Its gaps, in order.
    pub gaps: Vec<usize>,
}

/// The time from one touch of a value by an op to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Whose.
    pub value: usize,
    /// The op that it begins with.
    pub from: usize,
    /// What that reads of it.
    pub reads: Reads,
    /// The op that it ends with, and what that reads: counted on beyond the last op if in the next iteration. None if the value
    /// is dropped before.
    pub until: Option<(usize, Reads)>,
}

/// A new op, as [`Dataflow::op`] takes it.
#[derive(Clone, Debug)]
pub struct NewOp<'a> {
    /// See [`Operation`].
    pub name: &'static str,
    /// See [`Operation`].
    pub launch_ns: u64,
    /// See [`Operation`].
    pub extra_bytes: isize,
    /// See [`Operation`].
    pub exact: bool,
    /// Values, and what it reads of them.
    pub inputs: &'a [(usize, Reads)],
    /// Values it makes.
    pub outputs: &'a [usize],
}

impl Dataflow {
    /// Adds a value.
    pub fn value(&mut self, size_bytes: usize, copy_ns: u64, persists: bool) -> usize {
        self.values.push(Value {
            size_bytes,
            copy_ns,
            is_read: false,
            origin: None,
            made_by: None,
            persists,
            successor: None,
            freed_after: None,
            gaps: Vec::new(),
        });
        self.values.len() - 1
    }

    /// Adds the next op.
    pub fn op(&mut self, new: &NewOp) {
        let at = self.ops.len();
        let begin_ns = self.ops.last().map_or(0, |op| op.begin_ns + op.launch_ns);
        self.ops.push(Operation {
            name: new.name,
            launch_ns: new.launch_ns,
            begin_ns,
            extra_bytes: new.extra_bytes,
            need_bytes: 0,
            exact: new.exact,
            inputs: new.inputs.iter().map(|&(value, _)| value).collect(),
            outputs: new.outputs.to_vec(),
            first_gap: self.gaps.len(),
            phase: Phase::default(),
            layer: None,
        });
        for &output in new.outputs {
            self.values[output].made_by = Some(at);
        }
        let outputs = new.outputs.iter().map(|&output| (output, Reads::Nothing));
        for (value, reads) in new.inputs.iter().copied().chain(outputs) {
            let place = self.gaps.len();
            if let Some(last) = self.values[value].gaps.last() {
                self.gaps[*last].until = Some((at, reads));
            }
            self.values[value].gaps.push(place);
            self.gaps.push(Gap { value, from: at, reads, until: None });
        }
    }

    /// Ops that read a value.
    pub fn readers(&self, value: usize) -> impl Iterator<Item = usize> + '_ {
        let touches = self.values[value].gaps.iter().map(|&gap| self.gaps[gap].from);
        touches.filter(move |&op| Some(op) != self.values[value].made_by)
    }

    /// When an op begins if nothing is evicted; ops beyond the last are those of the next iteration.
    pub fn begin_ns(&self, op: usize) -> u64 {
        let count = self.ops.len();
        (op / count) as u64 * self.end_ns() + self.ops[op % count].begin_ns
    }

    /// When the last op ends.
    pub fn end_ns(&self) -> u64 {
        self.ops.last().map_or(0, |op| op.begin_ns + op.launch_ns)
    }

    /// The last op that begins at a time or before.
    pub fn op_at(&self, ns: u64) -> usize {
        self.ops.partition_point(|op| op.begin_ns <= ns).saturating_sub(1)
    }

    /// The gap in which a value waits from its last touch in the forward pass for the backward pass, if it does.
    pub fn kept_for_backward(&self, value: usize) -> Option<(usize, Gap)> {
        let turns = |gap: &Gap| {
            let until = gap.until.filter(|&(until, _)| until < self.ops.len());
            self.ops[gap.from].phase == Phase::Forward
                && until.is_some_and(|(until, _)| self.ops[until].phase == Phase::Backward)
        };
        let gaps = self.values[value].gaps.iter();
        gaps.map(|&place| (place, self.gaps[place])).find(|(_, gap)| turns(gap))
    }

    /// The gap in which a value is held from its last touch in the forward pass into the backward pass, though nothing touches it
    /// again, if it is.
    pub fn held_in_vain(&self, value: usize) -> Option<(usize, Gap)> {
        let place = *self.values[value].gaps.last()?;
        let gap = self.gaps[place];
        let freed_after = self.values[value].freed_after.filter(|_| gap.until.is_none())?;
        let turns = self.ops[gap.from].phase == Phase::Forward
            && self.ops.get(freed_after).is_some_and(|op| op.phase == Phase::Backward);
        turns.then_some((place, gap))
    }

    /// The most that ops read of a value from the end of a gap on.
    pub fn coming_reads(&self, value: usize, gap: usize) -> Reads {
        let coming = self.values[value].gaps.iter().filter(|&&place| place >= gap);
        let reads: Vec<Reads> =
            coming.filter_map(|&place| self.gaps[place].until).map(|(_, reads)| reads).collect();
        match () {
            _ if reads.contains(&Reads::Values) => Reads::Values,
            _ if reads.contains(&Reads::Signs) => Reads::Signs,
            _ => Reads::Nothing,
        }
    }

    /// The first op of each layer's backward pass.
    pub fn backward_begins(&self) -> Vec<Option<usize>> {
        let mut begins = vec![None; self.layers.len()];
        for (at, op) in self.ops.iter().enumerate() {
            if let (Phase::Backward, Some(layer)) = (op.phase, op.layer) {
                begins[layer].get_or_insert(at);
            }
        }
        begins
    }

    /// Predicted time of an op that does no more than read and write so many bytes.
    pub fn stream_ns(&self, bytes: usize) -> u64 {
        let known = self.memory_bytes_per_second > 0.0;
        let traffic_ns = if known { bytes as f64 / self.memory_bytes_per_second * 1e9 } else { 0.0 };
        self.overhead_ns + traffic_ns as u64
    }

    /// Device memory at the fullest op if nothing is evicted.
    pub fn peak_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.need_bytes).max().unwrap_or(0)
    }
}
