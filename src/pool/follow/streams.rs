//! A stream of ops for each thread that submits: one that goes at its own pace, such as a data loader, does not hide the
//! iterations of another.

use std::ops::{Index, IndexMut};

use super::absent::Absent;
use crate::liveness::Tracker;
use crate::schedule::{RecentOps, StreamId};

/// What one thread submits.
#[derive(Debug, Default)]
pub struct Stream {
    /// Its ops so far: the time that the next uses of its storages are told in.
    pub ops: u64,
    /// Their predicted time.
    pub computed_ns: u64,
    /// Bytes that handles need, of the storages that it touched last or made.
    pub held_bytes: usize,
    /// The last ones.
    pub recent: RecentOps,
    /// What it does, and what it did before.
    pub tracker: Tracker,
    /// Of its storages, those that handles need and device memory has not.
    pub absent: Absent,
}

/// All streams, and the one whose thread submits now.
#[derive(Debug)]
pub struct Streams {
    all: Vec<Stream>,
    current: StreamId,
    /// Checkpointed scopes around what it submits now: what is made in one is recomputed first.
    pub scopes: u32,
}

impl Default for Streams {
    fn default() -> Self {
        Streams { all: vec![Stream::default()], current: StreamId::default(), scopes: 0 }
    }
}

impl Streams {
    /// The thread of this number submits from now on, in so many checkpointed scopes.
    pub fn enter(&mut self, number: usize, scopes: u32) {
        if number >= self.all.len() {
            self.all.resize_with(number + 1, Stream::default);
        }
        (self.current, self.scopes) = (StreamId(number as u32), scopes);
    }

    /// The stream whose thread submits.
    pub fn current(&self) -> StreamId {
        self.current
    }

    /// Forgets all that they did; no storage is there.
    pub fn forget(&mut self) {
        self.all.fill_with(Stream::default);
    }

    /// The one that computes the most, by predicted time.
    pub fn leader(&self) -> StreamId {
        // The first of those that are equal.
        let most = self.all.iter().enumerate().rev().max_by_key(|(_, stream)| stream.computed_ns);
        most.map_or(self.current, |(number, _)| StreamId(number as u32))
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
