//! All that is run for a seed, as data: programs, settings, and planted failures. A failing world can be made smaller.

use std::collections::BTreeSet;
use std::fmt;

use burn_overcommit::engine::fault::{Call, DiskFault};
use burn_overcommit::{LaneMode, Planning, Policy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::check::{PAGE_BYTES, Setting, UNLIMITED, is_on_gpu};
use crate::generate::{self, Form};
use crate::program::{Program, Slot, Step};

/// A planted failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trouble {
    /// A call of the engine fails.
    Fails(Call, u64),
    /// A call of the engine panics.
    Panics(Call, u64),
    /// A call of the engine ends the process; then the programs start again over the plans that it kept.
    Kills(Call, u64),
    /// The disk fails.
    Disk(DiskFault),
}

/// All that is run for a seed.
#[derive(Clone)]
pub struct World {
    pub seed: u64,
    /// How the world was made smaller: which of those that are a little [`smaller`] was taken, again and again.
    pub path: Vec<usize>,
    pub form: Form,
    /// Whether steps were left out.
    pub is_cut: bool,
    /// Run one after the other in one pool, then again.
    pub programs: Vec<Program>,
    /// Whether they run at the same time instead, each on a thread of its own, by turns that the seed decides.
    pub interleaved: bool,
    /// The budget as a part of the way from the least that the programs need to all that they take; below zero, less than the least.
    pub budget: f64,
    /// The host limit as a part of what the programs take; `None` for no limit.
    pub host: Option<f64>,
    pub setting: Setting,
    /// Whether plans are kept, and the programs start again with those of their first run.
    pub keeps_plans: bool,
    /// The seed of damage that is done to kept plans.
    pub damage: Option<u64>,
    pub trouble: Option<Trouble>,
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x77_6f72_6c64);
        let count = if random.random_bool(0.3) { random.random_range(2..4) } else { 1 };
        let plans = random.random_bool(0.2);
        let form = Form { halved: 0, trains: plans && random.random_bool(0.85) };
        let programs = (0..count).map(|index| {
            let program = generate::small_program(seed.wrapping_mul(8).wrapping_add(index), form);
            let iterations = if plans { random.random_range(4..8) } else { program.iterations };
            Program { iterations, ..program }
        });
        let programs: Vec<Program> = programs.collect();
        let host = random.random_bool(0.4).then(|| random.random_range(0.1..1.5));
        let budget = match random.random_range(0..20) {
            0 => -1.0,
            1..=6 => 0.0,
            7 => 1.5,
            _ => random.random_range(0.0..1.0),
        };
        let setting = setting(&mut random, seed, host.is_some(), plans);
        let keeps_plans = plans && setting.planning == Planning::Background && random.random_bool(0.8);
        let damage = (keeps_plans && random.random_bool(0.4)).then(|| random.random());
        let interleaved = count > 1 && host.is_none() && random.random_bool(0.4);
        let trouble = match keeps_plans && random.random_bool(0.4) {
            true => Some(Trouble::Kills(call(&mut random), random.random_range(0..500))),
            false => trouble(&mut random, setting.has_disk),
        };
        let (path, is_cut) = (Vec::new(), false);
        World {
            seed,
            path,
            form,
            is_cut,
            programs,
            interleaved,
            budget,
            host,
            setting,
            keeps_plans,
            damage,
            trouble,
        }
    }

    fn keep_no_plans(&mut self) {
        (self.keeps_plans, self.damage) = (false, None);
        self.trouble = self.trouble.filter(|trouble| !matches!(trouble, Trouble::Kills(..)));
    }

    /// The world of a seed, made smaller in the way that a failure printed.
    pub fn reduced(seed: u64, path: &[usize]) -> Self {
        path.iter().fold(World::new(seed), |world, &choice| smaller(&world).swap_remove(choice))
    }
}

