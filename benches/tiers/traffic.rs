//! Sequential traffic of the host engine's disk lanes, beside the best that `fio` finds.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use burn_overcommit::engine::host::{HostEngine, HostOptions};
use burn_overcommit::engine::{DiskTier, Engine, Lane, Span, Tier};
use serde_json::{Value, json};

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// The sizes of the storages that are moved.
const SIZES_MIB: [usize; 3] = [64, 8, 1];
/// Requests in flight that `fio` tries.
const DEPTHS: [usize; 3] = [8, 16, 32];

/// The engine, and memory of its host and disk tiers.
struct Lanes {
    engine: HostEngine,
    host: Span,
    disk: Span,
}

impl Lanes {
    fn new(folder: &Path, gib: usize) -> Self {
        let engine = HostEngine::new(HostOptions::default());
        engine.open_disk(&DiskTier::new(folder, gib << 30)).expect("a folder with room");
        let host = engine.map(Tier::Host, 64 << 20).expect("host memory");
        let disk = engine.map(Tier::Disk, gib << 30).expect("room on the disk");
        let start = engine.bytes(host).expect("the host engine has data");
        // SAFETY: the slab is mapped, and no work is under way.
        unsafe { std::slice::from_raw_parts_mut(start, host.bytes) }.fill(0x5a);
        Lanes { engine, host, disk }
    }

    /// Bytes per second of a lane that moves storages of some size.
    fn rate(&self, lane: Lane, size_mib: usize) -> f64 {
        let Lanes { engine, host, disk } = self;
        let bytes = size_mib << 20;
        let begin = Instant::now();
        for place in (0..disk.bytes).step_by(bytes) {
            let (memory, file) = (host.slice(place % host.bytes, bytes), disk.slice(place, bytes));
            let [from, to] = if lane == Lane::Spill { [memory, file] } else { [file, memory] };
            // SAFETY: both spans are mapped, and the lane is the only one at work.
            unsafe { engine.copy(lane, from, to) }.expect("submitted");
        }
        engine.sync(engine.mark(lane)).expect("no error of the device");
        assert_eq!(engine.failures(), []);
        disk.bytes as f64 / begin.elapsed().as_secs_f64()
    }
}

/// Bytes per second by `fio` with so many requests in flight; nothing where there is no `fio`.
fn fio(file: &Path, gib: usize, way: &str, depth: usize) -> Option<f64> {
    let output = Command::new("fio")
        .args(["--name=tier", "--direct=1", "--bs=1M", "--ioengine=io_uring", "--output-format=json"])
        .arg(format!("--filename={}", file.display()))
        .args([format!("--rw={way}"), format!("--iodepth={depth}"), format!("--size={gib}G")])
        .output()
        .ok()?;
    let told: Value = serde_json::from_slice(&output.stdout).ok()?;
    told["jobs"][0][way]["bw_bytes"].as_f64()
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Measures and prints the traffic, of both by turns, since the speed of a disk that others share changes.
pub fn run(folder: &Path, gib: usize) -> Vec<Value> {
    let (lanes, file) = (Lanes::new(folder, gib), folder.join("fio.tmp"));
    // The first writes make the files' blocks.
    lanes.rate(Lane::Spill, SIZES_MIB[0]);
    if fio(&file, gib, "write", DEPTHS[0]).is_none() {
        println!("fio was not found, so that nothing is compared");
    }
    let mut cells = Vec::new();
    for (lane, way) in [(Lane::Spill, "write"), (Lane::Load, "read")] {
        let (mut of_fio, mut of_lanes) = ([[0.0; ROUNDS]; DEPTHS.len()], [[0.0; ROUNDS]; SIZES_MIB.len()]);
        for round in 0..ROUNDS {
            for (rates, depth) in of_fio.iter_mut().zip(DEPTHS) {
                rates[round] = fio(&file, gib, way, depth).unwrap_or(0.0);
            }
            for (rates, size_mib) in of_lanes.iter_mut().zip(SIZES_MIB) {
                rates[round] = lanes.rate(lane, size_mib);
            }
        }
        let best = of_fio.iter_mut().map(|rates| median(rates)).fold(0.0, f64::max);
        for (rates, size_mib) in of_lanes.iter_mut().zip(SIZES_MIB) {
            let rate = median(rates);
            let ratio = (best > 0.0).then(|| rate / best);
            let shown = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            println!("{way} {size_mib} MiB: {:.2} GB/s, {shown} of fio's", rate / 1e9);
            cells.push(json!({
                "table": "traffic", "way": way, "storage": format!("{size_mib} MiB"),
                "engine_gbps": rate / 1e9, "fio_gbps": ratio.map(|_| best / 1e9), "engine_to_fio_ratio": ratio,
            }));
        }
    }
    let _ = std::fs::remove_file(file);
    cells
}
