//! Copies between device memory and the disk of what the host tier cannot hold as a whole: part by part through two small blocks.

use crate::engine::{DISK_ALIGN_BYTES, Lane, Mark, Span, Tier, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::TierCopy;
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

/// Where parts come from, or where they go, and the work that must be done before.
type Side = (Span, PendingWork);

/// What was submitted of a passage.
#[derive(Debug)]
struct Passed {
    /// The work that reads the source.
    read: PendingWork,
    /// The end of the work that writes the target.
    written: Mark,
    outcome: Result<(), Error>,
}

impl Pool {
    /// Copies a resident storage to the disk. Returns `false` if there is no room.
    pub(in crate::pool) fn write_through(&mut self, id: StorageId) -> Result<bool, Error> {
        if self.graph.storages[id].copies.away.is_some() {
            return Ok(true);
        }
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some(stages) = self.stages(size_bytes, false)? else { return Ok(false) };
        let placed = self.disk_block(size_bytes, false);
        let Ok(Some((block, busy))) = placed else {
            self.free_stages(stages);
            return placed.map(|_| false);
        };
        let device = self.graph.storages[id].copies.device.expect("only a resident storage is written");
        let source = (self.memory.device.span(device.block, size_bytes), device.written.into());
        let target = (self.memory.span(Tier::Disk, block, block.bytes), busy);
        let passed = self.pass(stages, [Lane::Offload, Lane::Spill], source, target);
        self.graph.storages[id].copies.device =
            Some(TierCopy { touched: device.touched.and(passed.read), ..device });
        if let Err(error) = passed.outcome {
            self.memory.free(Tier::Disk, block, busy.with(passed.written));
            return Err(error);
        }
        self.graph.storages.set_away(id, Tier::Disk, Some(TierCopy::new(block, passed.written)));
        self.observer.counters.copied(Lane::Offload, size_bytes);
        self.observer.counters.copied(Lane::Spill, size_bytes);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Spill, id);
        Ok(true)
    }

    /// Copies a storage from the disk into a block of device memory, which is freed after an error. Returns the end of
    /// that, or `None` if there is no room in host memory.
    pub(in crate::pool) fn read_through(
        &mut self,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<Option<Mark>, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let stages = match self.stages(size_bytes, true) {
            Ok(Some(stages)) => stages,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.memory.device.free(block, busy);
                return Err(error);
            }
        };
        let disk = self.graph.storages[id].copies.in_tier(Tier::Disk);
        let disk = disk.expect("only a storage on the disk is read from it");
        let source = (self.memory.span(Tier::Disk, disk.block, disk.block.bytes), disk.written.into());
        let target = (self.memory.device.span(block, size_bytes), busy);
        let passed = self.pass(stages, [Lane::Load, Lane::Fetch], source, target);
        let disk = TierCopy { touched: disk.touched.and(passed.read), ..disk };
        self.graph.storages.set_away(id, Tier::Disk, Some(disk));
        if let Err(error) = passed.outcome {
            self.memory.device.free(block, busy.with(passed.written));
            return Err(error);
        }
        self.observer.counters.copied(Lane::Load, size_bytes);
        Ok(Some(passed.written))
    }

    /// Copies part by part through stages, on the first lane into them and on the second out of them.
    fn pass(&mut self, mut stages: Stages, lanes: [Lane; 2], source: Side, target: Side) -> Passed {
        let device_bytes = if source.0.tier == Tier::Device { source.0.bytes } else { target.0.bytes };
        let part_bytes = stages.part_bytes;
        let (mut read, mut written) = (PendingWork::default(), Mark::default());
        let mut pass_part = |part: usize, begin: usize| -> Result<(), Error> {
            let bytes = part_bytes.min(device_bytes - begin);
            let in_blocks = aligned(bytes).next_multiple_of(DISK_ALIGN_BYTES);
            let cut =
                |span: Span| span.slice(begin, if span.tier == Tier::Device { bytes } else { in_blocks });
            let (from, to) = (cut(source.0), cut(target.0));
            let (stage, used) = &mut stages.blocks[part % 2];
            let stage = self.memory.host.span(*stage, in_blocks);
            let mark = self.copied(lanes[0], from, stage.slice(0, from.bytes), source.1.and(*used))?;
            (read, *used) = (read.with(mark), used.with(mark));
            written = self.copied(lanes[1], stage.slice(0, to.bytes), to, target.1.with(mark))?;
            *used = used.with(written);
            Ok(())
        };
        let mut parts = (0..device_bytes.max(1)).step_by(part_bytes).enumerate();
        let outcome = parts.try_for_each(|(part, begin)| pass_part(part, begin));
        self.free_stages(stages);
        Passed { read, written, outcome }
    }

    /// Copies, and returns the end of that.
    fn copied(&mut self, lane: Lane, from: Span, to: Span, after: PendingWork) -> Result<Mark, Error> {
        self.submitter.copy(lane, from, to, after).map_err(|error| self.memory.error(error))
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