/// The settings of a device, but for sizes.
fn setting(random: &mut ChaCha8Rng, seed: u64, has_host_limit: bool, plans: bool) -> Setting {
    let lossless: Vec<Policy> = Policy::ALL.into_iter().filter(|policy| policy.is_lossless()).collect();
    let policy = match random.random_range(0..10) {
        0..3 => Policy::Auto,
        3..6 if plans => Policy::GistLossless,
        _ => lossless[random.random_range(0..lossless.len())],
    };
    let rate = [100_000_000, 100_000_000_000][random.random_range(0..2)];
    let peer_bytes = if random.random_bool(0.5) { 4 << 10 } else { UNLIMITED };
    let arrives = random.random_bool(0.7);
    // A search takes as long as some tens of programs.
    let plans = plans && (policy != Policy::Auto || random.random_bool(0.3));
    Setting {
        policy,
        lanes: if random.random_bool(0.9) { LaneMode::Deferred { seed } } else { LaneMode::Threads },
        // A GPU's pages are larger than all that a program takes.
        page_bytes: (random.random_bool(0.4) && !is_on_gpu()).then_some(PAGE_BYTES),
        peer: (has_host_limit && random.random_bool(0.3)).then_some((peer_bytes, rate)),
        has_disk: has_host_limit && random.random_bool(0.15),
        planning: match plans {
            false => Planning::Off,
            true if arrives => Planning::Background,
            true => Planning::AtOnce,
        },
        plan_arrivals: (plans && arrives).then_some(seed),
        fusion: random.random_bool(0.85),
        sparsity: (plans && random.random_bool(0.6)).then_some(0.9),
        ..Setting::default()
    }
}

fn call(random: &mut ChaCha8Rng) -> Call {
    Call::ALL[random.random_range(0..Call::ALL.len())]
}

fn trouble(random: &mut ChaCha8Rng, has_disk: bool) -> Option<Trouble> {
    if has_disk && random.random_bool(0.5) {
        let at = random.random_range(0..10);
        let kinds =
            [DiskFault::ShortRequest, DiskFault::FailedRequest, DiskFault::FailedRequests, DiskFault::Full];
        return Some(Trouble::Disk(kinds[random.random_range(0..kinds.len())](at)));
    }
    let kind = call(random);
    let at = random.random_range(0..60);
    match random.random_range(0..50) {
        0..5 => Some(Trouble::Fails(kind, at)),
        5 | 6 => Some(Trouble::Panics(kind, at)),
        _ => None,
    }
}

type Change<'a> = &'a dyn Fn(&mut World);

/// Worlds that are a little smaller or simpler, the boldest first.
pub fn smaller(world: &World) -> Vec<World> {
    let mut all = Vec::new();
    let mut with = |change: Change<'_>| {
        let mut changed = world.clone();
        change(&mut changed);
        changed.path.push(all.len());
        all.push(changed);
    };
    if !world.is_cut && world.form.halved < 3 {
        with(&|world| {
            world.form.halved += 1;
            for program in &mut world.programs {
                let smaller = generate::small_program(program.seed, world.form);
                *program = Program { iterations: program.iterations, ..smaller };
            }
        });
    }
    if world.programs.len() > 1 {
        (0..world.programs.len()).for_each(|index| with(&|world| drop(world.programs.remove(index))));
    }
    let simple = Setting::default();
    let lanes = LaneMode::Deferred { seed: world.seed };
    let changes: [(bool, Change<'_>); 13] = [
        (world.interleaved, &|world| world.interleaved = false),
        (world.trouble.is_some(), &|world| world.trouble = None),
        (world.damage.is_some(), &|world| world.damage = None),
        (world.keeps_plans, &|world| world.keep_no_plans()),
        (world.setting.planning != simple.planning, &|world| {
            world.setting.planning = Planning::Off;
            world.keep_no_plans();
        }),
        (world.setting.peer.is_some(), &|world| world.setting.peer = None),
        (world.setting.has_disk, &|world| world.setting.has_disk = false),
        (world.host.is_some(), &|world| world.host = None),
        (world.setting.page_bytes.is_some(), &|world| world.setting.page_bytes = None),
        (world.setting.policy != Policy::EvictAll, &|world| world.setting.policy = Policy::EvictAll),
        (world.setting.lanes != lanes, &|world| world.setting.lanes = lanes),
        (world.budget != 0.0 && world.budget > 0.0, &|world| world.budget = 0.0),
        (!world.setting.fusion, &|world| world.setting.fusion = true),
    ];
    changes.into_iter().filter(|(applies, _)| *applies).for_each(|(_, change)| with(change));
    for (index, program) in world.programs.iter().enumerate() {
        if program.iterations > 1 {
            with(&|world| world.programs[index].iterations -= 1);
        }
        for chunk in [8, 1] {
            let parts = [program.prologue.len(), program.body.len(), program.epilogue.len()];
            for (part, steps) in parts.into_iter().enumerate() {
                for first in (0..steps).step_by(chunk).rev() {
                    let dropped = first..(first + chunk).min(steps);
                    let changed = without(program, part, &dropped.collect());
                    with(&|world| (world.programs[index], world.is_cut) = (changed.clone(), true));
                }
            }
        }
    }
    all
}

