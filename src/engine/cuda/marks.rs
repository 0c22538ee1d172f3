//! Events by which the marks of a lane are waited for. Recording an event takes the program about as long as a launch,
//! and small storages are hardly ever moved. So only copies, launches on 256 KiB and more, and every 32nd piece of work
//! have one. A mark without an event of its own is waited for by the next event, which is recorded then if there is
//! none yet.

use std::collections::VecDeque;
use std::sync::Arc;

use super::driver::{Called, Context, Event, Stream};

/// Pieces in a row that may have no event, so that nobody waits for much more than it asked for.
const MAX_WITHOUT: u64 = 32;

/// The events of a lane's pieces, in order: an event stands for all pieces before it that have none.
#[derive(Debug, Default)]
pub(super) struct Marks {
    recorded: VecDeque<(u64, Arc<Event>)>,
    spare: Vec<Arc<Event>>,
}

impl Marks {
    /// Whether the next piece, number `sequence`, is to have an event: one that is likely to be waited for, or that ends a long row
    /// without.
    pub fn wants(&self, sequence: u64, is_likely: bool) -> bool {
        is_likely || sequence - self.recorded.back().map_or(0, |(last, _)| *last) >= MAX_WITHOUT
    }

    /// Lets the stream's end be that of piece `sequence`.
    pub fn record(&mut self, context: &Arc<Context>, stream: &Stream, sequence: u64) -> Called<Arc<Event>> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => Arc::new(Event::new(context, false)?),
        };
        event.record(stream)?;
        self.recorded.push_back((sequence, event.clone()));
        Ok(event)
    }

    /// The event that a piece is waited for by, if there is one by now, and the last piece that it stands for.
    pub fn of(&self, sequence: u64) -> Option<(u64, Arc<Event>)> {
        let place = self.recorded.partition_point(|(recorded, _)| *recorded < sequence);
        self.recorded.get(place).cloned()
    }

    /// All pieces up to this one are done.
    pub fn completed(&mut self, sequence: u64) {
        while self.recorded.front().is_some_and(|(recorded, _)| *recorded <= sequence) {
            let Some((_, event)) = self.recorded.pop_front() else { return };
            // One that another thread still waits for is not recorded anew.
            if Arc::strong_count(&event) == 1 {
                self.spare.push(event);
            }
        }
    }
}
