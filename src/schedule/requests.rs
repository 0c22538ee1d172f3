//! A thread's recent requests, kept until a whole iteration of them can be planned.

use std::sync::Arc;

use hashbrown::HashMap;

use super::beginning::BeginningId;
use crate::engine::Instruction;
use crate::op::{Counts, Inputs, PerOutput};

/// Names the stream of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId(pub u32);

/// Names a plan. A new schedule of the same plan replaces the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanId(pub u64);

/// A request of the program. Storages are named by their numbers.
#[derive(Clone, Debug)]
pub enum Request {
    /// An op with its context. Each input says whether the op has its last handle.
    Op { instruction: Arc<Instruction>, context: u64, inputs: Inputs<(u64, bool)>, outputs: PerOutput<u64> },
    /// A new storage with data from the program.
    Write(u64),
    /// A read of a storage's data.
    Read(u64),
    /// The release of the last handle.
    Free(u64),
    /// A wait for all work.
    Sync,
}

/// A storage that exists when the log begins.
#[derive(Clone, Copy, Debug)]
pub struct InitialStorage {
    pub size_bytes: usize,
    /// The op that touched it last, counted back from the beginning of the log so that the last op is one, and the operand of
    /// that op. `None` if no op touched it.
    pub touched: Option<(u64, usize)>,
}

/// A thread's requests in order. A storage that another thread gives it counts as written when it is first used.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    /// The thread's stream.
    pub stream: StreamId,
    /// The thread's first ops, if there were enough.
    pub beginning: Option<BeginningId>,
    /// The plan that comes of the log.
    pub plan: PlanId,
    /// The plan exists already and is made anew.
    pub renews: bool,
    /// Lets the pool see whether the log still exists.
    pub under_way: Arc<()>,
    /// The number of the first storage that was made since the log began.
    pub first: u64,
    /// The storages that the stream held when the log began.
    pub initial: HashMap<u64, InitialStorage>,
    pub requests: Vec<Request>,
    /// The sizes of all storages that are named.
    pub size_bytes: HashMap<u64, usize>,
    /// The number of checkpointed scopes that a storage was made in, unless it is a result of them. Storages without scopes are
    /// left out.
    pub scopes: HashMap<u64, u32>,
    /// What was counted of the storages' values.
    pub counts: HashMap<u64, Counts>,
    /// The device memory of storages that are not named and cannot leave.
    pub idle_bytes: usize,
    pub ops: usize,
}

impl RequestLog {
    /// The number of ops.
    pub fn ops(&self) -> usize {
        self.ops
    }

    /// The same log with measured times of ops, if they were measured; and the sum of all predicted times before and after.
    pub fn as_measured(&self) -> (RequestLog, [u64; 2]) {
        let mut log = self.clone();
        let mut corrected: HashMap<*const Instruction, Arc<Instruction>> = HashMap::new();
        let mut times_ns = [0; 2];
        for request in &mut log.requests {
            let Request::Op { instruction, .. } = request else { continue };
            times_ns[0] += instruction.launch_ns;
            if let Some(launch_ns) = instruction.measured.ns() {
                let correct = || Arc::new(Instruction { launch_ns, ..(**instruction).clone() });
                *instruction = corrected.entry(Arc::as_ptr(instruction)).or_insert_with(correct).clone();
            }
            times_ns[1] += instruction.launch_ns;
        }
        (log, times_ns)
    }

    /// Notes that the thread uses a storage, and returns the storage's number.
    pub fn uses(&mut self, number: u64, size_bytes: usize) -> u64 {
        let is_new = self.size_bytes.insert(number, size_bytes).is_none();
        if is_new && number >= self.first {
            self.requests.push(Request::Write(number));
        }
        number
    }

    /// Notes that the thread makes a storage, and returns the storage's number.
    pub fn makes(&mut self, number: u64, size_bytes: usize, scopes: u32) -> u64 {
        if scopes > 0 {
            self.scopes.insert(number, scopes);
        }
        self.size_bytes.insert(number, size_bytes);
        number
    }

    /// Notes that the last handle is gone, on whichever thread.
    pub fn loses(&mut self, number: u64) {
        if let Some(begun) = self.initial.get(&number) {
            self.size_bytes.insert(number, begun.size_bytes);
        }
        if self.size_bytes.contains_key(&number) {
            self.requests.push(Request::Free(number));
        }
    }
}
