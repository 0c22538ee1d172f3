//! Recorded programs: what was recorded is what replays, and what is damaged says so.

use std::path::Path;

use burn::backend::Autodiff;
use burn::optim::SgdConfig;
use burn::tensor::Tensor;
use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
use burn_overcommit::trace::{Event, Program, Recording};
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Policy, Profile, SimProfile, Stats, configure, recording, stats,
};
use burn_overcommit_networks::{by_name, training_step};

use support::process::{child, is_child};

fn profile(key: &str) -> Profile {
    SimProfile::named(key).and_then(SimProfile::get).expect("the profile is in the table")
}

/// Two steps of a small residual network, and what they came to.
fn train(device: &OvercommitDevice, config: Config) -> (Stats, Recording) {
    configure(device, config.record()).unwrap();
    let spec = by_name("resnet-18").unwrap().with_side(32);
    let mut network = spec.network::<Autodiff<Overcommit>>(device);
    let mut optimizer = SgdConfig::new().init();
    for _ in 0..2 {
        let (trained, loss) = training_step(network, &mut optimizer, 0.01, spec.sample(2, device));
        network = trained;
        loss.into_data();
    }
    let recording = recording(device).unwrap();
    (stats(device).unwrap(), recording)
}

#[test]
fn a_replay_is_the_run_that_was_recorded() {
    for policy in [Policy::Auto, Policy::TensorCache, Policy::Recompute] {
        let budget_bytes = 60 << 20;
        let device = OvercommitDevice::Sim(SimProfile::add(profile("v100")));
        let (ran, recording) = train(&device, Config::new().budget_bytes(budget_bytes).policy(policy));
        assert!(ran.counters.evictions > 0, "{policy}: nothing was evicted");

        let program = recording.program();
        let replay = Replay::new(&program, profile("v100"), 1).unwrap();
        let settings = Settings { policy, ..Settings::new(budget_bytes) };
        let (outcome, again) = replay.record(&settings).unwrap();
        assert_eq!(outcome.peak_bytes, ran.peak_allocated_bytes);
        assert_eq!(outcome.footprint_bytes, ran.footprint_bytes);
        assert_eq!(outcome.step_ns, ran.times.map(|times| times.end_ns));
        assert_eq!(outcome.recomputed_ops, ran.counters.recomputed_ops);
        assert_eq!(outcome.offloaded_bytes, ran.counters.offloaded_bytes);
        assert_eq!(outcome.fetched_bytes, ran.counters.fetched_bytes);
        // Event by event, times and decisions included.
        assert_eq!(again.events.len(), recording.events.len());
        for (replayed, recorded) in again.events.iter().zip(&recording.events) {
            assert_eq!(replayed, recorded);
        }
    }
}

/// Less memory has fewer pages to map, which is no advantage in a loop: that maps them once.
#[test]
fn mapping_pages_counts_neither_with_all_memory_nor_with_less() {
    let device = OvercommitDevice::Sim(SimProfile::add(profile("v100")));
    let (_, recording) = train(&device, Config::new());
    let program = recording.program();
    let mut slow = profile("v100");
    slow.key = "v100-that-maps-slowly".into();
    (slow.props.host.map_call_ns, slow.props.host.map_page_ns) = (1_000_000, 1_000_000);
    let overhead = |profile| {
        let replay = Replay::new(&program, profile, 1).unwrap();
        let settings = Settings { page_mapping: Some(true), ..Settings::new(replay.live_peak_bytes() / 2) };
        replay.run(&settings).unwrap().overhead.unwrap()
    };
    assert_eq!(overhead(slow), overhead(profile("v100")));
    assert!(overhead(profile("v100")) >= 1.0);
}

