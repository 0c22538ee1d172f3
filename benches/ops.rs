//! Every op of the table in `tests/ops`, in large: our backend beside burn-flex and burn-ndarray.
//!
//! The three take turns within a run, and the least time of each counts, so that what else the machine does touches all
//! alike. Every backend computes on rayon's global pool, as wide as the machine or `RAYON_NUM_THREADS`; the matrix
//! product of ndarray has threads of its own, at most four (`MATMUL_NUM_THREADS`). Set both to the same number.

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/ops/case.rs"]
#[macro_use]
mod case;
#[path = "../tests/ops/cases/mod.rs"]
mod cases;
#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/ops/host.rs"]
mod host;
#[path = "support/results.rs"]
mod results;
#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/ops/value.rs"]
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::time::{Duration, Instant};

use burn::backend::{Flex, NdArray};
use burn_backend::{Backend, DType};
use burn_overcommit::{Overcommit, OvercommitDevice};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::case::{Case, Extent, Form, Kind};
use crate::host::{Host, NATIVE};
use crate::results::Output;
use crate::value::Value;

/// Prepares a job for one backend; what it gives runs the job and gives the time it took.
type Start = fn(&Job) -> Box<dyn Fn() -> f64>;

/// Times of all ops, ours beside burn-flex's and burn-ndarray's.
#[derive(Parser)]
struct Options {
    /// Only the ops whose name contains this.
    #[arg(long, default_value = "")]
    filter: String,
    /// How long one op is timed, all backends together.
    #[arg(long, default_value_t = 300)]
    milliseconds: u64,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

const ROUNDS_LEAST: usize = 5;
const ROUNDS_MOST: usize = 300;
/// What takes less on the better backend copies nothing there, and its ratio says little.
const VIEW_SECONDS: f64 = 5e-6;

/// One case in one form, with inputs that all backends are given.
struct Job {
    name: String,
    case: usize,
    axis: usize,
    inputs: Vec<(Host, DType)>,
}

fn dtype(kind: Kind) -> DType {
    match kind {
        Kind::Float => DType::F32,
        Kind::Int => DType::I32,
        Kind::Bool => NATIVE,
    }
}

fn job(number: usize, case: &Case<Flex>, axis: usize) -> Option<Job> {
    let form = Form { shape: vec![1024, 1024], axis };
    let input = |(salt, input): (usize, &case::Input)| {
        let dtype = input.dtype(dtype(case.kind));
        Some((input.values(&case::large(input, &form)?, dtype, salt), dtype))
    };
    let inputs = case.inputs.iter().enumerate().map(input).collect::<Option<_>>()?;
    let name = if axis == 0 { case.name.to_string() } else { format!("{} along rows", case.name) };
    Some(Job { name, case: number, axis, inputs })
}

/// The jobs whose name contains the filter; their inputs are made when it is their turn.
fn jobs(filter: &str) -> Vec<impl Fn() -> Option<Job>> {
    let mut jobs = Vec::new();
    for (number, case) in cases::all::<Flex>().into_iter().enumerate() {
        let rows = case.inputs.iter().any(|input| matches!(input.extent, Extent::Rows));
        let has_shapes = case
            .inputs
            .iter()
            .all(|input| input.large.is_some() || !matches!(input.extent, Extent::Fixed(_)));
        if case.name.contains(filter) && has_shapes {
            jobs.extend((0..1 + usize::from(rows)).map(|axis| (number, axis)));
        }
    }
    jobs.into_iter().map(|(number, axis)| move || job(number, &cases::all()[number], axis)).collect()
}

/// A backend's turn: the seconds one run of a job takes, until its results are there.
fn contender<B: Backend>(job: &Job, device: B::Device) -> Box<dyn Fn() -> f64> {
    let run = cases::all::<B>()[job.case].run;
    let inputs: Vec<Value<B>> =
        job.inputs.iter().map(|(host, dtype)| Value::new(host, *dtype, &device)).collect();
    let axis = job.axis;
    Box::new(move || {
        let inputs = inputs.clone();
        B::sync(&device).expect("the device works");
        let start = Instant::now();
        let outputs = run(inputs, axis);
        B::sync(&device).expect("the device works");
        let seconds = start.elapsed().as_secs_f64();
        drop(outputs);
        seconds
    })
}

/// The least seconds of each backend; none for one that lacks the op.
fn times(job: &Job, budget: Duration) -> [Option<f64>; 3] {
    let start: [Start; 3] = [
        |job| contender::<Overcommit<f32, i32>>(job, OvercommitDevice::Host(0)),
        |job| contender::<Flex>(job, Default::default()),
        |job| contender::<NdArray<f32, i32>>(job, Default::default()),
    ];
    let contenders = start.map(|start| {
        let first = || {
            let turn = start(job);
            turn();
            turn
        };
        catch_unwind(AssertUnwindSafe(first)).ok()
    });
    let mut least = [f64::INFINITY; 3];
    let start = Instant::now();
    for round in 0..ROUNDS_MOST {
        if round >= ROUNDS_LEAST && start.elapsed() > budget {
            break;
        }
        for (least, turn) in least.iter_mut().zip(&contenders) {
            *least = turn.as_ref().map_or(*least, |turn| least.min(turn()));
        }
    }
    least.map(|seconds| seconds.is_finite().then_some(seconds))
}

struct Row {
    name: String,
    times: [Option<f64>; 3],
}

impl Row {
    /// The better of the other two.
    fn other(&self) -> Option<f64> {
        self.times[1..].iter().flatten().copied().reduce(f64::min)
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.times[0]? / self.other()?)
    }

