//! The lanes of the disk: threads that read and write. They wait for streams by events, and streams for them by counters in pinned
//! memory, so that nobody calls the driver from within it.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::driver::{Called, Context, Event, Stream};
use super::lanes::Lanes;
use super::memory::Slab;
use crate::engine::disk::DiskStore;
use crate::engine::lanes::{self, Outside, Piece, Progress};
use crate::engine::{DiskTier, EngineError, Failure, Lane, MapError, Mark, Ran, Span, Tier};

/// The lanes of the disk, once the tier is open. Before, they have no work.
#[derive(Debug, Default)]
pub(super) struct DiskLanes(OnceLock<Open>);

#[derive(Debug)]
struct Open {
    // Before the counters, which its threads write.
    threads: lanes::Lanes,
    store: Arc<DiskStore>,
    counters: Arc<Counters>,
    streams: Arc<Lanes>,
}

/// The work of a stream up to an event.
#[derive(Debug)]
struct StreamWork {
    streams: Arc<Lanes>,
    until: (Mark, Arc<Event>),
}

impl Outside for StreamWork {
    fn finish(&self) -> Result<(), EngineError> {
        let finished = self.streams.finish_event(self.until.clone());
        finished.map_err(|reason| EngineError::Kernel { op: "wait", reason })
    }
}

/// How many pieces of each lane are done, where a GPU can read it.
#[derive(Debug)]
struct Counters(Slab);

impl Counters {
    fn new(context: &Arc<Context>) -> Called<Self> {
        let counters = Counters(
            Slab::new(context, Tier::Host, Lane::ALL.len() * size_of::<u64>())
                .map_err(|error| error.to_string())?,
        );
        Lane::ALL.iter().for_each(|&lane| counters.set(lane, 0));
        Ok(counters)
    }

    fn address(&self, lane: Lane) -> u64 {
        self.0.span().address + (lane as usize * size_of::<u64>()) as u64
    }

    fn set(&self, lane: Lane, done: u64) {
        let at = ptr::with_exposed_provenance_mut(self.address(lane) as usize);
        // SAFETY: an aligned word of pinned memory that lives as long as this and is only accessed so, and by waiting streams.
        unsafe { AtomicU64::from_ptr(at) }.store(done, Ordering::SeqCst);
    }
}

impl DiskLanes {
    /// Opens the tier and starts its lanes.
    pub fn open(&self, context: &Arc<Context>, streams: &Arc<Lanes>, disk: &DiskTier) -> Called<()> {
        let store = Arc::new(DiskStore::new(disk)?);
        let counters = Arc::new(Counters::new(context)?);
        let (counted, stored) = (counters.clone(), store.clone());
        let progress: Progress = Box::new(move |lane, done| counted.set(lane, done));
        let run = Box::new(move |piece: &Piece| match piece {
            // SAFETY: as `Engine::copy` asks of whoever submits.
            &Piece::Copy { from, to } => unsafe { stored.copy(from, to) },
            Piece::WaitOutside(work) => work.finish(),
            Piece::Launch(_) | Piece::Wait(_) => Ok(()),
        });
        let threads = lanes::Lanes::threads(run, &[Lane::Spill, Lane::Load], Some(progress));
        let streams = streams.clone();
        self.0
            .set(Open { threads, store, counters, streams })
            .map_err(|_| "the disk tier is open already".into())
    }

    fn opened(&self) -> Called<&Open> {
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

    /// Submits a copy between host memory and the file.
    pub fn copy(&self, lane: Lane, from: Span, to: Span) -> Called<()> {
        self.opened()?.threads.submit(lane, Piece::Copy { from, to });
        Ok(())
    }

    /// Work submitted to a lane of the disk from now on runs after `mark`.
    pub fn wait(&self, lane: Lane, mark: Mark) -> Called<()> {
        let Open { threads, streams, .. } = self.opened()?;
        if mark.lane.is_of_disk() {
            if mark.lane != lane {
                threads.submit(lane, Piece::Wait(mark));
            }
        } else if let Some(until) = streams.pending(mark)? {
            // The event is chosen now: a later one may stand for work that waits for this lane.
            threads
                .submit(lane, Piece::WaitOutside(Box::new(StreamWork { streams: streams.clone(), until })));
        }
        Ok(())
    }

    /// Work put into a stream from now on runs after `mark`, which is one of the disk.
    pub fn hold(&self, stream: &Stream, mark: Mark) -> Called<()> {
        match self.reached(mark) {
            true => Ok(()),
            false => stream.wait_for_count(self.opened()?.counters.address(mark.lane), mark.sequence),
        }
    }

    pub fn mark(&self, lane: Lane) -> Mark {
        self.0.get().map_or(Mark { lane, sequence: 0 }, |open| open.threads.mark(lane))
    }

    pub fn reached(&self, mark: Mark) -> bool {
        self.0.get().is_none_or(|open| open.threads.reached(mark))
    }

    /// Blocks until `mark` is reached.
    pub fn finish(&self, mark: Mark) -> Called<()> {
        if mark.sequence > 0 {
            self.opened()?.threads.finish(mark);
        }
        Ok(())
    }

    /// Blocks until all work is done.
    pub fn finish_all(&self) {
        for lane in [Lane::Spill, Lane::Load] {
            let _ = self.finish(self.mark(lane));
        }
    }

    pub fn failures(&self) -> Vec<Failure> {
        self.0.get().map_or(Vec::new(), |open| open.threads.failures())
    }

    pub fn failed_writes(&self) -> u64 {
        self.0.get().map_or(0, |open| open.store.failed_writes())
    }

    /// Bytes that the disk read or wrote per second lately.
    pub fn measured(&self) -> Option<f64> {
        self.0.get()?.threads.measured_disk()
    }

    pub fn record(&self) {
        if let Some(open) = self.0.get() {
            open.threads.record();
        }
    }

    pub fn recorded(&self) -> Vec<Ran> {
        self.0.get().map_or(Vec::new(), |open| open.threads.recorded())
    }
}
