//! One iteration as data flow, which policies that plan start from. Ops and values are named by their place in the
//! lists. A storage's value never changes, so a value stands for its storage.

use crate::op::{Origin, Reads};

use super::parts::{Layer, Phase};

/// An iteration of a program that repeats it.
#[derive(Clone, Debug, Default)]
pub struct Dataflow {
    /// Ops in the order of the program.
    pub ops: Vec<Operation>,
    /// Values; those that exist when the iteration begins come first.
    pub values: Vec<Value>,
    /// Intervals, in the order of the touches that they begin with.
    pub intervals: Vec<Interval>,
    /// Layers of the forward pass, in order.
    pub layers: Vec<Layer>,
    /// Bytes of device memory that are read or written per second; 0 if that is unknown.
    pub memory_bytes_per_second: f64,
    /// Fixed cost of an op.
    pub overhead_ns: u64,
}

/// An op of the iteration.
#[derive(Clone, Debug)]
pub struct Operation {
    /// This crate's name of the op, or the name in a recorded program.
    pub name: &'static str,
    /// Predicted time.
    pub launch_ns: u64,
    /// Time at which it begins if nothing is evicted.
    pub begin_ns: u64,
    /// Workspace, less the bytes of inputs whose memory outputs take over.
    pub extra_bytes: isize,
    /// Device memory in use while it runs if nothing is evicted.
    pub need_bytes: usize,
    /// Whether running it again gives the same bits.
    pub exact: bool,
    /// Values it reads.
    pub inputs: Vec<usize>,
    /// Values it makes.
    pub outputs: Vec<usize>,
    /// The interval that begins at its first operand. Those of its other operands follow, inputs before outputs.
    pub first_interval: usize,
    /// Which part of the iteration it belongs to.
    pub phase: Phase,
    /// Its layer; ops of the update have none.
    pub layer: Option<usize>,
}

/// A storage.
#[derive(Clone, Debug)]
pub struct Value {
    /// Device memory it takes.
    pub size_bytes: usize,
    /// Predicted time of a copy, one way.
    pub copy_ns: u64,
    /// Whether the program reads its data back.
    pub is_read: bool,
    /// How the value is made, if that is known.
    pub origin: Option<Origin>,
    /// The op that makes it. There is none if the value exists when the iteration begins, or if the program writes
    /// it.
    pub made_by: Option<usize>,
    /// Whether it exists when the iteration begins.
    pub persists: bool,
    /// If it persists, the value that takes its place when the iteration ends.
    pub successor: Option<usize>,
    /// The op after which it is dropped.
    pub freed_after: Option<usize>,
    /// Its intervals, in order.
    pub intervals: Vec<usize>,
}

/// An interval: the time from one touch of a value by an op to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The value.
    pub value: usize,
    /// The op that it begins with.
    pub from: usize,
    /// What that op reads of the value.
    pub reads: Reads,
    /// The op that it ends with, and what that op reads. Ops of the next iteration are numbered on from the last of
    /// this one. `None` if the value is dropped before it is touched again.
    pub until: Option<(usize, Reads)>,
}

/// The argument of [`Dataflow::op`].
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
    /// Values that the op reads, and what it reads of each.
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
            intervals: Vec::new(),
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
            first_interval: self.intervals.len(),
            phase: Phase::default(),
            layer: None,
        });
        for &output in new.outputs {
            self.values[output].made_by = Some(at);
        }
        let outputs = new.outputs.iter().map(|&output| (output, Reads::Nothing));
        for (value, reads) in new.inputs.iter().copied().chain(outputs) {
            let place = self.intervals.len();
            if let Some(last) = self.values[value].intervals.last() {
                self.intervals[*last].until = Some((at, reads));
            }
            self.values[value].intervals.push(place);
            self.intervals.push(Interval { value, from: at, reads, until: None });
        }
    }

    /// Ops that read a value.
    pub fn readers(&self, value: usize) -> impl Iterator<Item = usize> + '_ {
        let touches = self.values[value].intervals.iter().map(|&interval| self.intervals[interval].from);
        touches.filter(move |&op| Some(op) != self.values[value].made_by)
    }

    /// Time at which an op begins if nothing is evicted. Numbers beyond the last op stand for ops of the next
    /// iteration.
    pub fn begin_ns(&self, op: usize) -> u64 {
        let count = self.ops.len();
        (op / count) as u64 * self.end_ns() + self.ops[op % count].begin_ns
    }

    /// Time at which the last op ends.
    pub fn end_ns(&self) -> u64 {
        self.ops.last().map_or(0, |op| op.begin_ns + op.launch_ns)
    }

    /// The last op that begins no later than a time.
    pub fn op_at(&self, ns: u64) -> usize {
        self.ops.partition_point(|op| op.begin_ns <= ns).saturating_sub(1)
    }

    /// The interval from a value's last touch in the forward pass to its first in the backward pass, if the backward
    /// pass touches it.
    pub fn kept_for_backward(&self, value: usize) -> Option<(usize, Interval)> {
        let turns = |interval: &Interval| {
            let until = interval.until.filter(|&(until, _)| until < self.ops.len());
            self.ops[interval.from].phase == Phase::Forward
                && until.is_some_and(|(until, _)| self.ops[until].phase == Phase::Backward)
        };
        let intervals = self.values[value].intervals.iter();
        intervals.map(|&place| (place, self.intervals[place])).find(|(_, interval)| turns(interval))
    }

    /// The last interval of a value that is dead but held: the program's last touch of it is in the forward pass, and
    /// the program drops it only in the backward pass.
    pub fn dead_but_held(&self, value: usize) -> Option<(usize, Interval)> {
        let place = *self.values[value].intervals.last()?;
        let interval = self.intervals[place];
        let freed_after = self.values[value].freed_after.filter(|_| interval.until.is_none())?;
        let turns = self.ops[interval.from].phase == Phase::Forward
            && self.ops.get(freed_after).is_some_and(|op| op.phase == Phase::Backward);
        turns.then_some((place, interval))
    }

    /// The most that any op reads of a value from the end of an interval on.
    pub fn coming_reads(&self, value: usize, interval: usize) -> Reads {
        let coming = self.values[value].intervals.iter().filter(|&&place| place >= interval);
        let reads: Vec<Reads> =
            coming.filter_map(|&place| self.intervals[place].until).map(|(_, reads)| reads).collect();
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

    /// Predicted time of an op that only reads and writes this many bytes.
    pub fn stream_ns(&self, bytes: usize) -> u64 {
        let known = self.memory_bytes_per_second > 0.0;
        let traffic_ns = if known { bytes as f64 / self.memory_bytes_per_second * 1e9 } else { 0.0 };
        self.overhead_ns + traffic_ns as u64
    }

    /// The peak of device memory if nothing is evicted.
    pub fn peak_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.need_bytes).max().unwrap_or(0)
    }
}
