//! The program `overcommit`, from outside.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use burn_overcommit::{Overcommit, OvercommitDevice, SimProfile};
use serde_json::Value;

fn overcommit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_overcommit")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = overcommit(arguments);
    let parsed = serde_json::from_slice(&output.stdout);
    (output.status.code(), parsed.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr))))
}

/// Training steps of a small network, recorded into `folder`.
fn trace(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("trace.jsonl");
    let output = overcommit(&[
        "record",
        "--model",
        "resnet-18",
        "--side",
        "32",
        "--batch",
        "4",
        "--device",
        "v100",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    path
}

#[test]
fn a_recorded_network_is_replayed_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let path = path.to_str().unwrap();

    let (code, whole) = json(&["replay", path, "--device", "v100", "--json"]);
    assert_eq!((code, &whole["feasible"], &whole["overhead"]), (Some(0), &true.into(), &1.0.into()));
    let live_peak_bytes = whole["live_peak_bytes"].as_u64().unwrap();

    let (code, half) = json(&["replay", path, "--device", "v100", "--budget", "50%", "--json"]);
    assert_eq!(code, Some(0));
    assert_eq!(half["budget_bytes"], live_peak_bytes / 2);
    assert!(half["peak_bytes"].as_u64().unwrap() <= live_peak_bytes / 2);
    assert!(half["overhead"].as_f64().unwrap() > half["bound"].as_f64().unwrap());
    let keys = [
        "peak_bytes",
        "live_peak_bytes",
        "footprint_bytes",
        "base_ns",
        "step_ns",
        "overhead",
        "bound",
        "recomputed_ops",
        "offloaded_bytes",
        "fetched_bytes",
        "feasible",
    ];
    assert!(keys.iter().all(|key| half.get(key).is_some()), "{half}");

    let replay = |more: &[&str]| json(&[&["replay", path, "--json", "--budget", "60%"], more].concat()).1;
    let pinned = replay(&["--no-offload"]);
    assert_eq!((&pinned["offloaded_bytes"], &pinned["fetched_bytes"]), (&0.into(), &0.into()));
    assert_eq!(replay(&["--no-recompute"])["recomputed_ops"], 0);
    assert_eq!(replay(&["--oracle"])["oracle"], true);
    let [slow, fast] =
        ["1", "100"].map(|link| replay(&["--no-recompute", "--link-gbps", link])["step_ns"].as_u64());
    assert!(slow > fast);

    let (_, all) =
        json(&["compare", path, "--budgets", "100%,50%", "--policies", "auto,recompute", "--json"]);
    let named: Vec<_> =
        all["outcomes"].as_array().unwrap().iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(named, ["auto", "auto", "recompute", "recompute"]);
    let table = text(&overcommit(&["compare", path, "--budgets", "100%,50%"]).stdout);
    assert!(table.contains("tensor-cache") && table.contains("no schedule below"), "{table}");
}

#[test]
fn any_program_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (folder.path().join("inner.jsonl"), folder.path().join("outer.jsonl"));
    // The program that records a network is one that uses this backend.
    let output = overcommit(&[
        "record",
        "-o",
        outer.to_str().unwrap(),
        "--",
        env!("CARGO_BIN_EXE_overcommit"),
        "record",
        "--model",
        "lstm-small",
        "--batch",
        "1",
        "--length",
        "3",
        "--device",
        "host:0",
        "-o",
        inner.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let ops = |path: &PathBuf| burn_overcommit::trace::Program::open(path).unwrap().ops();
    assert!(ops(&inner) > 100);
    // The inner one has taken its recording already: what came after is in the outer one.
    assert!(outer.exists());
}

/// What the next test records.
#[test]
#[ignore = "a program that is recorded"]
fn a_program() {
    burn::tensor::Tensor::<Overcommit, 1>::ones([1000], &OvercommitDevice::default()).exp().into_data();
}

#[test]
fn a_recorded_program_has_the_settings_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let own = std::env::current_exe().unwrap();
    let settings = ["--device", "host:3", "--budget", "1MiB", "--policy", "recompute"];
    let program = ["--", own.to_str().unwrap(), "--exact", "cli::a_program", "--ignored"];
    let output =
        overcommit(&[&["record", "-o", path.to_str().unwrap()], &settings[..], &program[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let header = burn_overcommit::trace::Recording::open(&path).unwrap().header;
    assert!(header.device.starts_with("host:3"), "{header:?}");
    assert_eq!((header.budget_bytes, header.policy.as_str()), (1 << 20, "recompute"));
}

#[test]
fn what_cannot_be_done_is_told_by_text_and_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let path = path.to_str().unwrap();
    let refused = |arguments: &[&str]| {
        let output = overcommit(arguments);
        (output.status.code().unwrap(), text(&output.stderr))
    };
    let (code, outcome) = json(&["replay", path, "--budget", "100000", "--json"]);
    assert_eq!((code, &outcome["feasible"], &outcome["step_ns"]), (Some(3), &false.into(), &Value::Null));
    assert!(outcome["failure"].as_str().unwrap().contains("smallest budget for this op"));

    let (code, message) = refused(&["replay", "nowhere.jsonl"]);
    assert_eq!(code, 1);
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
    let (code, message) = refused(&["explain", "nowhere.jsonl"]);
    assert!(code == 1 && message.contains("No such file"), "{message}");
    let (code, message) = refused(&["plan", path, "--host", "8GiB"]);
    assert!(code == 1 && message.contains("--host is for networks"), "{message}");
    let log = folder.path().join("simrd.log");
    let constant = r#"{"INSTRUCTION":"CONSTANT","NAME":"a"}"#;
    std::fs::write(
        &log,
        format!("{constant}\n{{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"a\",\"MEMORY\":\"4\"}}\n"),
    )
    .unwrap();
    for command in ["explain", "report"] {
        let (code, message) = refused(&[command, log.to_str().unwrap()]);
        assert!(code == 1 && message.contains("not how it ran"), "{message}");
    }
    let half = std::fs::read_to_string(path).unwrap();
    let cut = folder.path().join("cut.jsonl");
    std::fs::write(&cut, &half[..half.len() / 2]).unwrap();
    let (code, message) = refused(&["replay", cut.to_str().unwrap()]);
    assert!(code == 1 && message.contains("cut.jsonl:"), "{message}");
    let (code, message) = refused(&["replay", path, "--budget", "lots"]);
    assert!(code == 2 && message.contains("expected bytes such as 8 GiB"), "{message}");
    let (code, message) = refused(&["replay", path, "--device", "gtx"]);
    assert!(code == 1 && message.contains("expected one of sim:k40c"), "{message}");
    let (code, message) = refused(&["replay", path, "--policy", "best"]);
    assert!(code == 2 && message.contains("expected one of auto"), "{message}");
    let (code, message) = refused(&["record", "--model", "skynet", "-o", cut.to_str().unwrap()]);
    assert!(code == 1 && message.contains("unknown network"), "{message}");
    let (code, message) =
        refused(&["record", "--model", "lstm-small", "--budget", "1MiB", "-o", cut.to_str().unwrap()]);
    assert!(
        code == 1 && message.contains("out of device memory") && message.contains("(--budget)"),
        "{message}"
    );
    assert!(!message.contains("panicked") && !message.contains("Config::"), "{message}");
    let (code, message) = refused(&["record", "--model", "lstm-small", "--budget", "lots"]);
    assert!(code == 1 && message.contains("--budget: \"lots\" was given"), "{message}");
    for option in [["--steps", "3"], ["--batch", "3"]] {
        let (code, message) = refused(&[&["record"], &option[..], &["--", "true"]].concat());
        assert!(code == 2 && message.contains(option[0]), "{message}");
    }
    for output in ["--report", "--chrome", "--memory-viz"] {
        let (code, message) = refused(&["replay", path, output, "x.pdf"]);
        assert!(code == 2 && message.contains("expected a name that ends in"), "{message}");
    }
    let (code, message) = refused(&["record"]);
    assert!(code == 2 && message.contains("--model"), "{message}");
    let (code, message) = refused(&["record", "-o", cut.to_str().unwrap(), "--", "true"]);
    assert!(code == 1 && message.contains("did it use this backend?"), "{message}");
}

#[test]
fn runs_are_written_for_people_and_viewers() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let wrote = |arguments: &[&str], names: &[&str]| {
        let output = overcommit(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for name in names {
            assert!(std::fs::metadata(file(name)).unwrap().len() > 1000, "{name}");
        }
    };
    let (page, image, chrome, pickle, again) =
        (file("run.html"), file("run.svg"), file("run.json"), file("run.pickle"), file("run.jsonl"));
    let path = path.to_str().unwrap();
    let budget = ["replay", path, "--device", "v100", "--budget", "60%"];
    let outputs = ["--report", &page, "--chrome", &chrome, "--memory-viz", &pickle, "--trace", &again];
    wrote(&[&budget[..], &outputs].concat(), &["run.html", "run.json", "run.pickle", "run.jsonl"]);
    wrote(&["report", &again, "--report", &image], &["run.svg"]);
    wrote(&["report", path], &["trace.html"]);
    let (code, figures) = json(&["report", &again, "--json"]);
    assert_eq!((code, &figures["version"]), (Some(0), &1.into()));
    assert!(figures["decisions"]["drop"]["count"].as_u64() > Some(0), "{figures}");
    wrote(&["compare", path, "--budgets", "100%,60%", "--plot", &file("plot.svg")], &["plot.svg"]);
    assert!(std::fs::read_to_string(file("plot.svg")).unwrap().contains("no schedule below"));
    // The replay was recorded with all that was done for it.
    let recording = burn_overcommit::trace::Recording::open(&again).unwrap();
    assert!(recording.events.iter().any(|event| matches!(event, burn_overcommit::trace::Event::Evict(_))));
}

#[test]
fn a_run_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let path = path.to_str().unwrap();
    let (code, explained) = json(&["explain", path, "--device", "v100", "--budget", "60%", "--json"]);
    let leaving = explained["leaving"].as_array().unwrap();
    assert!(code == Some(0) && !leaving.is_empty(), "{explained}");
    let sum = |key: &str| leaving.iter().map(|group| group[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("recompute_ns"), explained["recompute_ns"].as_u64().unwrap());
    assert!(sum("wait_ns") <= explained["wait_ns"].as_u64().unwrap());
    assert_eq!(explained["others"].as_array().unwrap().len(), 2, "with more memory and with less");

    let output = overcommit(&["explain", path, "--budget", "60%"]);
    let words = text(&output.stdout);
    assert!(words.contains("No schedule takes less than") && words.contains("made by"), "{words}");
    // Without a budget, the program's memory is explained, and the recorded run: it had all memory.
    let (_, explained) = json(&["explain", path, "--json"]);
    let memory = &explained["memory"];
    let held = memory["groups"].as_array().unwrap().iter().map(|group| group["bytes"].as_u64().unwrap());
    assert!(memory["peak_bytes"].as_u64().is_some_and(|peak_bytes| peak_bytes <= held.sum()), "{memory}");
    let words = text(&overcommit(&["explain", path]).stdout);
    assert!(words.contains("Nothing leaves device memory"), "{words}");
    assert!(words.contains("The program holds at most") && words.contains("What would help"), "{words}");
}

#[test]
fn time_is_told_for_each_budget_and_plans_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (plot, plans) = (file("time.svg"), file("plans"));
    let network = ["plan", "resnet-18", "--side", "32", "--batch", "4", "--budgets", "60%", "--json"];
    let (code, points) = json(&[&network[..], &["--device", "v100,h100", "--grid", &plot]].concat());
    let points = points["points"].as_array().unwrap();
    assert_eq!((code, points.len()), (Some(0), 2));
    for point in points {
        let [step_ns, bound_ns] = ["step_ns", "bound_ns"].map(|key| point[key].as_u64().unwrap());
        assert!(step_ns >= bound_ns && bound_ns > 0, "{point}");
    }
    assert!(std::fs::read_to_string(plot).unwrap().contains("no schedule below"));

    // A budget in which it does not fit hinders no other, and is no panic.
    let small = ["plan", "resnet-18", "--side", "32", "--batch", "4", "--budgets", "1%,60%"];
    let output = overcommit(&small);
    assert!(text(&output.stdout).contains("does not fit"), "{}", text(&output.stdout));
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    let (code, points) = json(&[&small[..], &["--json"]].concat());
    let fits = points["points"].as_array().unwrap().iter().map(|point| point["step_ns"].is_u64());
    assert_eq!((code, fits.filter(|fits| *fits).count()), (Some(0), 1), "{points}");

    let (code, _) = json(&[&network[..], &["--device", "v100", "--keep", &plans, "--host", "8GiB"]].concat());
    assert_eq!((code, std::fs::read_dir(&plans).unwrap().count()), (Some(0), 1));

    let path = trace(&folder);
    let path = path.to_str().unwrap();
    assert_eq!(json(&["plan", path, "--budgets", "80%", "--json"]).0, Some(0));
    let output = overcommit(&["plan", path, "--budgets", "80%"]);
    assert!(text(&output.stderr).contains("nothing repeats"), "{}", text(&output.stderr));
    let output = overcommit(&["plan", path, "--keep", &plans, "--host", "8GiB"]);
    assert!(text(&output.stderr).contains("OVERCOMMIT_PLAN_CACHE"), "{}", text(&output.stderr));
}

#[test]
fn devices_and_help_are_told() {
    let (_, devices) = json(&["devices", "--json"]);
    assert!(devices["devices"].as_array().unwrap().iter().any(|device| device["key"] == "h200"));
    #[cfg(feature = "cuda")]
    {
        let (code, libraries) = json(&["info", "--json"]);
        let names = libraries["libraries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|library| library["library"].as_str().unwrap());
        assert_eq!((code, names.collect::<Vec<_>>()), (Some(0), vec!["cuda", "nvrtc", "cublasLt", "cudnn"]));
        assert!(overcommit(&["info"]).status.success());
    }
    for command in ["record", "replay", "compare", "plan", "explain", "report", "devices", "man"] {
        assert!(overcommit(&[command, "--help"]).status.success());
    }
    assert!(text(&overcommit(&["--help"]).stdout).contains("Examples:"));
}

#[test]
fn a_device_of_a_file_is_kept_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut props = SimProfile::named("v100").and_then(SimProfile::get).unwrap().props;
    props.offload_bytes_per_second = 7e9;
    let file = |name: &str| folder.path().join(name);
    for name in ["mine.json", "v100.json", "a b.json"] {
        std::fs::write(file(name), serde_json::to_string(&props).unwrap()).unwrap();
    }
    let here = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overcommit"));
        command.args(arguments).env("XDG_CONFIG_HOME", folder.path()).output().unwrap()
    };
    let add = |name: &str| here(&["devices", "--json", "--add", file(name).to_str().unwrap()]);
    let devices: Value = serde_json::from_slice(&add("mine.json").stdout).unwrap();
    let added = |devices: &Value| {
        let all = devices["devices"].as_array().unwrap();
        all.iter()
            .find(|device| device["key"] == "mine")
            .map(|device| device["offload_bytes_per_second"].clone())
    };
    assert_eq!(added(&devices), Some(7e9.into()));
    for (name, reason) in [
        ("v100.json", "is a device of the table"),
        ("a b.json", "names no device"),
        ("no.json", "No such file"),
    ] {
        let output = add(name);
        assert!(
            !output.status.success() && text(&output.stderr).contains(reason),
            "{}",
            text(&output.stderr)
        );
    }
    // Every program of this user finds it.
    let path = trace(&folder);
    let replay = here(&["replay", path.to_str().unwrap(), "--device", "mine", "--json"]);
    assert!(replay.status.success(), "{}", text(&replay.stderr));
    assert!(!overcommit(&["replay", path.to_str().unwrap(), "--device", "mine"]).status.success());
}

#[cfg(unix)]
#[test]
fn a_server_is_a_program_of_a_face() {
    // Faces may have been built into the folder of the program, where it looks for them.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("overcommit");
    std::fs::copy(env!("CARGO_BIN_EXE_overcommit"), &program).unwrap();
    for arguments in [["serve", "--burn=0.22", "--clients", "2"], ["serve", "--clients", "2", "--burn=0.22"]]
    {
        let output = Command::new(&program).args(arguments).env("PATH", "").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("cargo install --path faces/burn-0.22"),
            "{}",
            text(&output.stderr)
        );
    }
    assert_eq!(overcommit(&["serve", "--burn", "0.21"]).status.code(), Some(2));
}

