//! What a thread of the program asked for lately, kept until a whole iteration of it can be planned.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::engine::Instruction;
use crate::op::{Counts, Inputs, PerOutput};

/// Names a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId(pub u32);

/// Names what is planned. A schedule takes the place of the one before of the same plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanId(pub u64);

/// Something that the program asked for. Storages go by their numbers.
#[derive(Clone, Debug)]
pub enum Asked {
    /// An op, what it is like where it is, and with each input whether the op had its last handle.
    Op { instruction: Arc<Instruction>, context: u64, inputs: Inputs<(u64, bool)>, outputs: PerOutput<u64> },
    /// A new storage with the program's data.
    Write(u64),
    /// To have the data.
    Read(u64),
    /// The last handle is gone.
    Free(u64),
    /// To wait for all work.
    Sync,
}

/// A storage that was there before.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    pub size_bytes: usize,
    /// How many ops before the log an op touched it last, one if the last did, and by which operand, if any did.
    pub touched: Option<(u64, usize)>,
}

/// What the thread of a stream asked for, in order. What it is given by another thread counts as written when it is first used.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The stream.
    pub stream: StreamId,
    /// Which plan comes of it.
    pub plan: PlanId,
    /// It is one that is made anew.
    pub renews: bool,
    /// The pool sees whether the log is still there.
    pub under_way: Arc<()>,
    /// The number of the first storage that was made since the log began.
    pub first: u64,
    /// What the stream held when the log began.
    pub begun: HashMap<u64, Begun>,
    pub asked: Vec<Asked>,
    /// Of all storages that are named.
    pub size_bytes: HashMap<u64, usize>,
    /// How many checkpointed scopes they were made in and are no results of, where there are any.
    pub scopes: HashMap<u64, u32>,
    /// What was counted of their values.
    pub counts: HashMap<u64, Counts>,
    /// Device memory of storages that are not named and cannot leave.
    pub idle_bytes: usize,
    pub ops: usize,
}

impl Log {
    /// How many ops there are.
    pub fn ops(&self) -> usize {
        self.ops
    }

    /// The same with ops that take as long as was measured, where it was; and the predicted time of all of them before.
    pub fn as_measured(&self) -> (Log, [u64; 2]) {
        let mut log = self.clone();
        let mut corrected: HashMap<*const Instruction, Arc<Instruction>> = HashMap::new();
        let mut times_ns = [0; 2];
        for asked in &mut log.asked {
            let Asked::Op { instruction, .. } = asked else { continue };
            times_ns[0] += instruction.launch_ns;
            if let Some(launch_ns) = instruction.measured.ns() {
                let correct = || Arc::new(Instruction { launch_ns, ..(**instruction).clone() });
                *instruction = corrected.entry(Arc::as_ptr(instruction)).or_insert_with(correct).clone();
            }
            times_ns[1] += instruction.launch_ns;
        }
        (log, times_ns)
    }

    /// The thread uses a storage; returns its number.
    pub fn uses(&mut self, number: u64, size_bytes: usize) -> u64 {
        let is_new = self.size_bytes.insert(number, size_bytes).is_none();
        if is_new && number >= self.first {
            self.asked.push(Asked::Write(number));
        }
        number
    }

    /// It makes one.
    pub fn makes(&mut self, number: u64, size_bytes: usize, scopes: u32) -> u64 {
        if scopes > 0 {
            self.scopes.insert(number, scopes);
        }
        self.size_bytes.insert(number, size_bytes);
        number
    }

    /// A handle is gone, whichever thread had it.
    pub fn loses(&mut self, number: u64) {
        if let Some(begun) = self.begun.get(&number) {
            self.size_bytes.insert(number, begun.size_bytes);
        }
        if self.size_bytes.contains_key(&number) {
            self.asked.push(Asked::Free(number));
        }
    }
}
