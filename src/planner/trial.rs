//! Trials: an iteration runs on the simulation, through the same pool that will run it. Plans are judged by them.

use std::sync::Arc;

use hashbrown::HashMap;

use super::blocks::IterationBlocks;
use super::iteration::{Iteration, IterationStep, Slot};
use crate::OvercommitDevice;
use crate::config::{Planning, Settings};
use crate::engine::sim::{Profile, SimEngine};
use crate::engine::{Engine, Lane, Mark, Ran, waits};
use crate::error::Error;
use crate::pool::{AllocationTrace, Input, PendingWork, Pool, StorageId};
use crate::schedule::{Decision, IntervalId, PlanId, Schedule, ScheduleOutcome, StreamId};

/// The iterations that a trial runs at least. In the last of them, the storages at its beginning are those that an iteration
/// leaves.
pub const ITERATIONS: usize = 3;
/// The iterations that measure the long run. Iterations may differ, since each begins with the addresses that the one before
/// left.
pub const MANY_ITERATIONS: usize = 8;
/// The iterations that run without a schedule before. Memory is then in the state in which a program begins to follow one.
pub const UNPLANNED: usize = 2;

/// How long a trial runs.
#[derive(Clone, Copy, Debug)]
pub struct TrialLength {
    /// Iterations without a schedule, which run first.
    pub unplanned: usize,
    /// Iterations with the schedule.
    pub iterations: usize,
}

impl Default for TrialLength {
    fn default() -> Self {
        TrialLength { unplanned: 0, iterations: ITERATIONS }
    }
}

/// The pool scans so many eviction candidates in the time of an op.
const CANDIDATES_PER_OP: u64 = 256;

/// The device that errors of a trial name. No program sees them.
const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);

/// The result of a trial.
#[derive(Debug)]
pub struct Trial {
    /// The time of an iteration that begins with what an iteration leaves.
    pub step_ns: u64,
    /// The evictions of the last iteration.
    pub decisions: Vec<Decision>,
    /// The intervals that it rematerialized, and the time of that.
    pub rematerialized: Vec<(IntervalId, u64)>,
    /// How long its ops waited for copies, by the interval that was copied.
    pub awaited: Vec<(IntervalId, u64)>,
    /// When each op of that iteration began, since the first one did.
    pub begins_ns: Vec<u64>,
    /// The blocks that it took, with unbounded addresses.
    pub blocks: Option<IterationBlocks>,
    /// The work of running the iteration, in ops. It is larger if evictions scan many candidates.
    pub step_ops: usize,
}

/// The times of a trial.
#[derive(Clone, Debug)]
pub struct Times {
    /// When each op began, since the first one did.
    pub begins_ns: Vec<u64>,
    /// The time of an iteration.
    pub step_ns: u64,
}

