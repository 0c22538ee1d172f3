//! The architecture, held to: which room may import which.

use std::fs;
use std::path::{Path, PathBuf};

/// Each room of `src/`, and the rooms its files may name by `crate::`. Rooms not listed may import anything.
const ALLOWED: [(&str, &[&str]); 14] = [
    ("op", &["op"]),
    ("engine", &["engine", "op"]),
    ("codec", &["codec", "op"]),
    ("config", &["config", "engine", "op", "error", "OvercommitDevice"]),
    ("schedule", &["schedule", "engine", "op"]),
    ("policy", &["policy", "schedule", "config", "codec", "liveness", "op"]),
    ("liveness", &["liveness", "op"]),
    ("trace", &["trace", "engine", "op"]),
    (
        "pool",
        &[
            "pool",
            "liveness",
            "trace",
            "engine",
            "op",
            "policy",
            "schedule",
            "config",
            "error",
            "stats",
            "Stats",
            "OvercommitDevice",
        ],
    ),
    (
        "planner",
        &[
            "planner",
            "pool",
            "policy",
            "schedule",
            "liveness",
            "engine",
            "op",
            "config",
            "error",
            "OvercommitDevice",
        ],
    ),
    ("fusion", &["fusion", "pool", "config", "engine", "op", "error"]),
    (
        "runtime",
        &[
            "runtime",
            "fusion",
            "planner",
            "pool",
            "schedule",
            "trace",
            "engine",
            "op",
            "config",
            "error",
            "Stats",
            "OvercommitDevice",
        ],
    ),
    ("autodiff", &["autodiff", "backend", "runtime", "op", "OvercommitDevice"]),
    ("report", &["report", "replay", "trace", "engine", "op", "error"]),
];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let nested = |path: PathBuf| {
        if path.is_dir() { rust_files(&path) } else { vec![path] }
    };
    paths
        .flat_map(nested)
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The names after `crate::` in a file, `use` groups included; comments and doc comments apart.
fn rooms_named(source: &str) -> Vec<String> {
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = Vec::new();
    for (_, rest) in code.match_indices("crate::").map(|(at, found)| (at, &code[at + found.len()..])) {
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split_once('}').expect("a use group ends").0;
                found.extend(group.split(',').map(|item| name(item.trim())).filter(|name| !name.is_empty()));
            }
            None => found.push(name(rest)),
        }
    }
    found
}

#[test]
fn each_room_imports_only_what_is_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut checked = 0;
    for (room, allowed) in ALLOWED {
        for file in rust_files(&source.join(room)) {
            for name in rooms_named(&fs::read_to_string(&file).unwrap()) {
                assert!(allowed.contains(&name.as_str()), "{} imports crate::{name}", file.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "the test looked at hardly anything: {checked} imports");
}

#[test]
fn unsafe_code_lives_in_the_engines_and_in_submission() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in rust_files(&source) {
        let place = file.strip_prefix(&source).unwrap();
        if place.starts_with("engine") || place == Path::new("pool/submit.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found = code.filter(|line| line.contains("unsafe ")).count();
        assert_eq!(found, 0, "unsafe code in {}", place.display());
    }
}
