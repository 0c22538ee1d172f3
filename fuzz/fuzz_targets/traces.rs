//! Traces and logs of the DTR simulator from anyone: a reader refuses them, or they can be replayed and reported.

#![no_main]

use std::fs;
use std::io::sink;
use std::path::PathBuf;

use burn_overcommit::replay::{Replay, Settings};
use burn_overcommit::report::{
    MemoryUse, Report, write_chrome, write_html, write_memory_viz_json, write_memory_viz_pickle, write_svg,
};
use burn_overcommit::trace::{Program, Recording};
use burn_overcommit::{Planning, Policy, SimProfile};
use burn_overcommit_fuzz::let_refusals_pass;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: let_refusals_pass(|_| false), |data: &[u8]| {
    // Memory, so that files cost no time.
    let path = PathBuf::from(format!("/dev/shm/burn-overcommit-trace-{}", std::process::id()));
    fs::write(&path, data).expect("the folder can be written");
    if let Ok(recording) = Recording::open(&path) {
        report(&recording);
    }
    if let Ok(program) = Program::open(&path) {
        replay(&program);
    }
});

/// Writes everything that is made of a recording, to nowhere.
fn report(recording: &Recording) {
    let report = Report::new(recording, None).titled("fuzz");
    write_html(&report, sink()).expect("nowhere has room");
    write_svg(&report, sink()).expect("nowhere has room");
    write_chrome(recording, sink()).expect("nowhere has room");
    write_memory_viz_json(recording, sink()).expect("nowhere has room");
    write_memory_viz_pickle(recording, sink()).expect("nowhere has room");
    let _ = MemoryUse::of(&recording.program());
}

/// Replays a program, if it is short, under half the memory that it needs.
fn replay(program: &Program) {
    let profile = SimProfile::named("v100").and_then(SimProfile::get).expect("it is built in");
    if program.events.len() > 500 {
        return;
    }
    let Ok(replay) = Replay::new(program, profile, 2) else { return };
    for policy in [Policy::Auto, Policy::Dtr] {
        let budget_bytes = replay.live_peak_bytes() / 2;
        let settings = Settings { policy, planning: Some(Planning::Off), ..Settings::new(budget_bytes) };
        let _ = replay.run(&settings);
    }
}