#[test]
fn of_a_trace_with_many_steps_the_last_is_timed() {
    let spec = by_name("resnet-18").unwrap().with_side(32);
    let device = OvercommitDevice::Sim(SimProfile::add(profile("v100")));
    configure(&device, Config::new().record()).unwrap();
    let mut network = spec.network::<Autodiff<Overcommit>>(&device);
    let mut optimizer = SgdConfig::new().init();
    let mut ends_ns = Vec::new();
    for _ in 0..5 {
        network = training_step(network, &mut optimizer, 0.01, spec.sample(2, &device)).0;
        ends_ns.push(stats(&device).unwrap().times.unwrap().end_ns);
    }
    drop(network);
    let (base_ns, program) = (ends_ns[4] - ends_ns[3], recording(&device).unwrap().program());
    let found = program.iterations().expect("it repeats");
    assert_eq!(found.count(program.ops()), 4, "the first step is not like the others");

    let replay = Replay::of_last_iteration(&program, profile("v100")).unwrap();
    assert!(replay.base_ns().abs_diff(base_ns) < base_ns / 20, "{} {base_ns}", replay.base_ns());
    let budget_bytes = replay.live_peak_bytes() * 3 / 4;
    let outcome = replay.run(&Settings::new(budget_bytes)).unwrap();
    let whole = Replay::new(&program, profile("v100"), 1).unwrap().run(&Settings::new(budget_bytes)).unwrap();
    assert!(3 * outcome.step_ns.unwrap() < whole.step_ns.unwrap(), "{outcome:?}");
    assert!((0.9..=outcome.overhead.unwrap()).contains(&outcome.bound.unwrap()), "{outcome:?}");
}

#[test]
fn the_host_engine_tells_when_work_ran() {
    let (_, recording) = train(&OvercommitDevice::Host(70), Config::new().budget("60 MiB"));
    let mut ends_ns = [0; 3];
    let mut pieces = 0;
    for (lane, ran) in recording.events.iter().filter_map(Event::ran) {
        assert!(ran.begin_ns >= ends_ns[lane as usize] && ran.end_ns >= ran.begin_ns, "{ran:?} on {lane:?}");
        assert!(ran.end_ns > 0, "a piece without a time");
        ends_ns[lane as usize] = ran.end_ns;
        pieces += 1;
    }
    assert!(pieces > 500 && ends_ns.iter().all(|&end_ns| end_ns > 0), "{pieces} pieces, {ends_ns:?}");
}

