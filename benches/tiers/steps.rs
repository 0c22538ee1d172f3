//! Steps of networks whose host tier ends early, on the simulation.

use std::sync::LazyLock;

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_overcommit::replay::{Replay, Settings};
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Planning, Profile, SimProfile, Stats, configure, note, recording,
    reset_stats, stats,
};
use burn_overcommit_networks::{by_name, training_step};
use serde_json::{Value, json};

type Training = Autodiff<Overcommit>;

/// A program is planned once two of its steps were alike, and the last one is measured.
const STEPS: usize = 6;
/// Memory that no network fills.
const BOUNDLESS_BYTES: usize = 1 << 50;
const GIB: f64 = (1u64 << 30) as f64;

/// A network with its device memory, host memory, and the speeds of a disk and of another device of the same size, if there are any.
struct Cell {
    network: &'static str,
    batch: usize,
    budget_bytes: usize,
    host_bytes: usize,
    disk_gbps: Option<f64>,
    peer_gbps: Option<f64>,
}

const RTX4090_BYTES: usize = 23_192_823_398;
/// PCIe 4.0 and NVLink 3, one way.
const PCIE_GBPS: f64 = 25.0;
const NVLINK_GBPS: f64 = 300.0;

const XL: Cell = Cell {
    network: "gpt2-xl",
    batch: 8,
    budget_bytes: RTX4090_BYTES,
    host_bytes: 4 << 30,
    disk_gbps: None,
    peer_gbps: None,
};
const LARGE: Cell = Cell { network: "gpt2-large", budget_bytes: 6 << 30, ..XL };

const CELLS: [Cell; 9] = [
    Cell { disk_gbps: Some(7.0), ..XL },
    Cell { host_bytes: BOUNDLESS_BYTES, ..XL },
    Cell { peer_gbps: Some(PCIE_GBPS), ..XL },
    Cell { host_bytes: BOUNDLESS_BYTES, peer_gbps: Some(NVLINK_GBPS), ..XL },
    Cell { disk_gbps: Some(7.0), ..LARGE },
    Cell { host_bytes: BOUNDLESS_BYTES, ..LARGE },
    Cell { peer_gbps: Some(PCIE_GBPS), ..LARGE },
    Cell { host_bytes: BOUNDLESS_BYTES, peer_gbps: Some(NVLINK_GBPS), ..LARGE },
    Cell {
        network: "resnet-152",
        batch: 128,
        budget_bytes: 6 << 30,
        host_bytes: 2 << 30,
        disk_gbps: Some(7.0),
        peer_gbps: None,
    },
];

/// An RTX 4090 whose memory is bounded by configurations alone. It is read once: later its key names devices that bounds were computed on.
static PROFILE: LazyLock<Profile> = LazyLock::new(|| {
    let mut profile = SimProfile::named("rtx4090").and_then(SimProfile::get).expect("a GPU of the table");
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
    profile
});

impl Cell {
    fn profile(&self) -> Profile {
        PROFILE.clone()
    }

    fn train(&self, config: Config) -> (OvercommitDevice, u64, Stats) {
        let device = OvercommitDevice::Sim(SimProfile::add(self.profile()));
        configure(&device, config.planning(Planning::Background)).expect("the device is new");
        let spec = by_name(self.network).expect("a network of the papers");
        let mut model = spec.network::<Training>(&device);
        let mut optimizer = AdamConfig::new().init();
        let seen = || stats(&device).expect("it is configured");
        let mut step_ns = 0;
        for step in 1..=STEPS {
            note(&device, &format!("step {step}")).expect("it is configured");
            reset_stats(&device).expect("it is configured");
            let begin_ns = seen().times.expect("it is simulated").end_ns;
            let sample = spec.sample(self.batch, &device);
            (model, _) = training_step(model, &mut optimizer, 1e-3, sample);
            step_ns = seen().times.expect("it is simulated").end_ns - begin_ns;
        }
        let seen = seen();
        drop(model);
        (device, step_ns, seen)
    }

