//! Sequential traffic of the host engine's disk lanes, beside the best that `fio` finds.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use burn_overcommit::engine::host::{HostEngine, HostOptions};
use burn_overcommit::engine::{DiskTier, Engine, Lane, Span, Tier};
use serde_json::{Value, json};

/// Rounds, of which the fastest counts for both.
const ROUNDS: usize = 3;
/// The sizes of the storages that are moved.
const SIZES_MIB: [usize; 3] = [64, 8, 1];
/// Requests in flight that `fio` tries.
const DEPTHS: [usize; 3] = [8, 16, 32];

/// Bytes per second of writing and of reading storages of some size.
fn engine(folder: &Path, gib: usize, size_mib: usize) -> [f64; 2] {
    let (all_bytes, bytes) = (gib << 30, size_mib << 20);
    let engine = HostEngine::new(HostOptions::default());
    engine.open_disk(&DiskTier::new(folder, all_bytes)).expect("a folder with room");
    let host = engine.map(Tier::Host, 64 << 20).expect("host memory");
    let disk = engine.map(Tier::Disk, all_bytes).expect("room on the disk");
    let start = engine.bytes(host).expect("the host engine has data");
    // SAFETY: the slab is mapped, and no work is under way.
    unsafe { std::slice::from_raw_parts_mut(start, host.bytes) }.fill(0x5a);
    let mut best = [0f64; 2];
    // The first round makes the file's blocks.
    for round in 0..=ROUNDS {
        for (way, lane) in [Lane::Spill, Lane::Load].into_iter().enumerate() {
            let begin = Instant::now();
            for place in (0..all_bytes).step_by(bytes) {
                let memory = host.slice(place % host.bytes, bytes);
                let pair: [Span; 2] = [memory, disk.slice(place, bytes)];
                let [from, to] = if lane == Lane::Spill { pair } else { [pair[1], pair[0]] };
                // SAFETY: both spans are mapped, and the lane is the only one at work.
                unsafe { engine.copy(lane, from, to) }.expect("submitted");
            }
            engine.sync(engine.mark(lane)).expect("no error of the device");
            let rate = all_bytes as f64 / begin.elapsed().as_secs_f64();
            if round > 0 {
                best[way] = best[way].max(rate);
            }
        }
        assert_eq!(engine.failures(), []);
    }
    best
}

/// The same by `fio`, the best of some numbers of requests in flight; nothing where there is no `fio`.
fn fio(folder: &Path, gib: usize) -> Option<[f64; 2]> {
    let file = folder.join("fio.tmp");
    let rate = |way: &str, depth: usize| -> Option<f64> {
        let output = Command::new("fio")
            .args(["--name=tier", "--direct=1", "--bs=1M", "--ioengine=io_uring", "--output-format=json"])
            .arg(format!("--filename={}", file.display()))
            .args([format!("--rw={way}"), format!("--iodepth={depth}"), format!("--size={gib}G")])
            .output()
            .ok()?;
        let told: Value = serde_json::from_slice(&output.stdout).ok()?;
        told["jobs"][0][way]["bw_bytes"].as_f64()
    };
    let best = |way: &str| {
        let rates = (0..ROUNDS).flat_map(|_| DEPTHS).filter_map(|depth| rate(way, depth));
        rates.reduce(f64::max)
    };
    // The file is made by the first writes.
    rate("write", DEPTHS[0]);
    let found = best("write").zip(best("read")).map(|(written, read)| [written, read]);
    let _ = std::fs::remove_file(file);
    found
}

/// Measures and prints the traffic.
pub fn run(folder: &Path, gib: usize) -> Vec<Value> {
    let reference = fio(folder, gib);
    if reference.is_none() {
        println!("fio: not found, so that nothing is compared");
    }
    let mut cells = Vec::new();
    for size_mib in SIZES_MIB {
        let rates = engine(folder, gib, size_mib);
        for (way, name) in ["write", "read"].into_iter().enumerate() {
            let ratio = reference.map(|reference| rates[way] / reference[way]);
            let shown = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            println!("{name} {size_mib} MiB: {:.2} GB/s, {shown} of fio's", rates[way] / 1e9);
            cells.push(json!({
                "table": "traffic", "way": name, "storage": format!("{size_mib} MiB"),
                "engine_gbps": rates[way] / 1e9, "fio_gbps": reference.map(|reference| reference[way] / 1e9),
                "engine_to_fio_ratio": ratio,
            }));
        }
    }
    cells
}
