//! Copies between device memory and the disk of what the host tier cannot hold as a whole: part by part through two small blocks.

use crate::engine::{DISK_ALIGN_BYTES, Lane, Span, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::{AwayCopy, TierCopy};
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

/// The largest part.
const MAX_PART_BYTES: usize = 32 << 20;
/// A part is at most this fraction of the host tier, which holds other storages too.
const PARTS_OF_HOST: usize = 8;

/// Blocks of host memory that parts pass through by turns.
#[derive(Debug)]
struct Stages {
    blocks: [(Block, PendingWork); 2],
    part_bytes: usize,
}

impl Pool {
    /// Copies a resident storage to the disk. Returns `false` if there is no room.
    pub(in crate::pool) fn write_through(&mut self, id: StorageId) -> Result<bool, Error> {
        if self.graph.storages[id].copies.away.is_some() {
            return Ok(true);
        }
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some(mut stages) = self.stages(size_bytes, false)? else { return Ok(false) };
        let placed = self.disk_block(size_bytes, false);
        let Ok(Some((block, busy))) = placed else {
            self.free_stages(stages);
            return placed.map(|_| false);
        };
        let device = self.graph.storages[id].copies.device.expect("only a resident storage is written");
        let from = self.memory.device.span(device.block, size_bytes);
        let to = self.memory.disk_span(block, block.bytes);
        let mut written = busy;
        let mut touched = device.touched;
        let mut pass = || -> Result<(), Error> {
            for (part, begin) in (0..size_bytes.max(1)).step_by(stages.part_bytes).enumerate() {
                let (stage, used) = &mut stages.blocks[part % 2];
                let bytes = stages.part_bytes.min(size_bytes - begin);
                let in_blocks = aligned(bytes).next_multiple_of(DISK_ALIGN_BYTES);
                let through = self.memory.host.span(*stage, in_blocks);
                let after = device.written.and(*used);
                let mark =
                    self.copied(Lane::Offload, from.slice(begin, bytes), through.slice(0, bytes), after)?;
                touched = touched.and(mark);
                *used = used.and(mark);
                let mark = self.copied(Lane::Spill, through, to.slice(begin, in_blocks), mark.and(busy))?;
                written = written.and(mark);
                *used = used.and(mark);
            }
            Ok(())
        };
        let passed = pass();
        self.free_stages(stages);
        let storage = &mut self.graph.storages[id];
        storage.copies.device = Some(TierCopy { touched, ..device });
        if let Err(error) = passed {
            self.memory.free_disk(block, written);
            return Err(error);
        }
        self.graph.storages.set_away(id, AwayCopy::new(None, Some(TierCopy::new(block, written))));
        self.observer.counters.offloaded_bytes += size_bytes as u64;
        self.observer.counters.spilled_bytes += size_bytes as u64;
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Spill, id);
        Ok(true)
    }

    /// Copies a storage from the disk into a block of device memory, which is freed after an error. Returns the work that writes
    /// the block, or `None` if there is no room in host memory.
    pub(in crate::pool) fn read_through(
        &mut self,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<Option<PendingWork>, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let away = self.graph.storages[id].copies.away.as_deref().copied().unwrap_or_default();
        let disk = away.disk.expect("only a storage on the disk is read from it");
        let Some(mut stages) = self.stages(size_bytes, true)? else { return Ok(None) };
        let from = self.memory.disk_span(disk.block, disk.block.bytes);
        let to = self.memory.device.span(block, size_bytes);
        let (mut written, mut touched) = (PendingWork::default(), disk.touched);
        let mut pass = || -> Result<(), Error> {
            for (part, begin) in (0..size_bytes.max(1)).step_by(stages.part_bytes).enumerate() {
                let (stage, used) = &mut stages.blocks[part % 2];
                let bytes = stages.part_bytes.min(size_bytes - begin);
                let in_blocks = aligned(bytes).next_multiple_of(DISK_ALIGN_BYTES);
                let through = self.memory.host.span(*stage, in_blocks);
                let after = disk.written.and(*used);
                let mark = self.copied(Lane::Load, from.slice(begin, in_blocks), through, after)?;
                touched = touched.and(mark);
                *used = used.and(mark);
                let mark = self.copied(
                    Lane::Fetch,
                    through.slice(0, bytes),
                    to.slice(begin, bytes),
                    mark.and(busy),
                )?;
                written = written.and(mark);
                *used = used.and(mark);
            }
            Ok(())
        };
        let passed = pass();
        self.free_stages(stages);
        self.graph.storages.set_away(id, AwayCopy::new(None, Some(TierCopy { touched, ..disk })));
        if let Err(error) = passed {
            self.memory.device.free(block, busy.and(written));
            return Err(error);
        }
        self.observer.counters.loaded_bytes += size_bytes as u64;
        Ok(Some(written))
    }

    /// Copies, and returns the end of that as pending work.
    fn copied(&mut self, lane: Lane, from: Span, to: Span, after: PendingWork) -> Result<PendingWork, Error> {
        let copied = self.submitter.copy(lane, from, to, after);
        copied.map(|mark| PendingWork::default().with(mark)).map_err(|error| self.memory.error(error))
    }

    /// Two blocks of host memory, as large as can be had; `None` if there are none or no disk.
    fn stages(&mut self, size_bytes: usize, for_return: bool) -> Result<Option<Stages>, Error> {
        if self.memory.disk.is_none() {
            return Ok(None);
        }
        let most_bytes = MAX_PART_BYTES.min(self.memory.host.limit_bytes() / PARTS_OF_HOST).min(size_bytes);
        let mut part_bytes = most_bytes.max(1).next_multiple_of(DISK_ALIGN_BYTES);
        loop {
            if let Some(first) = self.host_block_for(part_bytes, true, for_return)? {
                let second = self.host_block_for(part_bytes, true, for_return);
                if let Ok(Some(second)) = second {
                    return Ok(Some(Stages { blocks: [first, second], part_bytes }));
                }
                self.memory.host.free(first.0, first.1);
                second?;
            }
            if part_bytes == DISK_ALIGN_BYTES {
                return Ok(None);
            }
            part_bytes = (part_bytes / 2).next_multiple_of(DISK_ALIGN_BYTES);
        }
    }

    fn free_stages(&mut self, stages: Stages) {
        stages.blocks.into_iter().for_each(|(block, busy)| self.memory.host.free(block, busy));
    }
}
