//! How large a process is that trains on the host engine, whose device memory and host tier lie in the same memory: three networks
//! with all the memory that they need and with parts of it, where the host tier is left to the engine and where it may take what it
//! likes.
//!
//! Each run is a process of its own, since the most that a process ever held is counted once. The last line sums up.

mod cell;
#[path = "../support/results.rs"]
mod results;

use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use crate::cell::{Cell, HostTier, Measured, NETWORKS, When};
use crate::results::Output;

#[derive(Parser)]
struct Options {
    /// Steps of each run; the time is the median of the last third.
    #[arg(long, default_value_t = 12)]
    steps: usize,
    /// Only networks whose name contains this.
    #[arg(long, default_value = "")]
    network: String,
    /// Parts of the need that are budgets, in percent.
    #[arg(long, value_delimiter = ',', default_value = "50,25")]
    parts: Vec<usize>,
    /// Only these settings of the host tier.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "free,default")]
    host: Vec<HostTier>,
    /// When iterations are planned.
    #[arg(long, value_enum, default_value = "at-once")]
    planning: When,
    /// One run in this process: the budget in bytes. For the processes that this program starts.
    #[arg(long, hide = true)]
    budget_bytes: Option<usize>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs a cell in a process of its own.
fn measure(options: &Options, network: &str, budget_bytes: usize, host: HostTier) -> Measured {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().expect("no value is skipped").get_name().to_string()
    };
    let child = Command::new(std::env::current_exe().expect("a program has a path"))
        .args(["--network", network, "--steps", &options.steps.to_string()])
        .args(["--host", &name(&|| host.to_possible_value())])
        .args(["--planning", &name(&|| options.planning.to_possible_value())])
        .args(["--budget-bytes", &budget_bytes.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("a process can be started");
    let told = String::from_utf8_lossy(&child.stdout).into_owned();
    told.lines().last().and_then(Measured::read).unwrap_or_else(|| panic!("{network} told only: {told}"))
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn print(network: &str, share: &str, host: &str, measured: &Measured, free: &Measured) {
    println!(
        "| {network} | {share} | {host} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {} |",
        mib(measured.peak_device_bytes),
        mib(measured.peak_host_bytes),
        mib(measured.peak_device_bytes + measured.peak_host_bytes),
        mib(measured.most_resident_bytes),
        mib(measured.resident_bytes),
        mib(measured.proportional_bytes),
        measured.step_ms,
        measured.step_ms / free.step_ms,
        if measured.bits == free.bits { "yes" } else { "NO" },
    );
}

/// The figures of a run beside those of the run with all memory.
fn figures([network, budget, host]: [&str; 3], measured: &Measured, free: &Measured) -> Value {
    json!({
        "network": network,
        "budget": budget,
        "host_limit": host,
        "device_mib": mib(measured.peak_device_bytes),
        "host_mib": mib(measured.peak_host_bytes),
        "both_mib": mib(measured.peak_device_bytes + measured.peak_host_bytes),
        "resident_peak_mib": mib(measured.most_resident_bytes),
        "resident_mib": mib(measured.resident_bytes),
        "proportional_mib": mib(measured.proportional_bytes),
        "step_ms": measured.step_ms,
        "step_to_unlimited_ratio": measured.step_ms / free.step_ms,
        "bits": if measured.bits == free.bits { "same" } else { "different" },
    })
}

fn main() {
    let options = Options::parse();
    if let Some(budget_bytes) = options.budget_bytes {
        let network = NETWORKS.iter().find(|network| network.name == options.network);
        let network = *network.expect("this program names it");
        let (steps, host, planning) = (options.steps, options.host[0], options.planning);
        println!("{}", Cell { network, budget_bytes, host, planning, steps }.run());
        return;
    }
    println!(
        "| network | budget | host tier | device MiB | host MiB | both MiB | VmHWM MiB | VmRSS MiB | Pss MiB | ms a step | against unlimited | same bits |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let (mut least, mut most) = (f64::MAX, 0.0f64);
    let (mut same, mut cells) = (true, Vec::new());
    for network in NETWORKS.iter().filter(|network| network.name.contains(&options.network)) {
        let name = network.name;
        let free = measure(&options, name, usize::MAX, HostTier::Free);
        print(name, "unlimited", "", &free, &free);
        cells.push(figures([name, "unlimited", ""], &free, &free));
        for part in &options.parts {
            for &host in &options.host {
                let budget_bytes = free.peak_device_bytes / 100 * part;
                let measured = measure(&options, name, budget_bytes, host);
                let budget = format!("{part} %");
                print(name, &budget, host.words(), &measured, &free);
                cells.push(figures([name, &budget, host.words()], &measured, &free));
                same &= measured.bits == free.bits;
                if host == HostTier::Default {
                    let both_bytes = measured.peak_device_bytes + measured.peak_host_bytes;
                    let part = both_bytes as f64 / free.peak_device_bytes as f64;
                    (least, most) = (least.min(part), most.max(part));
                }
            }
        }
    }
    let bits = if same { "the same" } else { "DIFFERENT" };
    options.output.write(cells);
    println!("both tiers together, by default: {least:.2} to {most:.2} of unlimited; {bits} bits everywhere");
}