/// The program without some steps of a part, and without those that then have nothing to work on.
fn without(program: &Program, part: usize, dropped: &BTreeSet<usize>) -> Program {
    let mut changed = program.clone();
    let steps = [&mut changed.prologue, &mut changed.body, &mut changed.epilogue].into_iter().nth(part);
    let mut place = 0..;
    steps.expect("three parts").retain(|_| !dropped.contains(&place.next().expect("endless")));
    // Until nothing is missing, in the first iteration or a later one.
    loop {
        let before = changed.steps().count();
        let mut held = BTreeSet::new();
        let mut keep = |steps: &mut Vec<Step>| steps.retain(|step| runs(step, &mut held));
        keep(&mut changed.prologue);
        let body = changed.body.len();
        (0..changed.iterations.min(2)).for_each(|_| keep(&mut changed.body));
        if body == changed.body.len() {
            keep(&mut changed.epilogue);
        }
        if changed.steps().count() == before {
            return changed;
        }
    }
}

/// Whether a step has all it works on, of the slots that are held; if so, it changes them.
fn runs(step: &Step, held: &mut BTreeSet<Slot>) -> bool {
    match step {
        Step::Write { to, .. } | Step::Create { to, .. } => drop(held.insert(*to)),
        Step::Run { inputs, to, .. } => {
            if !inputs.iter().all(|input| held.contains(&input.slot)) {
                return false;
            }
            inputs.iter().filter(|input| input.last).for_each(|input| {
                held.remove(&input.slot);
            });
            held.extend(to);
        }
        Step::Alias { from, to } => {
            if !held.contains(&from.slot) {
                return false;
            }
            if from.last {
                held.remove(&from.slot);
            }
            held.insert(*to);
        }
        Step::Read(slot) => return held.contains(slot),
        Step::Drop(slot) => return held.remove(slot),
        Step::Enter | Step::Leave | Step::TooLarge(_) => {}
    }
    true
}

/// The world for reading: a line for what differs from the default, and a line a step.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let World { seed, budget, host, interleaved, keeps_plans, damage, trouble, .. } = self;
        writeln!(f, "world {seed}: budget {budget}, host {host:?}, interleaved {interleaved}, {trouble:?}")?;
        writeln!(f, "keeps plans {keeps_plans}, damage {damage:?}, {:?}", self.setting)?;
        for program in &self.programs {
            writeln!(f, "program {}, {} iterations", program.seed, program.iterations)?;
            let parts =
                [("before", &program.prologue), ("loop", &program.body), ("after", &program.epilogue)];
            for (name, steps) in parts {
                steps.iter().try_for_each(|step| writeln!(f, "  {name}: {step:?}"))?;
            }
        }
        Ok(())
    }
}
