//! Every example runs to its end, with the checks that it makes itself.

mod readme;

use std::path::Path;
use std::process::Command;

/// Runs an example as `cargo test` has built it.
fn run(name: &str, arguments: &[&str]) {
    let programs =
        Path::new(env!("CARGO_BIN_EXE_deeper_than_memory")).parent().expect("a program is in a folder");
    let output = Command::new(programs.join("examples").join(name))
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}; build it first: cargo build --release --examples"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{told}", output.status);
}

macro_rules! examples {
    ($($name:ident $arguments:expr;)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), &$arguments);
        })*
    };
}

examples! {
    checkpoint_scope [];
    custom_loop [];
    fine_tune [];
    gan [];
    guide [];
    half_the_memory [];
    inference [];
    learner [];
    lstm ["--deeper", "4", "--steps", "3"];
    mnist [];
    several_models [];
    text_classification ["--deeper", "4", "--steps", "6"];
    text_generation ["--deeper", "4", "--steps", "6"];
    unet_segmentation ["--deeper", "4", "--steps", "3"];
}