    fn run(&self) -> Value {
        let free = Config::new().budget_bytes(BOUNDLESS_BYTES).host_limit_bytes(BOUNDLESS_BYTES).record();
        let (device, base_ns, _) = self.train(free);
        let program = recording(&device).expect("it records").program().from_note(&format!("step {STEPS}"));
        let program = program.expect("the steps are noted").as_it_ran();
        let bound_ns = self.bound_ns(&program).max(base_ns as f64);
        let limited = Config::new().budget_bytes(self.budget_bytes).host_limit_bytes(self.host_bytes);
        let limited = match self.disk_gbps {
            Some(gbps) => limited.disk(&format!(":{BOUNDLESS_BYTES}@{gbps}GB/s")),
            None => limited,
        };
        let limited = match self.peer_gbps {
            Some(gbps) => limited.peers(&format!("1:{RTX4090_BYTES}@{gbps}GB/s")),
            None => limited,
        };
        let (_, step_ns, seen) = self.train(limited);
        let ratio = step_ns as f64 / bound_ns;
        let gib = |bytes: usize| bytes as f64 / GIB;
        println!(
            "{} batch {}, {:.1} GiB and {}: {:.3} s, {ratio:.3} of the bound, {:.3} of unlimited; host {:.1} GiB, disk {:.1} GiB, peer {:.1} GiB; \
             per step offloaded {:.1}, fetched {:.1}, to the peer {:.1}, back {:.1}, written {:.1}, read {:.1} GiB",
            self.network,
            self.batch,
            gib(self.budget_bytes),
            self.tiers(),
            step_ns as f64 / 1e9,
            step_ns as f64 / base_ns as f64,
            gib(seen.peak_host_bytes),
            gib(seen.peak_disk_bytes),
            gib(seen.peak_peer_bytes),
            gib(seen.counters.offloaded_bytes as usize),
            gib(seen.counters.fetched_bytes as usize),
            gib(seen.counters.to_peers_bytes as usize),
            gib(seen.counters.from_peers_bytes as usize),
            gib(seen.counters.spilled_bytes as usize),
            gib(seen.counters.loaded_bytes as usize),
        );
        json!({
            "table": "steps", "network": format!("{}, batch {}", self.network, self.batch),
            "device": format!("{:.1} GiB", gib(self.budget_bytes)), "tiers": self.tiers(),
            "step_s": step_ns as f64 / 1e9, "step_to_bound_ratio": ratio,
            "step_to_unlimited_ratio": step_ns as f64 / base_ns as f64,
            "host_gib": gib(seen.peak_host_bytes), "peer_gib": gib(seen.peak_peer_bytes), "disk_gib": gib(seen.peak_disk_bytes),
            "written_gib": gib(seen.counters.spilled_bytes as usize), "read_gib": gib(seen.counters.loaded_bytes as usize),
        })
    }

    fn tiers(&self) -> String {
        let host = match self.host_bytes {
            BOUNDLESS_BYTES => "unlimited host".to_string(),
            bytes => format!("{} GiB of host", bytes >> 30),
        };
        let peer = self.peer_gbps.map(|gbps| format!(", a peer of {gbps} GB/s"));
        let disk = self.disk_gbps.map(|gbps| format!(", disk of {gbps} GB/s"));
        [Some(host), peer, disk].into_iter().flatten().collect()
    }

    /// What no schedule beats: the larger of two bounds. One takes the host tier to be as large as can be, and copies to go to it and to
    /// the other device at once; the other takes the host tier
    /// to be device memory, and all that is in neither to pass through the disk, or to be computed again.
    fn bound_ns(&self, program: &burn_overcommit::trace::Program) -> f64 {
        let bound_ns = |link_bytes_per_second: f64, budget_bytes: usize| {
            let mut profile = self.profile();
            profile.props = profile.props.with_link(link_bytes_per_second);
            let replay = Replay::new(program, profile, 1).expect("the program was recorded");
            replay.bound(&Settings::new(budget_bytes)).map_or(0.0, |bound| bound * replay.base_ns() as f64)
        };
        let beside_link = self.peer_gbps.map_or(0.0, |gbps| gbps * 1e9);
        let over_link_ns =
            bound_ns(self.profile().props.link_bytes_per_second() + beside_link, self.budget_bytes);
        let over_disk_ns =
            self.disk_gbps.map(|gbps| bound_ns(gbps * 1e9, self.budget_bytes + self.host_bytes));
        over_link_ns.max(over_disk_ns.unwrap_or(0.0))
    }
}

/// Trains and prints all cells.
pub fn run() -> Vec<Value> {
    CELLS.iter().map(Cell::run).collect()
}
