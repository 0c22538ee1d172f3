//! Errors for want of memory, and the limits that would avoid them.

use crate::engine::{Instruction, aligned};
use crate::error::{Error, WorkingSet};
use crate::op::View;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;

impl Pool {
    /// The error if an op's working set exceeds the budget.
    pub(in crate::pool) fn too_large(
        &self,
        ids: &[StorageId],
        instruction: &Instruction,
        needed_bytes: usize,
    ) -> Error {
        let mut parts = Vec::new();
        let mut part = |what: &str, view: &View, bytes: usize| {
            parts.push(format!("{what}: {:?} {}, {bytes} bytes", view.shape(), view.dtype))
        };
        for (id, view) in ids.iter().zip(instruction.views.iter()) {
            part("reads", view, self.graph.storages[*id].size_bytes);
        }
        for view in &instruction.outputs {
            part("makes", view, view.size_bytes());
        }
        if instruction.scratch_bytes > 0 {
            parts.push(format!("workspace: {} bytes", instruction.scratch_bytes));
        }
        let mut residents = self.graph.residents();
        residents.truncate(5);
        Error::WorkingSet(Box::new(WorkingSet {
            op: instruction.op.name(),
            module: None,
            parts,
            needed_bytes: self.settings.budget_for(needed_bytes),
            budget_bytes: self.memory.device.limit_bytes(),
            residents,
        }))
    }

    /// The error if a storage would have to leave to make room for `need_bytes` but cannot.
    pub(in crate::pool) fn nowhere_to_go(&self, op: &'static str, id: StorageId, need_bytes: usize) -> Error {
        let (used_bytes, budget_bytes) = (self.memory.device.used_bytes(), self.memory.device.limit_bytes());
        if !self.settings.methods.offload {
            let module = None;
            return Error::NothingToEvict { op, module, needed_bytes: need_bytes, used_bytes, budget_bytes };
        }
        let needed_bytes = self.graph.storages[id].size_bytes;
        let alive = self.graph.storages.iter().filter(|(_, storage)| storage.active());
        let alive = alive.map(|(_, storage)| aligned(storage.size_bytes));
        // A block of at least a page takes whole pages.
        let page_bytes = self.settings.page_bytes(budget_bytes);
        let in_blocks = |bytes: usize| match page_bytes {
            Some(page_bytes) if bytes >= page_bytes => bytes.next_multiple_of(page_bytes),
            _ => bytes,
        };
        let (alive_bytes, in_blocks_bytes) =
            alive.fold((0, 0), |(sum, in_blocks_sum), bytes| (sum + bytes, in_blocks_sum + in_blocks(bytes)));
        let op_bytes = self.observer.usage.largest_op_bytes.max(in_blocks(aligned(need_bytes)));
        self.full(op, needed_bytes, alive_bytes, Some(self.settings.budget_for(in_blocks_bytes + op_bytes)))
    }

    /// The error if the host tier has no room for what the program writes or reads.
    pub(in crate::pool) fn host_tier_full(&self, op: &'static str, needed_bytes: usize) -> Error {
        self.full(op, needed_bytes, 0, None)
    }

    /// The error if the host tier is full. It recommends a limit of `enough_bytes`, or of what is in use and needed if
    /// that is more.
    fn full(
        &self,
        op: &'static str,
        needed_bytes: usize,
        enough_bytes: usize,
        least_budget_bytes: Option<usize>,
    ) -> Error {
        let (used_bytes, limit_bytes) = (self.memory.host.used_bytes(), self.memory.host.limit_bytes());
        // If enough is free, it is in pieces.
        let block_bytes = self.memory.host.in_block(needed_bytes);
        let taken_bytes = if used_bytes + block_bytes > limit_bytes { used_bytes } else { limit_bytes };
        let least_limit_bytes = self.memory.host.in_block(enough_bytes.max(taken_bytes + block_bytes));
        Error::HostTierFull {
            op,
            module: None,
            needed_bytes,
            used_bytes,
            limit_bytes,
            allowed_bytes: self.memory.host.allowed_bytes(),
            disk_bytes: self.memory.disk.as_ref().map(|disk| [disk.used_bytes(), disk.limit_bytes()]),
            least_limit_bytes,
            least_budget_bytes,
            failed_writes: self.engine().failed_writes(),
        }
    }

    /// Tells that the system has less device memory than the budget.
    pub(in crate::pool) fn warn_of_lowered_budget(&self, before_bytes: usize) {
        let now_bytes = self.memory.device.limit_bytes();
        self.settings.log(
            log::Level::Warn,
            format_args!(
                "{} has no more memory, as if another program used it: the budget was {before_bytes} bytes, and is {now_bytes} now",
                self.name
            ),
        );
    }

    /// Counts errors for want of memory.
    pub fn counted<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && error.is_out_of_memory()
        {
            self.observer.counters.out_of_memory += 1;
            self.observer.telemetry.out_of_memory(error);
        }
        result
    }

    /// The number of ops refused so far.
    pub fn refused_ops(&self) -> u64 {
        self.observer.counters.out_of_memory
    }

    /// Resets the number of refused ops, because the ops since then were only attempts.
    pub fn refused_only(&mut self, ops: u64) {
        self.observer.counters.out_of_memory = ops;
    }
}