    fn counts(&self) -> bool {
        self.other().is_some_and(|seconds| seconds >= VIEW_SECONDS)
    }
}

fn cell(seconds: Option<f64>) -> String {
    seconds.map_or("-".into(), |seconds| match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s => format!("{:.2} ms", s * 1e3),
    })
}

/// All rows, the worst first, and what they come to.
fn report(rows: &mut [Row]) {
    rows.sort_by(|a, b| b.ratio().unwrap_or(0.0).total_cmp(&a.ratio().unwrap_or(0.0)));
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!("{:width$} {:>11} {:>11} {:>11} {:>7}", "case", "ours", "flex", "ndarray", "ratio");
    for row in rows.iter() {
        let [ours, flex, ndarray] = row.times.map(cell);
        let ratio = row.ratio().map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let note = if row.counts() { "" } else { "  not counted" };
        println!("{:width$} {ours:>11} {flex:>11} {ndarray:>11} {ratio:>7}{note}", row.name);
    }
    let counted: Vec<_> =
        rows.iter().filter(|row| row.counts()).filter_map(|row| Some((row.ratio()?, &row.name))).collect();
    let Some((worst, name)) = counted.first() else { return println!("nothing to compare") };
    let mean = mean_ratio(rows, Row::other);
    let over = counted.iter().filter(|(ratio, _)| *ratio > 1.5).count();
    println!("geometric mean {mean:.2}, worst {name} {worst:.2}, over 1.5: {over} of {}", counted.len());
}

/// The geometric mean of our time over another's, of the ops that count.
fn mean_ratio(rows: &[Row], other: impl Fn(&Row) -> Option<f64>) -> f64 {
    let ratio = |row: &Row| Some((row.times[0]? / other(row)?).ln());
    let ratios: Vec<f64> = rows.iter().filter(|row| row.counts()).filter_map(ratio).collect();
    (ratios.iter().sum::<f64>() / ratios.len() as f64).exp()
}

/// What all ops come to, and the times of each.
fn figures(rows: &[Row]) -> Vec<serde_json::Value> {
    let means = [
        ("the faster of both", mean_ratio(rows, Row::other)),
        ("burn-flex", mean_ratio(rows, |row| row.times[1])),
        ("burn-ndarray", mean_ratio(rows, |row| row.times[2])),
    ];
    let summary = means.map(|(backend, ratio)| {
        let counted = rows.iter().filter(|row| row.counts()).count();
        json!({ "table": "All ops", "against": backend, "ops": counted, "geometric_mean_ratio": ratio })
    });
    let ops = rows.iter().map(|row| {
        let [ours, flex, ndarray] = row.times.map(|seconds| seconds.map(|seconds| seconds * 1e6));
        json!({
            "table": "Each op",
            "op": row.name,
            "overcommit_us": ours,
            "flex_us": flex,
            "ndarray_us": ndarray,
            "ratio": row.ratio().filter(|_| row.counts()),
        })
    });
    summary.into_iter().chain(ops).collect()
}

fn main() {
    let options = Options::parse();
    // A backend that lacks an op says so by a panic.
    set_hook(Box::new(|_| {}));
    let jobs = jobs(&options.filter);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {eta}").expect("a valid template");
    let progress = ProgressBar::new(jobs.len() as u64).with_style(style);
    let mut rows = Vec::new();
    for job in jobs.iter().filter_map(|job| job()) {
        progress.set_message(job.name.clone());
        let times = times(&job, Duration::from_millis(options.milliseconds));
        rows.push(Row { name: job.name, times });
        progress.inc(1);
    }
    progress.finish_and_clear();
    report(&mut rows);
    options.output.write(figures(&rows));
}