/// Runs an iteration under a schedule, or by the policy's rule alone.
///
/// # Errors
/// If memory does not suffice, as for the program.
pub fn run(
    iteration: &Iteration,
    profile: &Profile,
    settings: &Settings,
    schedule: Option<&Arc<Schedule>>,
    length: TrialLength,
) -> Result<Trial, Error> {
    let TrialLength { unplanned, iterations } = length;
    let engine = Arc::new(SimEngine::new(profile));
    // The oracle of a replay knows other storages.
    let settings = Settings { planning: Planning::Off, record: false, oracle: None, ..settings.clone() };
    let limit_bytes = settings.whole_pages(settings.budget_bytes);
    if let Some(peers) = &settings.peers {
        engine.open_peers(peers).expect("a simulation has any other devices");
    }
    if let Some(disk) = &settings.disk {
        engine.open_disk(disk).expect("a simulation opens any disk");
    }
    let pool = Pool::new(DEVICE, engine.clone(), settings);
    let handles = vec![None; iteration.size_bytes.len()];
    let mut running = TrialRun { iteration, pool, handles, launches: Vec::new(), firsts: Vec::new() };
    running.begin()?;
    for _ in 0..unplanned {
        iteration.steps.iter().try_for_each(|step| running.step(step))?;
        running.start_next()?;
    }
    if let Some(schedule) = schedule {
        running.follow(schedule);
    }
    let end_ns = |engine: &SimEngine| engine.times().map_or(0, |times| times.end_ns);
    let mut begins_ns = Vec::new();
    let mut begins = Vec::new();
    let mut ran_before = Vec::new();
    engine.record();
    for _ in 0..iterations {
        begins_ns.push(end_ns(&engine));
        begins.extend(running.pool.allocation_trace().map(|trace| trace.now()));
        running.pool.take_outcome();
        ran_before = engine.recorded();
        running.launches.clear();
        running.firsts.clear();
        iteration.steps.iter().try_for_each(|step| running.step(step))?;
        running.start_next()?;
    }
    let settled = ITERATIONS - 1;
    let step_ns = (end_ns(&engine) - begins_ns[settled]) / (iterations - settled) as u64;
    let ScheduleOutcome { evicted: decisions, rematerialized, copied } = running.pool.take_outcome();
    let ran = engine.recorded();
    let awaited = waits(&ran, &copied);
    let residents = running.pool.residents_in_intervals();
    let candidates_scanned = running.pool.candidates_scanned() / (unplanned + iterations) as u64;
    let step_ops = iteration.ops.len().max((candidates_scanned / CANDIDATES_PER_OP) as usize);
    let launch_begins_ns = begins_of(&ran, &running.launches);
    let blocks = running.pool.allocation_trace().map(|allocation_trace| {
        let taken = allocation_trace.now() - begins[iterations - 1];
        let op_begins = launch_begins_ns.iter().copied().zip(running.firsts.iter().copied()).collect();
        let ready = Ready::new(&ran_before, &ran, op_begins, taken);
        IterationBlocks::new(limit_bytes, allocation_trace, &begins, residents, |work| ready.at(work))
    });
    let first_ns = launch_begins_ns.first().copied().unwrap_or(0);
    let begins_ns = launch_begins_ns.into_iter().map(|begin_ns| begin_ns - first_ns).collect();
    Ok(Trial { step_ns, decisions, rematerialized, awaited, begins_ns, blocks, step_ops })
}

/// When each of these launches began.
fn begins_of(ran: &[Ran], launches: &[Mark]) -> Vec<u64> {
    let begins_ns: HashMap<Mark, u64> = ran.iter().map(|piece| (piece.mark, piece.begin_ns)).collect();
    launches.iter().map(|mark| begins_ns[mark]).collect()
}

/// When the work of an iteration is done, counted in blocks taken and freed.
struct Ready {
    ends_ns: HashMap<Mark, u64>,
    /// When each op began, and the first block that it took; and the same for the next iteration.
    begins: Vec<(u64, u32)>,
}

impl Ready {
    /// `before` is what ran in the iteration before, `begins` when each op began with the first block that it took, and
    /// `taken` the number of blocks that the iteration took and freed.
    fn new(before: &[Ran], ran: &[Ran], mut begins: Vec<(u64, u32)>, taken: u32) -> Ready {
        let end_ns =
            ran.iter().filter(|piece| piece.mark.lane == Lane::Compute).map(|piece| piece.end_ns).max();
        let period_ns = end_ns.unwrap_or(0) - begins.first().map_or(0, |&(begin_ns, _)| begin_ns);
        let next = begins.clone().into_iter().map(|(begin_ns, first)| (begin_ns + period_ns, first + taken));
        begins.extend(next);
        Ready { ends_ns: before.iter().chain(ran).map(|piece| (piece.mark, piece.end_ns)).collect(), begins }
    }

    /// The first block of the first op that begins when work is done. Work from before these iterations is done already.
    fn at(&self, work: PendingWork) -> u32 {
        let ends_ns = work.marks().filter_map(|mark| self.ends_ns.get(&mark).copied());
        let end_ns = ends_ns.max().unwrap_or(0);
        let begins = &self.begins;
        let op = begins.partition_point(|&(begin_ns, _)| begin_ns < end_ns);
        begins.get(op).or(begins.last()).map_or(0, |&(_, first)| first)
    }
}

