//! Compiles every kernel and reads its machine code, without a GPU: `scripts/check-sass` fetches NVIDIA's tools and runs this.
//!
//! What is counted, and how, is in `src/engine/cuda/sass.rs`.

mod budgets;
#[path = "../chosen.rs"]
mod chosen;
mod occupancy;
mod table;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread::available_parallelism;

use anyhow::{Context, Result, anyhow, bail};
use burn_overcommit::engine::cuda::sass;
use burn_overcommit::engine::cuda::{Cubin, cubins};
use clap::Parser;

use budgets::Budgets;
use chosen::Chosen;
use table::{Row, Sums};

/// The architecture whose table is kept.
const KEPT: u32 = 90;
const FOLDER: &str = "data/sass";

/// Compiles every kernel with NVRTC for some architectures, and holds its machine code against the budgets in `data/sass`.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    chosen: Chosen,
    /// The program that writes machine code as text; it takes `nvdisasm` beside itself or on the PATH.
    #[arg(long, default_value = "cuobjdump")]
    cuobjdump: PathBuf,
    /// Compute capabilities without their point.
    #[arg(long, value_delimiter = ',', default_value = "80,90", value_parser = occupancy::known)]
    architectures: Vec<u32>,
    /// Prints the figures of every kernel.
    #[arg(long)]
    table: bool,
    /// Makes today's figures the budgets, and keeps the table of sm_90; of all kernels and architectures.
    #[arg(long, conflicts_with_all = ["files", "sample", "architectures"])]
    write: bool,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let (rows, errors) = read_all(&options)?;
    errors.iter().for_each(|error| println!("{error}"));
    if options.write && errors.is_empty() {
        keep(&rows)?;
    }
    if options.table {
        print!("{}", table::csv(&rows));
    }
    let budgets = Budgets::parse(&fs::read_to_string(budgets_path()).unwrap_or_default())?;
    let mut all = Sums::default();
    for &architecture in &options.architectures {
        let mut sums = Sums::default();
        for row in rows.iter().filter(|row| row.architecture == architecture) {
            let exceeded = budgets.exceeded(row);
            sums.add(row, !exceeded.is_empty());
            exceeded.iter().for_each(|what| println!("{} for sm_{architecture}: {what}", row.kernel));
        }
        println!("sm_{architecture}: {sums}");
        all.merge(&sums);
    }
    println!("sass: {all}");
    let is_good = errors.is_empty() && all.over_budget == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn budgets_path() -> PathBuf {
    Path::new(FOLDER).join("budgets.csv")
}

/// The kernels' figures, sorted by name and architecture, and what went wrong.
fn read_all(options: &Options) -> Result<(Vec<Row>, Vec<String>)> {
    let Options { chosen, cuobjdump, architectures, .. } = options;
    let selection = chosen.selection(architectures);
    let threads = available_parallelism().map_or(1, usize::from);
    let found = Mutex::new((Vec::new(), Vec::new(), 0));
    let made = cubins(chosen.folder.as_deref(), &selection, threads, |cubin, units| {
        let read = cubin.map_err(|error| anyhow!(error)).and_then(|cubin| rows_of(&cubin, cuobjdump));
        let (rows, errors, done) = &mut *found.lock().expect("no other thread panicked");
        *done += 1;
        // A line for each tenth.
        if (*done - 1) * 10 / units != *done * 10 / units {
            eprintln!("{done} of {units} files for a type and an architecture");
        }
        match read {
            Ok(of_unit) => rows.extend(of_unit),
            Err(error) => errors.push(format!("{error:#}")),
        }
    });
    made.map_err(|error| anyhow!(error))?;
    let (mut rows, errors, _) = found.into_inner().expect("no thread panicked");
    rows.sort_by(|a: &Row, b: &Row| (&a.kernel, a.architecture).cmp(&(&b.kernel, b.architecture)));
    Ok((rows, errors))
}

fn rows_of(cubin: &Cubin, cuobjdump: &Path) -> Result<Vec<Row>> {
    let mut file = tempfile::NamedTempFile::with_suffix(".cubin")?;
    file.write_all(&cubin.image)?;
    let mut command = Command::new(cuobjdump);
    let output = command.args(["-res-usage", "-sass"]).arg(file.path()).output();
    let output = output.with_context(|| format!("{} cannot be run", cuobjdump.display()))?;
    if !output.status.success() {
        bail!("{}: {}", cuobjdump.display(), String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let named = |text: &str| cubin.kernels.iter().find(|kernel| kernel.to_string() == text);
    let mut figures = sass::read(&text, |name| named(name).map_or(1, |kernel| kernel.widest_bytes()));
    let rows = cubin.kernels.iter().map(|kernel| {
        let found = figures.remove(&kernel.to_string());
        let figures = found.with_context(|| format!("{} does not show {kernel}", cuobjdump.display()))?;
        Ok(Row::new(cubin.architecture, kernel, figures))
    });
    rows.collect()
}

/// Writes budgets and the table.
fn keep(rows: &[Row]) -> Result<()> {
    fs::create_dir_all(FOLDER)?;
    fs::write(budgets_path(), Budgets::of(rows).to_string())?;
    let kept: Vec<Row> = rows.iter().filter(|row| row.architecture == KEPT).cloned().collect();
    fs::write(Path::new(FOLDER).join(format!("sm_{KEPT}.csv")), table::csv(&kept))?;
    Ok(())
}
