//! Lanes as streams: an event after each piece of work, by which marks are waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::driver::{Called, Context, Event, Stream};
use super::samples::{Samples, Timed};
use crate::engine::link::Link;
use crate::engine::{Lane, Mark, Ran};

/// Events that a lane has. Where a mark is older, that of a later piece stands for it: a program runs half as many pieces
/// ahead at most.
const RING: u64 = 8192;

/// Locks, whatever happened to an earlier holder: nothing below leaves a locked value half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All lanes of a device.
#[derive(Debug)]
pub(super) struct Lanes {
    context: Arc<Context>,
    queues: [Queue; Lane::ALL.len()],
    /// When recording began, if it did.
    epoch: OnceLock<Event>,
    /// What copies took.
    link: Link,
}

#[derive(Debug)]
struct Queue {
    stream: Stream,
    /// The event of piece `n` is number `n % RING`.
    events: Mutex<Vec<Arc<Event>>>,
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
                events: Mutex::default(),
                submitted: AtomicU64::new(0),
                completed: AtomicU64::new(0),
                record: Mutex::default(),
                samples: Mutex::default(),
            })
        };
        let queues = [queue()?, queue()?, queue()?];
        Ok(Lanes { context: context.clone(), queues, epoch: OnceLock::new(), link: Link::default() })
    }

    fn queue(&self, lane: Lane) -> &Queue {
        &self.queues[lane as usize]
    }

    /// Submits what `work` puts into the lane's stream as one piece. If part of it fails, the rest is waited for: it has no
    /// mark, and nobody else would.
    pub fn submit(&self, lane: Lane, timed: Timed, work: impl FnOnce(&Stream) -> Called<()>) -> Called<()> {
        self.context.enter()?;
        let queue = self.queue(lane);
        let mut events = lock(&queue.events);
        let sequence = queue.submitted.load(Ordering::SeqCst) + 1;
        let mut samples = lock(&queue.samples);
        samples.collect(&self.link);
        let pair = samples.begin(&self.context, &queue.stream, &timed, sequence);
        let begin = self.epoch.get().map(|_| self.timed(&queue.stream)).transpose()?;
        let submitted = self.event(&mut events, sequence).and_then(|event| {
            work(&queue.stream)?;
            if let Some(pair) = pair {
                samples.end(pair, &queue.stream, timed);
            }
            // Before the mark, so that whoever waits for the mark has it.
            let end = self.epoch.get().map(|_| self.timed(&queue.stream)).transpose()?;
            event.record(&queue.stream)?;
            Ok(end)
        });
        let end = submitted.inspect_err(|_| drop(queue.stream.synchronize()))?;
        queue.submitted.store(sequence, Ordering::SeqCst);
        if let Some((begin, end)) = begin.zip(end) {
            lock(&queue.record).push((Mark { lane, sequence }, begin, end));
        }
        Ok(())
    }

    /// What a copy lane moves per second, as far as copies were timed.
    pub fn measured_link(&self) -> Option<f64> {
        self.link.bytes_per_second()
    }

    /// The event of a new piece.
    fn event(&self, events: &mut Vec<Arc<Event>>, sequence: u64) -> Called<Arc<Event>> {
        let place = (sequence % RING) as usize;
        while events.len() <= place {
            events.push(Arc::new(Event::new(&self.context, false)?));
        }
        Ok(events[place].clone())
    }

    /// An event at the stream's end as it is now, with its time.
    fn timed(&self, stream: &Stream) -> Called<Event> {
        let event = Event::new(&self.context, true)?;
        event.record(stream)?;
        Ok(event)
    }

    /// The event of a mark, or of a later piece; nothing if the mark is known to be reached.
    fn pending(&self, mark: Mark) -> Option<Arc<Event>> {
        let queue = self.queue(mark.lane);
        if mark.sequence <= queue.completed.load(Ordering::SeqCst) {
            return None;
        }
        lock(&queue.events).get((mark.sequence % RING) as usize).cloned()
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
        self.context.enter()?;
        self.pending(mark).map_or(Ok(()), |event| self.queue(lane).stream.wait(&event))
    }

    pub fn reached(&self, mark: Mark) -> bool {
        let Some(event) = self.pending(mark) else { return true };
        let reached = self.context.enter().is_ok() && event.reached();
        if reached {
            self.completed(mark);
        }
        reached
    }

    /// Blocks until `mark` is reached.
    pub fn finish(&self, mark: Mark) -> Called<()> {
        let Some(event) = self.pending(mark) else { return Ok(()) };
        self.context.enter()?;
        event.synchronize()?;
        self.completed(mark);
        Ok(())
    }

    fn completed(&self, mark: Mark) {
        self.queue(mark.lane).completed.fetch_max(mark.sequence, Ordering::SeqCst);
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