struct TrialRun<'a> {
    iteration: &'a Iteration,
    pool: Pool,
    handles: Vec<Option<StorageId>>,
    /// The launch of each op.
    launches: Vec<Mark>,
    /// With unbounded addresses, the first block that each op took.
    firsts: Vec<u32>,
}

impl TrialRun<'_> {
    fn handle(&self, slot: Slot) -> StorageId {
        self.handles[slot as usize].expect("a log names what is there")
    }

    fn write(&mut self, slot: Slot) -> Result<(), Error> {
        let (id, access) = self.pool.begin_write(self.iteration.size_bytes[slot as usize])?;
        let waited = access.wait();
        self.pool.end_write(id);
        self.handles[slot as usize] = Some(id);
        waited.map_err(|source| Error::Engine { device: DEVICE, source })?;
        Ok(())
    }

    /// Makes the storages that exist when the iteration begins.
    fn begin(&mut self) -> Result<(), Error> {
        for slot in 0..self.iteration.successors.len() {
            self.renew(slot)?;
        }
        Ok(())
    }

    fn renew(&mut self, slot: usize) -> Result<(), Error> {
        self.write(slot as Slot)?;
        self.put_in_interval(slot);
        Ok(())
    }

    fn put_in_interval(&mut self, slot: usize) {
        if let Some((interval, op)) = self.iteration.initial[slot] {
            self.pool.put_in_interval(self.handle(slot as Slot), interval, op + 1);
        }
    }

    /// Follows a schedule from now on. The storages of the iteration's beginning exist already.
    fn follow(&mut self, schedule: &Arc<Schedule>) {
        self.pool.follow(PlanId::default(), schedule.clone(), StreamId::default(), true);
        (0..self.iteration.successors.len()).for_each(|slot| self.put_in_interval(slot));
    }

    /// Lets the storages that are left take the places of those of the beginning, so that the iteration can run again.
    fn start_next(&mut self) -> Result<(), Error> {
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

    fn step(&mut self, step: &IterationStep) -> Result<(), Error> {
        match step {
            IterationStep::Op { instruction, inputs, outputs } => {
                let mut given = crate::op::Inputs::<Input>::new();
                for (&(slot, consumed), view) in inputs.iter().zip(&instruction.views) {
                    given.push(Input { consumed, ..Input::read(self.handle(slot), *view) });
                }
                for &(slot, _) in inputs.iter().filter(|(_, consumed)| *consumed) {
                    self.handles[slot as usize] = None;
                }
                let scopes = |slot: Slot| self.iteration.scopes[slot as usize];
                let max_scopes = outputs.iter().map(|&slot| scopes(slot)).max().unwrap_or(0);
                self.pool.enter(0, max_scopes);
                let first = self.pool.allocation_trace().map(AllocationTrace::now);
                let made = self.pool.run_instruction(instruction, &given)?;
                self.launches.push(self.pool.engine().mark(Lane::Compute));
                self.firsts.extend(first);
                for (&slot, id) in outputs.iter().zip(made) {
                    if scopes(slot) < max_scopes {
                        self.pool.keep_result(id, scopes(slot));
                    }
                    self.handles[slot as usize] = Some(id);
                }
            }
            IterationStep::Write(slot) => self.write(*slot)?,
            IterationStep::Read(slot) => {
                let id = self.handle(*slot);
                self.pool.note_read(id);
                let access = self.pool.begin_read(id)?;
                let waited = access.wait();
                self.pool.end_read(id)?;
                waited.map_err(|source| Error::Engine { device: DEVICE, source })?;
            }
            IterationStep::Free(slot) => {
                if let Some(id) = self.handles[*slot as usize].take() {
                    self.pool.release(id);
                }
            }
            IterationStep::Sync => self
                .pool
                .ends()
                .into_iter()
                .try_for_each(|mark| self.pool.engine().sync(mark))
                .map_err(|source| Error::Engine { device: DEVICE, source })?,
        }
        Ok(())
    }
}
