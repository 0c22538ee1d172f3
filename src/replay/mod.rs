//! Runs recorded programs again on the simulation, through the same pool as real runs, with any device, budget and
//! policy.
//!
//! ```
//! use burn_overcommit::SimProfile;
//! use burn_overcommit::replay::{Replay, Settings};
//! use burn_overcommit::trace::Program;
//!
//! let profile = SimProfile::named("v100").and_then(SimProfile::get).unwrap();
//! let program = Program::default(); // or Program::open("trace.jsonl")?
//! let replay = Replay::new(&program, profile, 1)?;
//! let outcome = replay.run(&Settings::new(1 << 30))?;
//! assert_eq!(outcome.recomputed_ops, 0);
//! # Ok::<(), burn_overcommit::Error>(())
//! ```

mod bound;
mod footprint;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::config::{Config, MIN_BUDGET_BYTES, Oracle, Placement, PlanCache, Planning, Tunables};
use crate::dry_run::BOUNDLESS_BYTES;
use crate::engine::sim::Profile;
use crate::error::Error;
use crate::module::{self, ModuleId};
use crate::op::{Dtype, Facts, Traced, Work};
use crate::runtime::{self, Tensor, configure, recording, reset_stats, stats};
use crate::schedule::RequestLog;
use crate::trace::{Event, Made, Program, Recording};
use crate::{OvercommitDevice, Policy, SimProfile, Stats};
use bound::RelaxedIteration;
pub use footprint::Footprint;

/// How often an iteration of a training loop is run: the first makes the storages that stay, and the last is in the
/// steady state.
pub const ITERATIONS: usize = 8;

/// Settings of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Device memory, in bytes.
    pub budget_bytes: usize,
    /// The memory policy.
    pub policy: Policy,
    /// Whether storages may be offloaded to the host.
    pub offload: bool,
    /// Whether storages may be dropped and recomputed.
    pub recompute: bool,
    /// Whether the policy knows the program beforehand. A policy that plans then has its plan of a loop from the
    /// first iteration on.
    pub oracle: bool,
    /// How addresses are chosen; `None` leaves it to the environment.
    pub placement: Option<Placement>,
    /// When iterations are planned; `None` leaves it to the environment.
    pub planning: Option<Planning>,
    /// Where plans are kept, with which the search for a larger budget begins; `None` leaves it to the environment.
    pub plan_cache: Option<PlanCache>,
    #[doc(hidden)]
    pub tunables: Tunables,
    /// Whether device memory is mapped by page; `None` leaves it to the environment.
    pub page_mapping: Option<bool>,
}

impl Settings {
    /// The default policy, which may offload and recompute and does not know the program beforehand.
    pub fn new(budget_bytes: usize) -> Self {
        Settings {
            budget_bytes,
            policy: Policy::Auto,
            offload: true,
            recompute: true,
            oracle: false,
            placement: None,
            planning: None,
            plan_cache: None,
            tunables: Tunables::default(),
            page_mapping: None,
        }
    }
}

/// The outcome of a run. For a loop, all fields but `feasible` describe the last iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The device.
    pub device: String,
    /// The policy.
    pub policy: &'static str,
    /// Whether the policy knew the program beforehand.
    pub oracle: bool,
    /// Number of iterations that were run.
    pub iterations: usize,
    /// The budget.
    pub budget_bytes: usize,
    /// The most device memory in blocks at once, which are multiples of 256 bytes, workspaces included.
    pub peak_bytes: usize,
    /// The most bytes of live storages at once in the program as recorded, by exact sizes, without workspaces.
    pub live_peak_bytes: usize,
    /// The highest end of a block in device memory: the peak, plus memory that lay unused between blocks.
    pub footprint_bytes: usize,
    /// The time with all memory.
    pub base_ns: u64,
    /// The time; `None` if the run did not finish.
    pub step_ns: Option<u64>,
    /// The time, as a multiple of that with all memory.
    pub overhead: Option<f64>,
    /// A lower bound of the overhead of any schedule with this budget and these eviction methods; `None` if no
    /// schedule works. See [`Replay::bound`].
    pub bound: Option<f64>,
    /// Ops run again.
    pub recomputed_ops: u64,
    /// Bytes copied to the host.
    pub offloaded_bytes: u64,
    /// Bytes copied back.
    pub fetched_bytes: u64,
    /// The most host memory in use.
    pub peak_host_bytes: usize,
    /// Whether every iteration ran to its end.
    pub feasible: bool,
    /// The reason, if one did not.
    pub failure: Option<String>,
}

