//! Pinned slabs ahead of their use. The system takes long to pin memory and the program would wait, so a thread pins
//! one slab more than was asked for, within the host limit ([`Engine::bound`](super::Engine::bound)).

use std::sync::Arc;
use std::thread::JoinHandle;

use super::driver::Context;
use super::memory::Slab;
use crate::engine::{MapError, Tier};

/// One pinned slab as large as the last that was asked for, made by a thread.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Pinned bytes that were asked for and not given back.
    taken_bytes: usize,
    /// No more than so many will be.
    most_bytes: usize,
    next: Option<(usize, JoinHandle<Result<Slab, MapError>>)>,
}

impl Spare {
    /// From now on, no more than so many bytes are asked for, and so no more are pinned.
    pub fn bound(&mut self, bytes: usize) {
        self.most_bytes = bytes;
        if self.next.as_ref().is_some_and(|(next_bytes, _)| self.taken_bytes + next_bytes > bytes) {
            self.drop_next();
        }
    }

    /// A slab: the spare one, if it is of that size; else a new one. Another is made, if there is to be room for it.
    pub fn take(&mut self, context: &Arc<Context>, bytes: usize) -> Result<Slab, MapError> {
        // Joined in any case, so that what is pinned is known. One that failed is tried again.
        let ready = self.next.take().and_then(|(of_bytes, thread)| {
            let slab = thread.join().ok()?.ok()?;
            (of_bytes == bytes).then_some(slab)
        });
        let slab = ready.map_or_else(|| Slab::new(context, Tier::Host, bytes), Ok)?;
        self.taken_bytes += bytes;
        if bytes > 0 && self.taken_bytes + bytes <= self.most_bytes {
            let context = context.clone();
            let thread = std::thread::Builder::new().name("overcommit-pinning".into());
            let made = thread.spawn(move || Slab::new(&context, Tier::Host, bytes));
            self.next = made.ok().map(|thread| (bytes, thread));
        }
        Ok(slab)
    }

    /// Bytes are given back; where all are, the spare goes too.
    pub fn give(&mut self, bytes: usize) {
        self.taken_bytes = self.taken_bytes.saturating_sub(bytes);
        if self.taken_bytes == 0 {
            self.drop_next();
        }
    }

    fn drop_next(&mut self) {
        if let Some((_, thread)) = self.next.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.drop_next();
    }
}