#[test]
fn the_environment_records_a_process() {
    if is_child() {
        let device = OvercommitDevice::Host(3);
        Tensor::<Overcommit, 1>::ones([1000], &device).exp().into_data();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let child = child(module_path!(), "the_environment_records_a_process")
        .env("OVERCOMMIT_TRACE", &path)
        .output()
        .unwrap();
    assert!(child.status.success());
    let recording = Recording::open(&path).unwrap();
    assert!(recording.header.device.starts_with("host:3"), "{:?}", recording.header);
    let program = recording.program();
    assert_eq!(program.ops(), 2);
    assert!(matches!(program.events.last(), Some(Event::Free(_) | Event::Read(_))), "{:?}", program.events);
}

#[test]
fn a_process_that_is_killed_leaves_a_trace() {
    if is_child() {
        let compute =
            || drop(Tensor::<Overcommit, 1>::ones([1000], &OvercommitDevice::Host(3)).exp().into_data());
        let path = std::env::var_os("OVERCOMMIT_TRACE").unwrap();
        let mut blocks = 0;
        while blocks < 2 {
            compute();
            blocks = std::fs::read_to_string(&path).unwrap().matches("\"end\"").count();
        }
        // Nothing that is to run at the end of the process does.
        std::process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let child = recorded_child("a_process_that_is_killed_leaves_a_trace", &path);
    assert!(!child.status.success());
    let program = Recording::open(&path).unwrap().program();
    assert!(program.ops() > 2 && program.live_peak_bytes() >= 4000);
}

#[test]
fn a_recording_that_cannot_be_written_is_refused_at_once() {
    if is_child() {
        let device = OvercommitDevice::Host(3);
        println!("configure: {}", configure(&device, Config::new()).unwrap_err());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere/trace.jsonl");
    let child = recorded_child("a_recording_that_cannot_be_written_is_refused_at_once", &path);
    let text = String::from_utf8_lossy(&child.stdout);
    let expected = format!("configure: OVERCOMMIT_TRACE: \"{}\" was given; expected a file", path.display());
    assert!(child.status.success() && text.contains(&expected), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_recording_that_is_not_written_fails_the_process() {
    if is_child() {
        let device = OvercommitDevice::Host(3);
        Tensor::<Overcommit, 1>::ones([1000], &device).exp().into_data();
        return;
    }
    // It can be opened, and nothing can be written to it.
    let child = recorded_child("a_recording_that_is_not_written_fails_the_process", "/dev/full".as_ref());
    let (told, text) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(told.contains("1 passed"), "{told}");
    assert_eq!(child.status.code(), Some(1), "{text}");
    assert!(text.contains("OVERCOMMIT_TRACE: ") && text.contains("/dev/full"), "{text}");
}

/// Runs a test in a process of its own that is recorded.
fn recorded_child(test: &str, path: &std::path::Path) -> std::process::Output {
    child(module_path!(), test).env("OVERCOMMIT_TRACE", path).output().unwrap()
}

/// What the prototype of the DTR simulator might have written.
const LOG: &str = r#"{"INSTRUCTION":"CONSTANT","NAME":"before"}
{"INSTRUCTION":"MEMORY","MEMORY":"1000000","NAME":"before"}
{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":"1000","NAME":"w"}
{"DST":"v","INSTRUCTION":"COPY","SRC":"w"}
{"INSTRUCTION":"RELEASE","NAME":"w"}
{"INSTRUCTION":"RELEASE","NAME":"nobody"}
{"ARGS":["v"],"INSTRUCTION":"CALL","NAME":"mm","RESULT":["a","b"],"TIME":"500"}
{"INSTRUCTION":"MEMORY","MEMORY":"2000","NAME":"a"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"a"}
{"INSTRUCTION":"MEMORY","MEMORY":"300","NAME":"b"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"b"}
{"ARGS":["a"],"INSTRUCTION":"CALL","NAME":"view","RESULT":["c"],"TIME":"3"}
{"INSTRUCTION":"MEMORY","MEMORY":"2000","NAME":"c"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"c"}
{"INSTRUCTION":"RELEASE","NAME":"a"}
{"ANNOTATION":"BACKWARD","INSTRUCTION":"ANNOTATE"}
{"ARGS":["c","b"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"add_","TIME":"20"}
{"DST":"b","INSTRUCTION":"COPYFROM","SRC":"c"}
{"INSTRUCTION":"RELEASE","NAME":"c"}
{"INSTRUCTION":"RELEASE","NAME":"v"}
"#;

fn program(log: &str) -> Result<Program, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("simrd.log");
    std::fs::write(&path, log).unwrap();
    Program::open(&path).map_err(|error| error.to_string().replace(path.to_str().unwrap(), "log"))
}

#[test]
fn the_simulators_logs_mean_what_they_mean_there() {
    let program = program(LOG).unwrap();
    let told: Vec<String> = program
        .events
        .iter()
        .map(|event| match event {
            Event::Constant(made) => format!("constant {} {}", made.storage, made.bytes),
            Event::Op(op) => {
                let made: Vec<_> = op.outputs.iter().map(|made| (made.storage, made.bytes)).collect();
                format!("{} {:?} {made:?} {:?}", op.name, op.inputs, op.work.measured_ns)
            }
            Event::Free(storage) => format!("free {storage}"),
            Event::Note(text) => text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    // What came before the start does not count; `c` shares the storage of `a`, is changed into a new one, and then named
    // `b` too; the constant stays.
    let expected = [
        "start",
        "constant 0 1000",
        "mm [0] [(1, 2000), (2, 300)] Some(500)",
        "view [] [] Some(3)",
        "backward",
        "add_ [1, 2] [(3, 2000)] Some(20)",
        "free 1",
        "free 2",
    ];
    assert_eq!(told, expected);
    assert_eq!(program.live_peak_bytes(), 5300);
}

#[test]
fn a_loop_keeps_constants_and_replaces_what_is_left() {
    let program = program(LOG).unwrap();
    let replay = Replay::new(&program, profile("titan-x"), ITERATIONS).unwrap();
    let outcome = replay.run(&Settings::new(8192)).unwrap();
    // The constant (1024), what the iteration before left (2048) until its successor is there, and 2048 + 512 + 2048.
    assert_eq!((outcome.peak_bytes, outcome.feasible), (7680, true));
    assert_eq!((outcome.base_ns, outcome.step_ns, outcome.overhead), (523, Some(523), Some(1.0)));
    let first = Replay::new(&program, profile("titan-x"), 1).unwrap().run(&Settings::new(8192)).unwrap();
    assert_eq!(first.peak_bytes, 5632);

    // The largest op reads and makes 2048 + 512 + 2048.
    let tight = |budget_bytes| replay.run(&Settings::new(budget_bytes)).unwrap();
    assert!(tight(4608).feasible);
    let refused = tight(4607);
    assert!(!refused.feasible && refused.step_ns.is_none(), "{refused:?}");
    assert!(refused.failure.unwrap().contains("add_ needs"));
    // Without the host, the constant has nowhere to go.
    let pinned =
        |budget_bytes| replay.run(&Settings { offload: false, ..Settings::new(budget_bytes) }).unwrap();
    let kept = pinned(5632);
    assert!(kept.feasible && kept.offloaded_bytes == 0 && kept.fetched_bytes == 0, "{kept:?}");
    assert!(pinned(5631).failure.unwrap().contains("nothing that can be recomputed is left"));
}

#[test]
fn damaged_logs_are_told_by_line_and_reason() {
    let lines: Vec<&str> = LOG.lines().collect();
    let without = |left_out: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != left_out - 1);
        program(&kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")).unwrap_err()
    };
    let changed = |from: &str, to: &str| program(&LOG.replacen(from, to, 1)).unwrap_err();
    assert_eq!(without(5), "log:5: expected the MEMORY of w");
    assert_eq!(without(9), "log:9: a: there is no CONSTANT or CALL that this belongs to");
    assert_eq!(without(11), "log:11: expected the ALIAS of a");
    assert_eq!(without(6), "log:8: v is not defined");
    let cut = program(&lines[..9].join("\n")).unwrap_err();
    assert_eq!(cut, "log:9: the log was cut off after this line: there is nothing about a");
    assert!(program(&LOG[..LOG.len() - 9]).unwrap_err().starts_with("log:22: column"));
    assert_eq!(changed("\"TIME\":\"500\"", "\"TIME\":\"fast\""), "log:9: \"fast\" is no whole number");
    assert_eq!(changed("\"MEMORY\":\"2000\"", "\"MEMORY\":\"-1\""), "log:10: -1 is negative");
    let unknown = changed("\"COPYFROM\"", "\"SWAP\"");
    assert!(unknown.starts_with("log:20: column") && unknown.contains("unknown variant `SWAP`"), "{unknown}");
    let twice = changed("\"RESULT\":[\"a\",\"b\"]", "\"RESULT\":[\"v\",\"b\"]");
    assert_eq!(twice, "log:10: expected the MEMORY of v");
    let alias = changed("\"ALIAS\":\"0\"", "\"ALIAS\":\"1\"");
    assert_eq!(alias, "log:16: c is an alias of argument 1, and there are 1");
    assert_eq!(changed("\"MUTATE\":[0]", "\"MUTATE\":[2]"), "log:19: add_ changes argument 2, and has 2");
    let released = changed("\"SRC\":\"c\"", "\"SRC\":\"a\"");
    assert_eq!(released, "log:20: a was released before");
}

/// The log of eight tensors of a MiB, made one after the other and used in the same order, each for 256 bytes, in ops of 0.1 ms.
fn made_and_used() -> String {
    let call = |args: &str, result: &str, bytes: usize| {
        format!(
            "{{\"INSTRUCTION\":\"CALL\",\"NAME\":\"op\",\"ARGS\":[{args}],\"RESULT\":[\"{result}\"],\"TIME\":\"100000\"}}\n\
             {{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"{result}\",\"MEMORY\":\"{bytes}\"}}\n\
             {{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"{result}\",\"ALIAS\":\"-1\"}}\n"
        )
    };
    let made = (0..8).map(|index| call("", &format!("x{index}"), 1 << 20));
    made.chain((0..8).map(|index| call(&format!("\"x{index}\""), &format!("y{index}"), 256))).collect()
}

#[test]
fn copies_hide_what_lanes_have_time_for() {
    let program = program(&made_and_used()).unwrap();
    let bound_bytes = |link_bytes_per_second| {
        let mut profile = Profile { key: "copies_hide".to_string(), ..profile("titan-x") };
        profile.props = profile.props.with_link(link_bytes_per_second);
        Replay::new(&program, profile, 1).unwrap().offload_bound_bytes()
    };
    // All of it is there when the last op begins, 0.1 ms from the end; half a MiB is copied until then.
    let all_bytes = (8 << 20) + 8 * 256;
    assert_eq!(bound_bytes(1e4 * f64::from(1 << 19)), all_bytes - (1 << 19));
    assert_eq!(bound_bytes(1.0), all_bytes);
}

#[test]
fn knowing_the_program_beforehand_is_said_and_helps() {
    // The one used longest ago is used next.
    let program = program(&made_and_used()).unwrap();
    let replay = Replay::new(&program, profile("titan-x"), 1).unwrap();
    let run = |oracle| {
        let settings = Settings { oracle, recompute: false, ..Settings::new(6 << 20) };
        replay.run(&settings).unwrap()
    };
    let (blind, told) = (run(false), run(true));
    assert!(told.oracle && !blind.oracle);
    assert!(told.fetched_bytes < blind.fetched_bytes, "{} {}", told.fetched_bytes, blind.fetched_bytes);
}

#[test]
fn no_run_beats_the_bound() {
    let device = OvercommitDevice::Sim(SimProfile::add(profile("titan-x")));
    let (_, recording) = train(&device, Config::new());
    let program = recording.program();
    let replay = Replay::new(&program, profile("titan-x"), 1).unwrap();
    let mut looked = 0;
    for percent in [100, 80, 60, 40] {
        for (offload, recompute) in [(true, true), (true, false), (false, true)] {
            let budget_bytes = replay.live_peak_bytes() / 100 * percent;
            let settings = Settings { offload, recompute, ..Settings::new(budget_bytes) };
            let outcome = replay.run(&settings).unwrap();
            let Some(overhead) = outcome.overhead else { continue };
            let bound = outcome.bound.expect("what ran can run");
            assert!(bound > 0.9 && overhead >= bound - 1e-9, "{percent} % {overhead} < {bound}");
            looked += 1;
        }
    }
    assert!(looked >= 8, "only {looked} runs got to their end");
}

#[test]
fn a_bound_counts_no_wait_that_a_schedule_might_hide() {
    // With all memory too, each upload is waited for; so that time is more than its ops take.
    let device = OvercommitDevice::Sim(SimProfile::add(profile("titan-x")));
    configure(&device, Config::new().record()).unwrap();
    let upload = || {
        let data = burn::tensor::TensorData::new(vec![1.0f32; 1 << 20], [1 << 20]);
        Tensor::<Overcommit, 1>::from_data(data, &device).sin()
    };
    let kept: Vec<_> = (0..8).map(|_| upload()).collect();
    let program = recording(&device).unwrap().program();
    drop(kept);
    let replay = Replay::new(&program, profile("titan-x"), 1).unwrap();
    let bound = replay.bound(&Settings::new(replay.live_peak_bytes())).unwrap();
    assert!(bound > 0.0 && bound < 0.5, "{bound}");
}

/// The public logs, which are not part of this project: where they are is told by `DTR_LOGS`.
#[test]
fn the_public_logs_have_the_peaks_of_their_own_simulator() {
    let Some(folder) = std::env::var_os("DTR_LOGS") else {
        println!("skipped: set DTR_LOGS to the folder of the DTR simulator's logs");
        return;
    };
    for (name, peak_bytes) in [
        ("resnet32", 10_061_179_648),
        ("unet", 8_415_764_928),
        ("transformer", 9_864_405_384),
        ("treelstm", 170_173_608),
    ] {
        let program = Program::open(Path::new(&folder).join(name).with_extension("log")).unwrap();
        assert_eq!(program.live_peak_bytes(), peak_bytes, "{name}");
    }
}
