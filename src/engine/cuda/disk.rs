//! The disk tier. Its lanes are streams like the others, whose pieces are host functions that read and write: so whatever waits for a
//! file, and whatever a file waits for, is in an order that the driver knows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use super::driver::{Called, Stream};
use super::lanes::lock;
use crate::engine::disk::DiskStore;
use crate::engine::{DiskTier, EngineError, Failure, MapError, Mark, Span};

/// The disk tier, once it is open.
#[derive(Debug, Default)]
pub(super) struct Disk(OnceLock<Arc<Open>>);

#[derive(Debug)]
struct Open {
    store: DiskStore,
    failures: Mutex<Vec<Failure>>,
}

impl Disk {
    pub fn open(&self, disk: &DiskTier) -> Called<()> {
        let open = Open { store: DiskStore::new(disk)?, failures: Mutex::default() };
        self.0.set(Arc::new(open)).map_err(|_| "the disk tier is open already".into())
    }

    fn opened(&self) -> Called<&Arc<Open>> {
        self.0.get().ok_or_else(|| "there is no disk tier".into())
    }

    pub fn map(&self, bytes: usize) -> Result<Span, MapError> {
        self.opened()?.store.map(bytes)
    }

    pub fn unmap(&self, span: Span) {
        if let Some(open) = self.0.get() {
            open.store.unmap(span);
        }
    }

    /// Puts a copy between host memory and the file into a stream, as the piece of work that ends at `mark`.
    ///
    /// # Safety
    /// As for [`Engine::copy`](crate::engine::Engine::copy).
    pub unsafe fn copy(&self, stream: &Stream, mark: Mark, from: Span, to: Span) -> Called<()> {
        let open = self.opened()?.clone();
        stream.run_on_host(move || {
            // SAFETY: the caller's.
            let copied = catch_unwind(AssertUnwindSafe(|| unsafe { open.store.copy(from, to) }));
            let reason = "reading or writing the disk tier panicked: report it as a bug";
            let copied = copied
                .unwrap_or_else(|_| Err(EngineError::Copy { bytes: from.bytes, reason: reason.into() }));
            if let Err(error) = copied {
                lock(&open.failures).push(Failure { mark, error });
            }
        })
    }

    /// The copies that failed since this was last asked.
    pub fn failures(&self) -> Vec<Failure> {
        self.0.get().map_or(Vec::new(), |open| std::mem::take(&mut *lock(&open.failures)))
    }

    pub fn failed_writes(&self) -> u64 {
        self.0.get().map_or(0, |open| open.store.failed_writes())
    }
}
