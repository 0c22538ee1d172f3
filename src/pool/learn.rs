//! What the program asked for lately, kept until a whole iteration of it can be planned.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Pool;
use super::plan::Input;
use super::storage::StorageId;
use crate::config::Planning;
use crate::engine::{Instruction, aligned};
use crate::op::{Inputs, PerOutput};

/// Ops of a log at the most: twice the longest iteration that is recognised.
const MOST_OPS: usize = 1 << 19;

/// Something that the program asked for. Storages go by their numbers.
#[derive(Clone, Debug)]
pub enum Asked {
    /// An op; with each input whether the op had its last handle.
    Op { instruction: Arc<Instruction>, inputs: Inputs<(u64, bool)>, outputs: PerOutput<u64> },
    /// A new storage with the program's data.
    Write(u64),
    /// To have the data.
    Read(u64),
    /// The last handle is gone.
    Free(u64),
    /// To wait for all work.
    Sync,
}

/// What the program asked for, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub asked: Vec<Asked>,
    /// Of all storages that are named.
    pub size_bytes: HashMap<u64, usize>,
    /// Device memory of storages that are not named and cannot leave.
    pub idle_bytes: usize,
    ops: usize,
}

impl Log {
    /// How many ops there are.
    pub fn ops(&self) -> usize {
        self.ops
    }
}

impl Pool {
    /// Logs from the next eviction on, if the policy plans: a program that needs none is not to pay for a log.
    pub(super) fn learn(&mut self) {
        self.log = None;
        self.learns = self.policy.plans() && self.settings.planning != Planning::Off;
    }

    /// An iteration of so many ops was planned in vain: maybe it was part of one, such as the update of a weight.
    pub fn learn_another(&mut self, period: usize) {
        self.learn();
        self.fruitless_period = Some(period);
    }

    pub(super) fn log_from_now_on(&mut self) {
        if self.learns && self.log.is_none() {
            self.log = Some(Box::default());
        }
    }

    /// Logs from now on, whatever the policy, though nothing was evicted.
    pub fn log_at_once(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The log, and how many ops at its end are an iteration, once there are two of it.
    pub fn learned(&mut self) -> Option<(Log, usize)> {
        let log = self.log.as_ref()?;
        if log.ops() > MOST_OPS {
            self.learn();
            return None;
        }
        let period = self.tracker.period()? as usize;
        // Until then, its beginning cannot be chosen freely. What repeats within an iteration, such as layers, leaves more
        // or less behind each time.
        if log.ops() < 2 * period || !self.tracker.holds_as_much() || self.fruitless_period == Some(period) {
            return None;
        }
        self.learns = false;
        let mut log = self.log.take()?;
        let storages = &self.graph.storages;
        let idle = storages
            .residents()
            .map(|id| &storages[id])
            .filter(|storage| !log.size_bytes.contains_key(&storage.number) && !self.can_leave(storage));
        log.idle_bytes = idle.map(|storage| aligned(storage.size_bytes)).sum();
        Some((*log, period))
    }

    pub(super) fn log_op(&mut self, inputs: &[Input], instruction: &Arc<Instruction>, outputs: &[StorageId]) {
        let Some(log) = &mut self.log else { return };
        let storages = &self.graph.storages;
        let mut number = |id: StorageId| {
            log.size_bytes.insert(storages[id].number, storages[id].size_bytes);
            storages[id].number
        };
        let inputs = inputs.iter().map(|input| (number(input.id), input.consumed)).collect();
        let outputs = outputs.iter().map(|&id| number(id)).collect();
        log.asked.push(Asked::Op { instruction: instruction.clone(), inputs, outputs });
        log.ops += 1;
    }

    pub(super) fn log_storage(&mut self, id: StorageId, asked: impl FnOnce(u64) -> Asked) {
        if let Some(log) = &mut self.log {
            let storage = &self.graph.storages[id];
            log.size_bytes.insert(storage.number, storage.size_bytes);
            log.asked.push(asked(storage.number));
        }
    }

    pub(super) fn log_sync(&mut self) {
        if let Some(log) = &mut self.log {
            log.asked.push(Asked::Sync);
        }
    }
}