/// How long planning takes.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct PlanTimes {
    pub ops: usize,
    pub found: Vec<Duration>,
    pub end: Duration,
}

/// A program on a device, which can be run under one budget and policy after another.
#[derive(Debug)]
pub struct Replay<'a> {
    program: &'a Program,
    device: OvercommitDevice,
    name: String,
    iterations: usize,
    /// The events of an iteration whose time counts.
    timed: Range<usize>,
    live_peak_bytes: usize,
    base_ns: u64,
    relaxed: RelaxedIteration,
    link_bytes_per_ns: f64,
}

impl<'a> Replay<'a> {
    /// Runs the program once with all the memory that it needs. It is repeated `iterations` times, like a training
    /// loop. Constants stay; a storage that is left at the end of an iteration is freed once the next iteration has
    /// made its successor. Where it is run once, mapping pages takes no time, since that is no part of what a step takes.
    ///
    /// ```
    /// use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
    /// use burn_overcommit::trace::Program;
    /// use burn_overcommit::SimProfile;
    ///
    /// let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
    /// let program = Program::default();
    /// let replay = Replay::new(&program, profile, ITERATIONS)?;
    /// let outcome = replay.run(&Settings::new(1 << 30))?;
    /// assert!(outcome.feasible);
    /// # Ok::<(), burn_overcommit::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors that a run under any budget would have, such as a trace whose reads do not fit it.
    ///
    /// # Panics
    /// If there are no iterations, or if the program uses storages that do not exist. Programs from files were
    /// checked for that.
    pub fn new(program: &'a Program, profile: Profile, iterations: usize) -> Result<Self, Error> {
        Replay::timed(program, profile, iterations, 0..program.events.len())
    }

    /// Like [`new`](Replay::new), for one run of the program, of whose iterations only the last counts: its time, its base and its
    /// bound. A policy that plans has a plan for it if there are five, or more. If nothing repeats, all of the program counts.
    ///
    /// # Errors
    /// As [`new`](Replay::new).
    pub fn of_last_iteration(program: &'a Program, profile: Profile) -> Result<Self, Error> {
        Replay::timed(program, profile, 1, program.last_iteration())
    }

