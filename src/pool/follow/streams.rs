//! A stream of ops for each thread that submits. A thread that runs at its own pace, such as a data loader, does not
//! hide the iterations of another.

use std::ops::{Index, IndexMut};

use super::absent_storages::AbsentStorages;
use crate::liveness::Tracker;
use crate::schedule::{Beginning, RecentOps, StreamId};

/// What the pool knows of one thread.
#[derive(Debug, Default)]
pub struct Stream {
    /// The number of its ops so far. Next uses of its storages are counted in these.
    pub ops: u64,
    /// The predicted time of its ops so far.
    pub computed_ns: u64,
    /// The bytes of its storages that have handles.
    pub held_bytes: usize,
    /// Its first ops.
    pub beginning: Beginning,
    /// Its last ops.
    pub recent: RecentOps,
    /// Predicts what it does next from what it did before.
    pub tracker: Tracker,
    /// Its storages that have handles but no device memory.
    pub absent: AbsentStorages,
}

/// All streams, and the one whose thread submits now.
#[derive(Debug)]
pub struct Streams {
    all: Vec<Stream>,
    current: StreamId,
    /// The number of checkpointed scopes around the current op. What is made in a scope is recomputed first.
    pub scopes: u32,
}

impl Default for Streams {
    fn default() -> Self {
        Streams { all: vec![Stream::default()], current: StreamId::default(), scopes: 0 }
    }
}

impl Streams {
    /// Makes a thread the one that submits, within `scopes` checkpointed scopes.
    pub fn enter(&mut self, number: usize, scopes: u32) {
        if number >= self.all.len() {
            self.all.resize_with(number + 1, Stream::default);
        }
        (self.current, self.scopes) = (StreamId(number as u32), scopes);
    }

    /// The stream whose thread submits now.
    pub fn current(&self) -> StreamId {
        self.current
    }

    /// Forgets what all threads did. No storage may exist.
    pub fn forget(&mut self) {
        self.all.fill_with(Stream::default);
    }

    /// The stream that computes the most, by predicted time.
    pub fn leader(&self) -> StreamId {
        // Of equals, the first counts.
        let leader = self.all.iter().enumerate().rev().max_by_key(|(_, stream)| stream.computed_ns);
        leader.map_or(self.current, |(number, _)| StreamId(number as u32))
    }
}

impl Index<StreamId> for Streams {
    type Output = Stream;

    fn index(&self, id: StreamId) -> &Stream {
        &self.all[id.0 as usize]
    }
}

impl IndexMut<StreamId> for Streams {
    fn index_mut(&mut self, id: StreamId) -> &mut Stream {
        &mut self.all[id.0 as usize]
    }
}
