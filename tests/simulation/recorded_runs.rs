//! Runs whose every event is known by its hash: whatever moves, renames or splits code changes none of them.
//!
//! `RECORDED_RUNS=write cargo test --release --all-features --test simulation recorded_runs` makes today's events the expected ones, where a
//! change is meant to change decisions.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use burn::backend::Autodiff;
use burn::optim::SgdConfig;
use burn_overcommit::replay::{Replay, Settings};
use burn_overcommit::trace::{Program, Recording};
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Policy, Profile, SimProfile, configure, recording,
};
use burn_overcommit_networks::{Spec, training_step};

/// Iterations of each run; of `auto` one, before it plans, which takes long. A small network is planned.
const ITERATIONS: usize = 3;

fn profile(key: &str) -> Profile {
    SimProfile::named(key).and_then(SimProfile::get).expect("a device of the table")
}

/// Two training steps of a network, with all the memory they ask for.
fn program(spec: &Spec, batch: usize) -> Program {
    let mut boundless = profile("v100");
    boundless.props.device_bytes = 1 << 46;
    let device = OvercommitDevice::Sim(SimProfile::add(boundless));
    configure(&device, Config::new().record()).unwrap();
    let mut network = spec.network::<Autodiff<Overcommit>>(&device);
    let mut optimizer = SgdConfig::new().init();
    for _ in 0..2 {
        network = training_step(network, &mut optimizer, 0.01, spec.sample(batch, &device)).0;
    }
    recording(&device).unwrap().program()
}

/// FNV-1a (Fowler, Noll, Vo) of all events as text.
fn hash(recording: &Recording) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for event in &recording.events {
        for byte in serde_json::to_string(event).expect("an event is text").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// The ways to evict that a policy is run with.
fn methods(policy: Policy) -> &'static [(bool, bool)] {
    match policy {
        Policy::Auto | Policy::Dtr => &[(true, true), (true, false), (false, true)],
        _ => &[(true, true)],
    }
}

/// The runs of a program on a device under every policy, by name.
fn runs_on(key: &str, program: &Program) -> BTreeMap<String, u64> {
    let mut runs = BTreeMap::new();
    for policy in Policy::ALL {
        let iterations = if policy == Policy::Auto { 1 } else { ITERATIONS };
        let replay = Replay::new(program, profile(key), iterations).unwrap();
        for percent in [70, 50, 30] {
            for &(offload, recompute) in methods(policy) {
                let budget_bytes = replay.live_peak_bytes() * percent / 100;
                let settings = Settings { policy, offload, recompute, ..Settings::new(budget_bytes) };
                let (_, recording) = replay.record(&settings).unwrap();
                let way = match (offload, recompute) {
                    (true, true) => "",
                    (true, false) => " offload",
                    _ => " recompute",
                };
                runs.insert(format!("{key} {policy}{way} {percent}%"), hash(&recording));
            }
        }
    }
    runs
}

/// The runs of a network's training on two devices.
fn check(name: &str, side: Option<usize>, length: Option<usize>) {
    let program = program(&Spec::named(name, side, length).unwrap(), 4);
    let runs = ["v100", "rtx4090"].into_iter().flat_map(|key| runs_on(key, &program));
    compare(name, &runs.collect());
}

/// Compares hashes with those of the fixture of this name, or makes them the fixture.
fn compare(name: &str, found: &BTreeMap<String, u64>) {
    let text: String = found.iter().map(|(run, hash)| format!("{hash:016x} {run}\n")).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../data/recorded_runs/{name}.txt"));
    if std::env::var("RECORDED_RUNS").as_deref() == Ok("write") {
        fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> =
        text.lines().filter(|line| !expected.lines().any(|other| other == *line)).collect();
    assert!(
        changed.is_empty(),
        "{} runs of {} are others:\n{}",
        changed.len(),
        found.len(),
        changed.join("\n")
    );
    assert_eq!(text.lines().count(), expected.lines().count(), "runs are missing");
}

#[test]
fn a_residual_networks_events_are_known() {
    check("resnet-50", Some(64), None);
}

#[test]
fn a_u_nets_events_are_known() {
    check("unet", Some(188), None);
}

#[test]
fn a_transformers_events_are_known() {
    check("gpt2-small", None, Some(64));
}

#[test]
fn a_recurrent_networks_events_are_known() {
    check("lstm-small", None, None);
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_planned_networks_events_are_known() {
    let program = program(&Spec::named("lstm-small", None, Some(6)).unwrap(), 1);
    let replay = Replay::new(&program, profile("v100"), 6).unwrap();
    let planned = |percent| {
        let settings = Settings::new(replay.live_peak_bytes() * percent / 100);
        let (_, recording) = replay.record(&settings).unwrap();
        (format!("v100 auto {percent}%"), hash(&recording))
    };
    compare("planned", &[60].into_iter().map(planned).collect());
}

/// `PUBLIC_TRACES` names the folder of the DTR simulator's logs, which this repository does not have.
#[test]
fn the_events_of_public_traces_are_known() {
    let Some(folder) = std::env::var_os("PUBLIC_TRACES").map(PathBuf::from) else {
        println!("PUBLIC_TRACES is not set: the public traces were not replayed");
        return;
    };
    for name in ["resnet32", "transformer", "treelstm", "unet"] {
        let program = Program::open(folder.join(name).with_extension("log")).unwrap();
        compare(&format!("trace-{name}"), &runs_on("titan-x", &program));
    }
}