    fn timed(
        program: &'a Program,
        mut profile: Profile,
        iterations: usize,
        timed: Range<usize>,
    ) -> Result<Self, Error> {
        assert!(iterations > 0, "a program is run at least once");
        if iterations == 1 {
            // A loop maps its pages once, in its first iterations, so that this is no part of what a step takes.
            (profile.props.host.map_call_ns, profile.props.host.map_page_ns) = (0, 0);
        }
        (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
        // A recording contains an op's work and not its kernels, so all times follow from the roofline.
        profile.props.kernels = None;
        // No way is faster, so that a bound stays one.
        let link_bytes_per_ns =
            profile.props.offload_bytes_per_second.max(profile.props.fetch_bytes_per_second) / 1e9;
        let (name, props) = (profile.key.clone(), profile.props.clone());
        let device = OvercommitDevice::Sim(SimProfile::add_unnamed(profile));
        let mut replay = Replay {
            program,
            device,
            name,
            iterations,
            live_peak_bytes: program.live_peak_bytes(),
            base_ns: 0,
            relaxed: if timed.len() == program.events.len() {
                RelaxedIteration::new(program, &props)
            } else {
                RelaxedIteration::new(&program.part(timed.clone()), &props)
            },
            timed,
            link_bytes_per_ns,
        };
        configure(&device, replay.config(&Settings::new(BOUNDLESS_BYTES)))?;
        replay.base_ns = replay.repeat(&mut Tensors::new())?;
        Ok(replay)
    }

    /// The most bytes of live storages at once.
    pub fn live_peak_bytes(&self) -> usize {
        self.live_peak_bytes
    }

    /// The time with all memory.
    pub fn base_ns(&self) -> u64 {
        self.base_ns
    }

    /// Runs it.
    ///
    /// # Errors
    /// A budget that is too small is no error, but an outcome.
    pub fn run(&self, settings: &Settings) -> Result<Outcome, Error> {
        self.begin(settings, |config| config)?;
        self.outcome(settings, &mut Tensors::new())
    }

    /// Runs the program and records the events of all iterations.
    ///
    /// # Errors
    /// As [`run`](Replay::run).
    pub fn record(&self, settings: &Settings) -> Result<(Outcome, Recording), Error> {
        self.begin(settings, Config::record)?;
        // Storages that are left at the end stay until the recording is taken.
        let mut tensors = Tensors::new();
        let outcome = self.outcome(settings, &mut tensors)?;
        Ok((outcome, recording(&self.device)?))
    }

    /// A lower bound of the overhead, for any schedule of any policy. At each op, the live bytes beyond the budget
    /// must be absent. At most `link * min(t, T - t)` of them can be on the host without delay, and more as the step
    /// gets longer. The rest is recomputed, each storage at least by its own op, the cheapest bytes first. `None` if
    /// not enough bytes may leave.
    pub fn bound(&self, settings: &Settings) -> Option<f64> {
        let link = settings.offload.then_some(self.link_bytes_per_ns);
        let least_ns = self.relaxed.least_ns(settings.budget_bytes, link, settings.recompute)?;
        // The time with all memory includes waits for uploads, which a schedule might hide.
        Some(least_ns / self.base_ns.max(1) as f64)
    }

    /// The device memory, in bytes, below which copies cannot be hidden if nothing is recomputed: the maximum of
    /// `live(t) - link * min(t, T - t)` over an iteration of length `T`, with `link` bytes per nanosecond each way.
    /// Bytes that the host has already, such as constants, count as if they had to be copied there; a program with
    /// many of them may need less.
    pub fn offload_bound_bytes(&self) -> usize {
        self.relaxed.unhidden_bytes(self.link_bytes_per_ns)
    }

    /// Configures the device. A policy that plans and knows the program gets its plan before the first op.
    fn begin(&self, settings: &Settings, change: impl Fn(Config) -> Config) -> Result<(), Error> {
        let plans = settings.oracle && settings.policy == Policy::Auto && self.iterations > 1;
        let learned = if plans { self.learned()? } else { None };
        configure(&self.device, change(self.config(settings)))?;
        learned.map_or(Ok(()), |(log, period)| runtime::plan_ahead(&self.device, log, period))
    }

    /// How many ops an iteration has, when each of its plans is found since the search began, and when the search is over: for
    /// benches. `None` if it is not planned.
    ///
    /// # Errors
    /// As [`run`](Replay::run).
    #[doc(hidden)]
    pub fn plan_times(&self, settings: &Settings) -> Result<Option<PlanTimes>, Error> {
        let Some((log, period)) = self.learned()? else { return Ok(None) };
        configure(&self.device, self.config(settings))?;
        let (found, end) = runtime::plan_times(&self.device, &log, period)?;
        Ok(Some(PlanTimes { ops: period, found, end }))
    }

    /// The requests of one iteration, logged over as many iterations as that takes, with all the memory that they
    /// need.
    fn learned(&self) -> Result<Option<(RequestLog, usize)>, Error> {
        let boundless = self.config(&Settings::new(BOUNDLESS_BYTES)).planning(Planning::Off);
        configure(&self.device, boundless)?;
        let mut tensors = Tensors::new();
        for iteration in 0..self.iterations {
            if let Some(learned) = runtime::learned(&self.device)? {
                return Ok(Some(learned));
            }
            self.program.events.iter().try_for_each(|event| self.step(event, iteration, &mut tensors))?;
        }
        Ok(None)
    }

    fn config(&self, settings: &Settings) -> Config {
        let mut config = Config::new()
            .budget_bytes(settings.budget_bytes.max(MIN_BUDGET_BYTES))
            .host_limit_bytes(BOUNDLESS_BYTES)
            .policy(settings.policy)
            .offload(settings.offload)
            .recompute(settings.recompute)
            .tunables(settings.tunables);
        if let Some(placement) = settings.placement {
            config = config.placement(placement);
        }
        if let Some(planning) = settings.planning {
            config = config.planning(planning);
        }
        if let Some(cache) = &settings.plan_cache {
            config = config.plan_cache(cache.clone());
        }
        if let Some(on) = settings.page_mapping {
            config = config.page_mapping(on);
        }
        if settings.oracle { config.oracle(Arc::new(self.oracle())) } else { config }
    }

    /// The requests of the program, in the numbers that the pool will give to storages and ops.
    fn oracle(&self) -> Oracle {
        let (mut uses, mut numbers, mut ops) = (Vec::new(), HashMap::new(), 0);
        for iteration in 0..self.iterations {
            for event in &self.program.events {
                let made: &[Made] = match event {
                    Event::Op(op) => {
                        ops += 1;
                        op.inputs.iter().for_each(|input| {
                            let uses: &mut Vec<u64> = &mut uses[numbers[input]];
                            uses.push(ops);
                        });
                        &op.outputs
                    }
                    Event::Constant(made) if iteration == 0 => {
                        ops += 1;
                        std::slice::from_ref(made)
                    }
                    Event::Write(made) => std::slice::from_ref(made),
                    _ => continue,
                };
                for made in made {
                    numbers.insert(made.storage, uses.len());
                    uses.push(Vec::new());
                }
            }
        }
        Oracle(uses)
    }

    fn outcome(&self, settings: &Settings, tensors: &mut Tensors) -> Result<Outcome, Error> {
        let result = self.repeat(tensors);
        let stats = stats(&self.device)?;
        let step_ns = result.as_ref().ok().copied();
        Ok(Outcome {
            device: self.name.clone(),
            policy: settings.policy.name(),
            oracle: settings.oracle,
            iterations: self.iterations,
            budget_bytes: settings.budget_bytes,
            peak_bytes: stats.peak_allocated_bytes,
            live_peak_bytes: self.live_peak_bytes,
            footprint_bytes: stats.footprint_bytes,
            base_ns: self.base_ns,
            step_ns,
            overhead: step_ns.map(|step_ns| step_ns as f64 / self.base_ns.max(1) as f64),
            bound: self.bound(settings),
            recomputed_ops: stats.counters.recomputed_ops,
            offloaded_bytes: stats.counters.offloaded_bytes,
            fetched_bytes: stats.counters.fetched_bytes,
            peak_host_bytes: stats.peak_host_bytes,
            feasible: result.is_ok(),
            failure: result.err().map(|error| error.to_string()),
        })
    }

    /// Runs all iterations and returns the time of the last.
    fn repeat(&self, tensors: &mut Tensors) -> Result<u64, Error> {
        let run = |events: Range<usize>, iteration: usize, tensors: &mut Tensors| {
            let mut events = self.program.events[events].iter();
            events.try_for_each(|event| self.step(event, iteration, tensors))
        };
        let now_ns = || Ok::<u64, Error>(end_ns(&stats(&self.device)?));
        let mut time_ns = 0;
        for iteration in 0..self.iterations {
            if self.iterations > 1 {
                runtime::note(&self.device, &format!("iteration {}", iteration + 1))?;
            }
            run(0..self.timed.start, iteration, tensors)?;
            let begin_ns = now_ns()?;
            reset_stats(&self.device)?;
            run(self.timed.clone(), iteration, tensors)?;
            time_ns = now_ns()? - begin_ns;
            run(self.timed.end..self.program.events.len(), iteration, tensors)?;
        }
        Ok(time_ns)
    }

    fn step(&self, event: &Event, iteration: usize, tensors: &mut Tensors) -> Result<(), Error> {
        match event {
            Event::Op(op) => {
                let facts = Facts {
                    name: op.name.to_string(),
                    output_bytes: op.outputs.iter().map(|made| made.bytes).collect(),
                    scratch_bytes: op.scratch_bytes,
                    work: op.work,
                    in_place: op.in_place.clone(),
                    exact: op.exact,
                };
                let inputs = op.inputs.iter().enumerate().map(|(place, storage)| {
                    let taken = op.consumed.contains(&place);
                    let tensor = if taken { tensors.remove(storage) } else { tensors.get(storage).cloned() };
                    tensor.expect("a checked program uses what it has")
                });
                let inputs: Vec<Tensor> = inputs.collect();
                let module = op.module.as_deref().map(ModuleId::of).unwrap_or_default();
                op.parameters.iter().for_each(|&place| inputs[place].belongs_to(module));
                let _module = module::within(module.path());
                let outputs = runtime::run_traced(&self.device, Traced::new(facts), inputs)?;
                // The storage that the iteration before left in the same place is freed now.
                tensors.extend(op.outputs.iter().map(|made| made.storage).zip(outputs));
            }
            Event::Constant(made) if iteration == 0 => {
                let outputs = runtime::run_traced(&self.device, Traced::new(constant(made)), Vec::new())?;
                tensors.extend(outputs.into_iter().map(|tensor| (made.storage, tensor)));
            }
            Event::Write(made) => {
                tensors.insert(made.storage, runtime::claim(&self.device, made.bytes)?);
            }
            Event::Read(storage) => runtime::wait_for(&tensors[storage])?,
            Event::Free(storage) => {
                tensors.remove(storage);
            }
            Event::Sync => runtime::sync(&self.device)?,
            Event::Note(text) => runtime::note(&self.device, text)?,
            _ => {}
        }
        Ok(())
    }
}

/// Tensors that the program holds, by the numbers of their storages in the trace.
type Tensors = HashMap<u64, Tensor>;

fn end_ns(stats: &Stats) -> u64 {
    stats.times.map_or(0, |times| times.end_ns)
}

/// An op that makes a constant: it costs nothing, and cannot be run again.
fn constant(made: &Made) -> Facts {
    Facts {
        name: "constant".into(),
        output_bytes: vec![made.bytes],
        scratch_bytes: 0,
        work: Work { flops: 0, read_bytes: 0, written_bytes: 0, dtype: Dtype::U8, measured_ns: Some(0) },
        in_place: Vec::new(),
        exact: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_plans_and_knows_the_program_has_its_plan_before_the_first_op() {
        let op = |args: &str, result: &str, bytes: usize| {
            format!(
                "{{\"INSTRUCTION\":\"CALL\",\"NAME\":\"op\",\"ARGS\":[{args}],\"RESULT\":[\"{result}\"],\"TIME\":\"100000\"}}\n\
                 {{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"{result}\",\"MEMORY\":\"{bytes}\"}}\n\
                 {{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"{result}\",\"ALIAS\":\"-1\"}}\n"
            )
        };
        let forward = (0..8).map(|at| op("", &format!("x{at}"), (8 + at) << 17));
        let backward = (0..8).rev().map(|at| op(&format!("\"x{at}\""), &format!("y{at}"), 256));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("simrd.log");
        std::fs::write(&path, forward.chain(backward).collect::<String>()).unwrap();
        let program = Program::open(&path).unwrap();
        let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
        let replay = Replay::new(&program, profile, ITERATIONS).unwrap();
        let plans = |oracle| {
            let settings = Settings { oracle, ..Settings::new(6 << 20) };
            replay.begin(&settings, |config| config).unwrap();
            stats(&replay.device).unwrap().counters.plans
        };
        assert_eq!([false, true].map(plans), [0, 1]);
    }
}