/// The names of all values in a JSON value.
fn keys(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(object) => {
            object.iter().flat_map(|(key, value)| keys(value).into_iter().chain([key.clone()])).collect()
        }
        Value::Array(list) => list.iter().flat_map(keys).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn json_has_a_version_and_the_keys_that_the_book_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let path = path.to_str().unwrap();
    let budget = ["--budget", "60%"];
    let mut commands = vec![
        vec!["devices"],
        vec!["report", path],
        vec!["explain", path],
        vec!["plan", path, "--budgets", "60%"],
        vec!["compare", path, "--policies", "auto", "--budgets", "60%"],
    ];
    commands.extend(["replay", "explain"].map(|command| [&[command, path], &budget[..]].concat()));
    #[cfg(feature = "cuda")]
    commands.push(vec!["info"]);
    let page = include_str!("../../docs/book/src/json.md");
    for command in commands {
        let (_, printed) = json(&[&command[..], &["--json"]].concat());
        assert_eq!(printed["version"], 1, "{command:?}");
        let keys = keys(&printed);
        let missing: Vec<_> = keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "{command:?}: {missing:?}");
    }
}

#[test]
fn lines_are_as_wide_as_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(&folder);
    let path = path.to_str().unwrap();
    for arguments in [&["devices"][..], &["explain", path], &["explain", path, "--budget", "50%"]] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_overcommit"));
        let printed = text(&program.args(arguments).env("COLUMNS", "80").output().unwrap().stdout);
        // What NVIDIA's libraries are missing for is prose.
        let printed = printed.split("\nFor cuda:N").next().unwrap();
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| (60..=80).contains(&widest)), "{widest:?}\n{printed}");
    }
}

#[test]
fn shells_and_man_know_the_commands() {
    let script = text(&overcommit(&["completions", "bash"]).stdout);
    assert!(script.contains("--page-mapping") && script.contains("complete "), "{script}");
    let folder = tempfile::tempdir().unwrap();
    assert!(overcommit(&["man", folder.path().to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(folder.path().join("overcommit-record.1")).unwrap();
    assert!(page.contains("budget") && folder.path().join("overcommit.1").exists());
    assert!(text(&overcommit(&["--version"]).stdout).starts_with("overcommit "));
}
