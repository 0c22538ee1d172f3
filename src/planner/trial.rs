//! An iteration on the simulation, through the pool that will run it: what a plan is judged by.

use std::sync::Arc;

use super::addresses::Blocks;
use super::iteration::{Iteration, Slot, Step};
use crate::OvercommitDevice;
use crate::config::{Planning, Settings};
use crate::engine::Engine;
use crate::engine::sim::{Profile, SimEngine};
use crate::error::Error;
use crate::policy::{IntervalId, Schedule};
use crate::pool::{Decision, Input, PlanId, Pool, StorageId, StreamId};

/// How often the iteration is run: the last time, what there is at its beginning is what is left at its end.
pub const ITERATIONS: usize = 3;

/// What came out.
#[derive(Debug)]
pub struct Trial {
    /// The time of the last iteration.
    pub step_ns: u64,
    /// What was evicted in it.
    pub decisions: Vec<Decision>,
    /// What was made again in it, by the interval that it was in, and how long that took.
    pub remade: Vec<(IntervalId, u64)>,
    /// Where addresses have no end: the blocks that it took.
    pub blocks: Option<Blocks>,
}

/// Runs an iteration as a schedule says, or by the policy's rule alone.
///
/// # Errors
/// What the program would get: memory that does not suffice.
pub fn run(
    iteration: &Iteration,
    profile: &Profile,
    settings: &Settings,
    schedule: Option<&Arc<Schedule>>,
) -> Result<Trial, Error> {
    let engine = Arc::new(SimEngine::new(profile));
    let settings = Settings { planning: Planning::Off, record: false, ..settings.clone() };
    let mut pool = Pool::new(OvercommitDevice::default(), engine.clone(), settings);
    if let Some(schedule) = schedule {
        pool.follow(PlanId::default(), schedule.clone(), StreamId::default(), true);
    }
    let mut running = Running { iteration, pool, handles: vec![None; iteration.size_bytes.len()] };
    running.begin()?;
    let end_ns = |engine: &SimEngine| engine.times().map_or(0, |times| times.end_ns);
    let mut begin_ns = 0;
    let mut begins = Vec::new();
    for _ in 0..ITERATIONS {
        begin_ns = end_ns(&engine);
        begins.extend(running.pool.takings().map(|takings| takings.now()));
        running.pool.decisions();
        running.pool.remade();
        iteration.steps.iter().try_for_each(|step| running.step(step))?;
        running.succeed()?;
    }
    let step_ns = end_ns(&engine) - begin_ns;
    let (decisions, remade) = (running.pool.decisions(), running.pool.remade());
    let residents = running.pool.residents_in_intervals();
    let blocks = running.pool.takings().map(|takings| Blocks::new(takings, &begins, residents));
    Ok(Trial { step_ns, decisions, remade, blocks })
}

struct Running<'a> {
    iteration: &'a Iteration,
    pool: Pool,
    handles: Vec<Option<StorageId>>,
}

impl Running<'_> {
    fn handle(&self, slot: Slot) -> StorageId {
        self.handles[slot as usize].expect("a log names what is there")
    }

    fn write(&mut self, slot: Slot) -> Result<(), Error> {
        let (id, access) = self.pool.begin_write(self.iteration.size_bytes[slot as usize])?;
        let waited = access.wait();
        self.pool.end_host_access(id);
        self.handles[slot as usize] = Some(id);
        waited.map_err(|source| Error::Engine { device: OvercommitDevice::default(), source })?;
        Ok(())
    }

    /// Makes what is there when the iteration begins.
    fn begin(&mut self) -> Result<(), Error> {
        for slot in 0..self.iteration.successors.len() {
            self.renew(slot)?;
        }
        Ok(())
    }

    fn renew(&mut self, slot: usize) -> Result<(), Error> {
        self.write(slot as Slot)?;
        if let Some((interval, op)) = self.iteration.begun[slot] {
            self.pool.put_in_interval(self.handle(slot as Slot), interval, op + 1);
        }
        Ok(())
    }

    /// What is left takes the place of what was there, and the iteration can begin again.
    fn succeed(&mut self) -> Result<(), Error> {
        let ended = std::mem::replace(&mut self.handles, vec![None; self.iteration.size_bytes.len()]);
        let mut left = ended;
        for (slot, successor) in self.iteration.successors.iter().enumerate() {
            self.handles[slot] = successor.and_then(|end| left[end as usize].take());
        }
        left.into_iter().flatten().for_each(|id| self.pool.release(id));
        for slot in 0..self.iteration.successors.len() {
            if self.handles[slot].is_none() {
                self.renew(slot)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Op { instruction, inputs, outputs } => {
                let mut given = crate::op::Inputs::<Input>::new();
                for (&(slot, consumed), view) in inputs.iter().zip(&instruction.views) {
                    given.push(Input { id: self.handle(slot), view: *view, consumed });
                }
                for &(slot, _) in inputs.iter().filter(|(_, consumed)| *consumed) {
                    self.handles[slot as usize] = None;
                }
                let scopes = |slot: Slot| self.iteration.scopes[slot as usize];
                let most = outputs.iter().map(|&slot| scopes(slot)).max().unwrap_or(0);
                self.pool.enter(0, most);
                let made = self.pool.run_instruction(instruction, &given)?;
                for (&slot, (id, _)) in outputs.iter().zip(made) {
                    if scopes(slot) < most {
                        self.pool.keep_result(id, scopes(slot));
                    }
                    self.handles[slot as usize] = Some(id);
                }
            }
            Step::Write(slot) => self.write(*slot)?,
            Step::Read(slot) => {
                let id = self.handle(*slot);
                let access = self.pool.begin_read(id)?;
                let waited = access.wait();
                self.pool.end_host_access(id);
                waited.map_err(|source| Error::Engine { device: OvercommitDevice::default(), source })?;
            }
            Step::Free(slot) => {
                if let Some(id) = self.handles[*slot as usize].take() {
                    self.pool.release(id);
                }
            }
            Step::Sync => self
                .pool
                .ends()
                .into_iter()
                .try_for_each(|mark| self.pool.engine().sync(mark))
                .map_err(|source| Error::Engine { device: OvercommitDevice::default(), source })?,
        }
        Ok(())
    }
}
