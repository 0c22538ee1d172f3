//! The simulation engine: no data, a virtual clock. Everything else is as on a real device: memory that is bounded,
//! lanes that overlap, marks that order them.

mod clock;
mod profiles;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::Times;
pub use profiles::{Profile, Workspace, profiles};

use super::{Algorithm, Engine, EngineError, Lane, Launch, Mark, Props, Ran, Span, Tier};
use crate::op::{Op, Outputs, View};
use clock::Clock;

/// The engine whose device is a [`Profile`].
#[derive(Debug)]
pub struct SimEngine {
    props: Props,
    workspace: Workspace,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: Clock,
    mapped_bytes: [usize; 2],
    /// The next slab's address. None is used twice, so that a mistake would show.
    next_address: u64,
}

impl SimEngine {
    /// An engine at time zero with nothing mapped.
    pub fn new(profile: &Profile) -> Self {
        SimEngine { props: profile.props.clone(), workspace: profile.workspace, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for SimEngine {
    fn props(&self) -> &Props {
        &self.props
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        let capacity_bytes = match tier {
            Tier::Device => self.props.device_bytes,
            Tier::Host => self.props.host_bytes,
        };
        let mut state = self.state();
        let room_bytes = capacity_bytes - state.mapped_bytes[tier as usize];
        if bytes > room_bytes {
            let reason = format!("{room_bytes} bytes of {capacity_bytes} are left");
            return Err(EngineError::Map { tier, bytes, reason });
        }
        state.mapped_bytes[tier as usize] += bytes;
        state.next_address += super::ALIGN_BYTES as u64;
        let address = state.next_address;
        state.next_address += super::aligned(bytes) as u64;
        Ok(Span { tier, address, bytes })
    }

    fn unmap(&self, span: Span) {
        self.state().mapped_bytes[span.tier as usize] -= span.bytes;
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.workspace.bytes(op, algorithm, inputs, outputs)
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        self.state().clock.run(lane, launch.instruction.launch_ns);
        Ok(())
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        debug_assert_eq!(from.bytes, to.bytes, "a copy between spans of equal size");
        let duration_ns = self.props.copy_ns(from.bytes);
        self.state().clock.run(lane, duration_ns);
        Ok(())
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.state().clock.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        if mark.lane != lane {
            self.state().clock.wait(lane, mark);
        }
        Ok(())
    }

    fn reached(&self, mark: Mark) -> bool {
        self.state().clock.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.state().clock.sync(mark);
        Ok(())
    }

    fn bytes(&self, _: Span) -> Option<*mut u8> {
        None
    }

    fn times(&self) -> Option<Times> {
        Some(self.state().clock.times())
    }

    fn record(&self) {
        self.state().clock.record();
    }

    fn recorded(&self) -> Vec<Ran> {
        self.state().clock.recorded()
    }
}
