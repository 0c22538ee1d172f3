//! `plan`: how long a step takes in which budget on which device, and plans for that device.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use burn::backend::Autodiff;
use burn_overcommit::engine::{DiskTier, Lane};
use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::report::{GridPoint, write_grid};
use burn_overcommit::trace::Program;
use burn_overcommit::{
    Amount, Config, Overcommit, OvercommitDevice, PlanCache, Profile, SimProfile, Stats, Tunables, configure,
    recording, stats,
};
use burn_overcommit_networks::parameter_count;
use bytesize::ByteSize;
use clap::Args;
use indicatif::ProgressBar;
use tempfile::TempDir;

use crate::INFEASIBLE;
use crate::json;
use crate::more_memory::{Machines, Peers};
use crate::options::{UNLIMITED_BYTES, amount, bar, file_ending_in, profile};
use crate::outputs::to_file;
use crate::training::TrainingOptions;

/// With Adam, steps are alike from the third on. A program is planned once two were, and the last one is measured.
const STEPS: usize = 5;
/// An iteration of up to twice so many ops is searched as long as in a training. Of a longer one, a smaller part of the plans is tried.
const SMALL_OPS: usize = 200;
/// At least one in so many plans is tried.
const MAX_PARTS: usize = 8;
/// The part of a device's memory that is the budget by default.
const BUDGET_SHARE: f64 = 0.9;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// A network of the papers, such as resnet-50 or gpt2-medium, or a trace.
    what: String,
    #[command(flatten)]
    training: TrainingOptions,
    /// Devices, separated by commas: keys that `devices` lists.
    #[arg(long, value_delimiter = ',', default_value = "rtx4090")]
    device: Vec<String>,
    /// Budgets, separated by commas: bytes such as 8 GiB, or shares of the bytes live at once. The device's own memory is added
    /// where it is less.
    #[arg(long, value_delimiter = ',', value_parser = amount, default_value = "100%,80%,60%,50%,40%,30%,20%")]
    budgets: Vec<Amount>,
    /// Host memory that it may use, in bytes such as 32 GiB, if not all it asks for.
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    host: Option<Amount>,
    /// A disk for what host memory has no room for: bytes, and its speed if that is not 3 GB/s, such as 1TB@7GB/s.
    #[arg(long, value_name = "BYTES[@RATE]", value_parser = disk)]
    disk: Option<String>,
    /// Other devices of the same kind whose memory it may use: how many, the bytes of each if not nine tenths, and the speed of copies
    /// to them if that is not NVLink's or the link's to the host, such as 1 or 2:20GiB@50GB/s.
    #[arg(long, value_name = "COUNT[:BYTES][@RATE]")]
    peers: Option<Peers>,
    /// Machines that train together, each on a batch of its own, and what the network between them moves one way if that is not
    /// 1.25GB/s, such as 4@12.5GB/s.
    #[arg(long, value_name = "COUNT[@RATE]")]
    machines: Option<Machines>,
    /// A plot of time over budget, with a line for each device, as SVG.
    #[arg(long, value_name = "FILE", value_parser = file_ending_in(&["svg"]))]
    grid: Option<PathBuf>,
    /// Keeps the plans of a network in this folder. A program of the same ops follows them on the device itself, if it has the
    /// same budget and host limit.
    #[arg(long, value_name = "FOLDER", requires = "host")]
    keep: Option<PathBuf>,
    /// Searches each plan as long as training does. Without, iterations of more than 400 ops are searched for a shorter time, down to
    /// about a tenth, and steps may take some hundredths longer. Plans that are kept are always searched so.
    #[arg(long)]
    thorough: bool,
    /// One JSON object, with a point for every device and budget.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// The effort of a search for an iteration of so many ops.
    fn tunables(&self, ops: usize) -> Tunables {
        let whole = Tunables::default();
        let parts = (ops / SMALL_OPS).clamp(1, MAX_PARTS);
        if self.thorough || self.keep.is_some() || parts == 1 {
            return whole;
        }
        Tunables {
            rungs: 1,
            finalists: 1,
            trial_ops: whole.trial_ops / parts,
            annealing_steps: whole.annealing_steps / parts,
            annealing_work: whole.annealing_work / parts,
            ..whole
        }
    }

    fn goes_beyond_a_device(&self) -> bool {
        self.disk.is_some() || self.peers.is_some() || self.machines.is_some()
    }
}

