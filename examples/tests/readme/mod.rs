//! The README shows what its commands print.
//!
//! `BOOK=write cargo test --release -p burn-overcommit-examples --test run readme -- --include-ignored` writes it anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

/// The part of the README that is shown of a program's output, and the arguments that it is run with.
fn shown(text: &str, program: &str) -> (String, Vec<String>) {
    let command = format!("cargo run --release -p burn-overcommit-examples --bin {program}");
    let (_, rest) = text.split_once(&command).unwrap_or_else(|| panic!("the README does not run {program}"));
    let (arguments, rest) = rest.split_once("\n```").expect("a listing ends");
    let (_, rest) = rest.split_once("```text\n").expect("output follows");
    let (block, _) = rest.split_once("```").expect("a listing ends");
    let arguments = arguments.split_whitespace().filter(|&word| word != "--").map(String::from).collect();
    (block.to_string(), arguments)
}

/// As many lines as there are in `block`, from the one on that begins with the same word.
fn printed(executable: &str, arguments: &[String], block: &str) -> String {
    let output = Command::new(executable)
        .args(arguments)
        .env("OVERCOMMIT_DEVICE", "host:0")
        .env("OVERCOMMIT_PLAN_CACHE", "off")
        .output()
        .expect("the program is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).expect("it prints text");
    let word = block.split_whitespace().next();
    let lines = output.lines().skip_while(|line| line.split_whitespace().next() != word);
    lines.take(block.lines().count()).map(|line| format!("{line}\n")).collect()
}

/// Holds the README to what a program prints, as far as `pinned` tells; or writes it there.
fn check(program: &str, executable: &str, quick: &[&str], pinned: impl Fn(&str) -> String) {
    let text = fs::read_to_string(readme()).expect("there is a README");
    let (block, mut arguments) = shown(&text, program);
    if std::env::var("BOOK").is_ok_and(|value| value == "write") {
        let printed = printed(executable, &arguments, &block);
        // Another test may have written its part meanwhile.
        let text = fs::read_to_string(readme()).expect("there is a README");
        return fs::write(readme(), text.replace(&block, &printed)).expect("it can be written");
    }
    arguments.extend(quick.iter().map(ToString::to_string));
    let [shown, printed] = [&block, &printed(executable, &arguments, &block)].map(|lines| pinned(lines));
    assert_eq!(shown, printed, "BOOK=write shows it");
}

#[test]
fn will_it_fit_prints_what_is_shown() {
    check("will_it_fit", env!("CARGO_BIN_EXE_will_it_fit"), &[], str::to_string);
}

/// Depth, need and budget. The other columns differ from run to run, and with the epochs.
#[test]
#[ignore = "long: four networks are trained"]
fn deeper_than_memory_needs_what_is_shown() {
    let columns =
        |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).take(3).collect::<Vec<_>>().join("  ");
    let pinned = |lines: &str| lines.lines().map(|line| columns(line.trim())).collect::<Vec<_>>().join("\n");
    check("deeper_than_memory", env!("CARGO_BIN_EXE_deeper_than_memory"), &["--epochs", "1"], pinned);
}
