//! Lanes as streams: marks are waited for by events, which some pieces of work have.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::driver::{Called, Context, Event, Stream};
use super::marks::Marks;
use super::samples::{Samples, Timed};
use crate::engine::link::Link;
use crate::engine::{Lane, Mark, Ran};

/// Pieces between two looks at those that were timed.
const PIECES_A_LOOK: u64 = 64;

/// Locks, whatever happened to an earlier holder: nothing below leaves a locked value half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lanes of a device.
#[derive(Debug)]
pub(super) struct Lanes {
    context: Arc<Context>,
    queues: [Queue; Lane::ALL.len()],
    /// When recording began, if it did.
    epoch: OnceLock<Event>,
    /// The times of copies: to and from the host, other devices, and the disk.
    links: [Link; 3],
}

#[derive(Debug)]
struct Queue {
    stream: Stream,
    marks: Mutex<Marks>,
    submitted: AtomicU64,
    /// As far as is known.
    completed: AtomicU64,
    record: Mutex<Vec<(Mark, Event, Event)>>,
    samples: Mutex<Samples>,
}

impl Lanes {
    pub fn new(context: &Arc<Context>) -> Called<Self> {
        let queue = || -> Called<Queue> {
            Ok(Queue {
                stream: Stream::new(context)?,
                marks: Mutex::default(),
                submitted: AtomicU64::new(0),
                completed: AtomicU64::new(0),
                record: Mutex::default(),
                samples: Mutex::default(),
            })
        };
        let queues = [queue()?, queue()?, queue()?, queue()?, queue()?, queue()?, queue()?];
        Ok(Lanes { context: context.clone(), queues, epoch: OnceLock::new(), links: Default::default() })
    }

    fn queue(&self, lane: Lane) -> &Queue {
        &self.queues[lane as usize]
    }

    /// Submits what `work` puts into the lane's stream as one piece. If part of it fails, the rest is waited for: it has no
    /// mark, and nobody else would.
    pub fn submit(&self, lane: Lane, timed: Timed, work: impl FnOnce(&Stream) -> Called<()>) -> Called<()> {
        self.context.enter()?;
        let queue = self.queue(lane);
        let mut marks = lock(&queue.marks);
        let sequence = queue.submitted.load(Ordering::SeqCst) + 1;
        let mut samples = lock(&queue.samples);
        if sequence.is_multiple_of(PIECES_A_LOOK) {
            samples.collect(self.link(lane));
        }
        let is_marked = marks.wants(sequence, timed.is_waited_for());
        let pair = samples.begin(&self.context, &queue.stream, &timed, sequence);
        let begin = self.epoch.get().map(|_| self.timed(&queue.stream)).transpose()?;
        let submitted = work(&queue.stream).and_then(|()| {
            if let Some(pair) = pair {
                samples.end(pair, &queue.stream, timed);
            }
            // Before the mark, so that whoever waits for the mark has it.
            let end = self.epoch.get().map(|_| self.timed(&queue.stream)).transpose()?;
            if is_marked {
                marks.record(&self.context, &queue.stream, sequence)?;
            }
            Ok(end)
        });
        let end = submitted.inspect_err(|_| drop(queue.stream.synchronize()))?;
        queue.submitted.store(sequence, Ordering::SeqCst);
        if let Some((begin, end)) = begin.zip(end) {
            lock(&queue.record).push((Mark { lane, sequence }, begin, end));
        }
        Ok(())
    }

    fn link(&self, lane: Lane) -> &Link {
        &self.links[usize::from(lane.is_of_peers()) + 2 * usize::from(lane.is_of_disk())]
    }

    /// The bytes that this lane and the others to and from the same memory move per second, as far as copies were timed.
    pub fn measured(&self, lane: Lane) -> Option<f64> {
        if self.context.enter().is_ok() {
            for (of, queue) in Lane::ALL.into_iter().zip(&self.queues) {
                lock(&queue.samples).collect(self.link(of));
            }
        }
        self.link(lane).bytes_per_second()
    }

    /// An event at the stream's end as it is now, with its time.
    fn timed(&self, stream: &Stream) -> Called<Event> {
        let event = Event::new(&self.context, true)?;
        event.record(stream)?;
        Ok(event)
    }

    /// The event of a mark or of a later piece, and that piece's mark; nothing if the mark is known to be reached.
    fn pending(&self, mark: Mark) -> Called<Option<(Mark, Arc<Event>)>> {
        let queue = self.queue(mark.lane);
        if mark.sequence <= queue.completed.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.context.enter()?;
        let mut marks = lock(&queue.marks);
        let (sequence, event) = match marks.of(mark.sequence) {
            Some(there) => there,
            None => {
                let last = queue.submitted.load(Ordering::SeqCst);
                (last, marks.record(&self.context, &queue.stream, last)?)
            }
        };
        Ok(Some((Mark { sequence, ..mark }, event)))
    }

    /// The lane's end as it is now.
    pub fn mark(&self, lane: Lane) -> Mark {
        Mark { lane, sequence: self.queue(lane).submitted.load(Ordering::SeqCst) }
    }

    /// Work submitted to `lane` from now on runs after `mark`.
    pub fn wait(&self, lane: Lane, mark: Mark) -> Called<()> {
        // A lane is in order with itself.
        if mark.lane == lane {
            return Ok(());
        }
        self.pending(mark)?.map_or(Ok(()), |(_, event)| self.queue(lane).stream.wait(&event))
    }

    pub fn reached(&self, mark: Mark) -> bool {
        match self.pending(mark) {
            Ok(None) => true,
            Ok(Some((mark, event))) if event.reached() => {
                drop(event);
                self.completed(mark);
                true
            }
            // A failure is told by whoever waits.
            _ => false,
        }
    }

    /// Blocks until `mark` is reached.
    pub fn finish(&self, mark: Mark) -> Called<()> {
        let Some((mark, event)) = self.pending(mark)? else { return Ok(()) };
        self.context.enter()?;
        event.synchronize()?;
        drop(event);
        self.completed(mark);
        lock(&self.queue(mark.lane).samples).collect(self.link(mark.lane));
        Ok(())
    }

    fn completed(&self, mark: Mark) {
        let queue = self.queue(mark.lane);
        queue.completed.fetch_max(mark.sequence, Ordering::SeqCst);
        lock(&queue.marks).completed(mark.sequence);
    }

    /// Notes from now on when each piece runs.
    pub fn record(&self) -> Called<()> {
        let epoch = self.timed(&self.queues[0].stream)?;
        epoch.synchronize()?;
        self.epoch.get_or_init(|| epoch);
        Ok(())
    }

    /// When each ran, those of a lane in order. All work is done.
    pub fn recorded(&self) -> Called<Vec<Ran>> {
        let Some(epoch) = self.epoch.get() else { return Ok(Vec::new()) };
        self.context.enter()?;
        let pieces = self.queues.iter().flat_map(|queue| std::mem::take(&mut *lock(&queue.record)));
        let ran = |(mark, begin, end): (Mark, Event, Event)| {
            end.synchronize()?;
            Ok(Ran { mark, begin_ns: begin.ns_since(epoch)?, end_ns: end.ns_since(epoch)? })
        };
        pieces.map(ran).collect()
    }
}