/// A disk tier of a simulation, which has no folder.
fn disk(text: &str) -> Result<String, String> {
    let tier = format!(":{text}");
    match tier.parse::<DiskTier>() {
        Ok(_) => Ok(tier),
        Err(_) => Err("expected bytes such as 1TB, with @RATE such as @7GB/s if that is known".into()),
    }
}

/// The budgets that are tried, the smallest first: the search for a larger one begins with their plans.
fn budgets(options: &Options, profile: &Profile, live_peak_bytes: usize) -> Vec<usize> {
    let own_bytes = own_bytes(profile);
    let asked = options.budgets.iter().map(|budget| budget.of(live_peak_bytes));
    let mut budgets: Vec<usize> = asked.chain((own_bytes < live_peak_bytes).then_some(own_bytes)).collect();
    budgets.sort_unstable();
    budgets.dedup();
    budgets
}

fn own_bytes(profile: &Profile) -> usize {
    (profile.props.device_bytes as f64 * BUDGET_SHARE) as usize
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let path = Path::new(&options.what);
    let is_trace = path.exists();
    ensure!(
        !is_trace || options.keep.is_none(),
        "{}: a trace does not tell enough of its ops to keep plans for the program; give a network, or run the program itself \
         with OVERCOMMIT_DEVICE=sim:{} and OVERCOMMIT_PLAN_CACHE=FOLDER",
        path.display(),
        options.device[0]
    );
    ensure!(
        !is_trace || (options.host.is_none() && !options.goes_beyond_a_device()),
        "--host is for networks, and so are --peers, --disk and --machines: a trace has all the host memory it asks for"
    );
    let bar = bar(options.device.len() * (options.budgets.len() + 1), "planning");
    let mut points = Vec::new();
    for key in &options.device {
        let profile = profile(key)?;
        let progress = Progress { bar: &bar, profile: &profile, prints: !options.json };
        points.extend(match is_trace {
            true => of_trace(options, path, &progress)?,
            false => of_network(options, &progress)?,
        });
    }
    bar.finish_and_clear();
    if let Some(path) = &options.grid {
        to_file(path, |file| write_grid(&points, file))?;
    }
    if options.json {
        json::print_list("points", &points)?;
    }
    if let (Some(folder), Some(host)) = (&options.keep, options.host) {
        tell_how_to_follow(host, folder)?;
    }
    let fits = points.iter().any(|point| point.step_ns.is_some());
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(INFEASIBLE) })
}

/// Where rows go as they are known.
struct Progress<'a> {
    bar: &'a ProgressBar,
    profile: &'a Profile,
    /// Whether they are printed. JSON is printed in the end.
    prints: bool,
}

impl Progress<'_> {
    fn print(&self, line: String) {
        if self.prints {
            self.bar.suspend(|| println!("{line}"));
        }
    }

    /// Prints what comes before the rows.
    fn begin(&self, live_peak_bytes: usize, base_ns: u64, reducing: Option<(Machines, u64)>) {
        self.bar.inc(1);
        let props = &self.profile.props;
        self.print(format!(
            "{} ({}): a step takes {} with all memory, {} at once.",
            props.name,
            size(props.device_bytes),
            ms(base_ns),
            size(live_peak_bytes)
        ));
        if let Some((Machines { count, .. }, ns)) = reducing {
            self.print(format!(
                "{count} machines learn from {count} times as much in a step, and reduce their gradients in {} of it.",
                ms(ns)
            ));
        }
        self.print(row(
            ["budget", "time", "times as long", "no schedule below", "limited by", ""].map(String::from)
        ));
        self.print(format!("|-{0:-<10}-|-{0:-<12}-|-{0:-<13}-|-{0:-<17}-|-{0:-<10}-|-{0:-<11}-|", ""));
    }

    fn point(&self, point: &GridPoint, base_ns: u64) {
        self.bar.inc(1);
        let ratio = |ns: Option<u64>| {
            ns.map_or("-".to_string(), |ns| format!("{:.3}", ns as f64 / base_ns.max(1) as f64))
        };
        self.print(row([
            size(point.budget_bytes),
            point.step_ns.map_or("does not fit".to_string(), ms),
            ratio(point.step_ns),
            ratio(point.bound_ns),
            point.limited_by.unwrap_or("-").into(),
            if point.budget_bytes == own_bytes(self.profile) { "this device" } else { "" }.into(),
        ]));
    }

    /// Prints what comes after the rows, and puts the largest budget first.
    fn end(&self, mut points: Vec<GridPoint>) -> Vec<GridPoint> {
        self.print(String::new());
        points.reverse();
        points
    }
}

/// A row of the table, whose columns are as wide as they may have to be: later rows are not known.
fn row([budget, time, ratio, bound, limit, own]: [String; 6]) -> String {
    format!("| {budget:>10} | {time:>12} | {ratio:>13} | {bound:>17} | {limit:<10} | {own:<11} |")
}

fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).to_string()
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

/// Where plans are kept: in a folder, or in a temporary one that goes with the first value.
fn plans(folder: Option<&Path>) -> Result<(Option<TempDir>, PlanCache)> {
    let temporary = if folder.is_none() { Some(tempfile::tempdir()?) } else { None };
    let folder = folder.or(temporary.as_ref().map(TempDir::path)).expect("one of the two");
    let cache = PlanCache::Folder(folder.into());
    Ok((temporary, cache))
}

/// A trace, replayed.
fn of_trace(options: &Options, path: &Path, progress: &Progress) -> Result<Vec<GridPoint>> {
    let profile = progress.profile;
    let program = Program::open(path)?;
    ensure!(program.ops() > 0, "{}: there are no ops in it", path.display());
    let replay = if program.loops {
        Replay::new(&program, profile.clone(), ITERATIONS)?
    } else {
        warn_of_few_steps(&program);
        Replay::of_last_iteration(&program, profile.clone())?
    };
    let (live_peak_bytes, base_ns) = (replay.live_peak_bytes(), replay.base_ns());
    progress.begin(live_peak_bytes, base_ns, None);
    let mut points = Vec::new();
    let (_temporary, plan_cache) = plans(None)?;
    let tunables = options.tunables(program.ops());
    for budget_bytes in budgets(options, profile, live_peak_bytes) {
        let plan_cache = Some(plan_cache.clone());
        let outcome = replay.run(&Settings { plan_cache, tunables, ..Settings::new(budget_bytes) })?;
        let bound_ns = outcome.bound.map(|bound| (bound * base_ns as f64) as u64);
        let point = GridPoint::new(&profile.key, budget_bytes, outcome.step_ns, bound_ns);
        progress.point(&point, base_ns);
        points.push(point);
    }
    Ok(progress.end(points))
}

/// Says so if a trace is too short for a plan of its last step.
fn warn_of_few_steps(program: &Program) {
    match program.iterations().map(|found| found.count(program.ops())) {
        Some(steps) if steps < STEPS => {
            eprintln!(
                "{steps} steps of the trace are alike, too few for a plan of the last: record {} or more",
                STEPS + 1
            )
        }
        Some(_) => {}
        None => eprintln!("nothing repeats in the trace: the times are those of all of it"),
    }
}

/// A network, trained on the simulated device.
fn of_network(options: &Options, progress: &Progress) -> Result<Vec<GridPoint>> {
    let profile = progress.profile;
    let spec = &options.training.spec(&options.what)?;
    let mut boundless = profile.clone();
    (boundless.props.device_bytes, boundless.props.host_bytes) = (UNLIMITED_BYTES, UNLIMITED_BYTES);
    let host_bytes = options.host.map_or(UNLIMITED_BYTES, |host| host.of(profile.props.host_bytes));
    let config = |budget_bytes| {
        let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(host_bytes);
        let config = options.disk.iter().fold(config, |config, disk| config.disk(disk));
        options.peers.iter().fold(config, |config, peers| config.peers(&peers.of(profile)))
    };
    // The time of the last step, or nothing if memory does not suffice. On a device of its own, since Burn keeps what an abandoned
    // step holds.
    let train = |config: Config| -> Result<(OvercommitDevice, Result<LastStep>)> {
        let device = OvercommitDevice::Sim(SimProfile::add(boundless.clone()));
        configure(&device, config)?;
        let mut seen = Vec::new();
        let trained = options.training.train(spec, &device, STEPS, || seen.extend(stats(&device).ok()));
        Ok((device, trained.map(|()| LastStep::new(&seen[STEPS - 2], &seen[STEPS - 1]))))
    };
    let (device, step) = train(config(UNLIMITED_BYTES).record())?;
    let base_ns = step.with_context(|| format!("{} does not run on {}", options.what, profile.key))?.step_ns;
    let program = recording(&device)?.program().from_note(&format!("step {STEPS}"));
    let program = program.context("the recording tells where its steps begin")?.as_it_ran();
    // Not before: the recording would have these weights in it.
    let reducing = options.machines.map(|machines| {
        let parameters = parameter_count(&spec.network::<Autodiff<Overcommit>>(&device));
        (machines, machines.reducing_ns(parameters * size_of::<f32>()))
    });
    let replay = Replay::new(&program, profile.clone(), 1)?;
    let beside = options.peers.as_ref().map(|peers| Replay::new(&program, peers.beside_link(profile), 1));
    let beside = beside.transpose()?;
    let live_peak_bytes = replay.live_peak_bytes();
    progress.begin(live_peak_bytes, base_ns, reducing);
    let mut points = Vec::new();
    let (_temporary, plan_cache) = plans(options.keep.as_deref())?;
    let tunables = options.tunables(program.ops());
    for budget_bytes in budgets(options, profile, live_peak_bytes) {
        let (device, step) = train(config(budget_bytes).plan_cache(plan_cache.clone()).tunables(tunables))?;
        let step = match step {
            Err(error) if stats(&device)?.counters.out_of_memory == 0 => return Err(error),
            step => step.ok(),
        };
        let bound = beside.as_ref().unwrap_or(&replay).bound(&Settings::new(budget_bytes));
        // The replay waits for constants that the program has on the device already.
        let bound_ns = bound.map(|bound| ((bound * replay.base_ns() as f64) as u64).max(base_ns));
        let step = step.map(|step| step.with(reducing));
        let bound_ns = bound_ns.map(|ns| ns + reducing.map_or(0, |(_, ns)| ns));
        let mut point = GridPoint::new(&profile.key, budget_bytes, step.map(|step| step.step_ns), bound_ns);
        point.limited_by = step.map(|step| step.limited_by);
        point.peer_bytes = step.filter(|_| options.peers.is_some()).map(|step| step.peer_bytes);
        point.disk_bytes = step.filter(|_| options.disk.is_some()).map(|step| step.disk_bytes);
        progress.point(&point, base_ns);
        points.push(point);
    }
    Ok(progress.end(points))
}

/// The last step of a training.
#[derive(Clone, Copy)]
struct LastStep {
    step_ns: u64,
    /// What was busy for the largest part of it.
    limited_by: &'static str,
    /// How long that was busy.
    busiest_ns: u64,
    peer_bytes: usize,
    disk_bytes: usize,
}

impl LastStep {
    fn new(before: &Stats, after: &Stats) -> Self {
        let times = |stats: &Stats| stats.times.unwrap_or_default();
        let busy_ns = |lane: Lane| times(after).busy_ns[lane as usize] - times(before).busy_ns[lane as usize];
        let busiest = Lane::ALL.into_iter().rev().max_by_key(|&lane| busy_ns(lane)).unwrap_or(Lane::Compute);
        LastStep {
            step_ns: times(after).end_ns - times(before).end_ns,
            limited_by: match busiest {
                Lane::Compute => "compute",
                Lane::Offload | Lane::Fetch => "link",
                Lane::ToPeer | Lane::FromPeer => "peers",
                Lane::Spill | Lane::Load => "disk",
            },
            busiest_ns: busy_ns(busiest),
            peer_bytes: after.peak_peer_bytes,
            disk_bytes: after.peak_disk_bytes,
        }
    }

    /// The step, and then machines that reduce its gradients.
    fn with(self, reducing: Option<(Machines, u64)>) -> Self {
        let Some((_, ns)) = reducing else { return self };
        let limited_by = if ns > self.busiest_ns { "network" } else { self.limited_by };
        LastStep { step_ns: self.step_ns + ns, limited_by, ..self }
    }
}

fn tell_how_to_follow(host: Amount, folder: &Path) -> Result<()> {
    eprintln!(
        "On the device itself, a program of the same ops follows these plans with OVERCOMMIT_PLAN_CACHE={}, \
         OVERCOMMIT_HOST_LIMIT={} and one of these budgets as OVERCOMMIT_BUDGET.",
        std::path::absolute(folder)?.display(),
        host.of(0)
    );
    Ok(())
}
