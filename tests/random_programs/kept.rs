//! The folder of kept plans: what may happen to it between two starts of a program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use burn_overcommit::runtime::{SEAL_BYTES, sealed};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::world::World;

/// Names the world that a process runs until it is killed, and the folder where it keeps plans.
const KILLED: &str = "RANDOM_KILLED";

/// Damages files: the end is cut off, some bits are others, or some bits are others and the hash is right again.
pub fn damage(folder: &Path, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("a folder that can be read").path()) {
        let mut bytes = fs::read(&path).expect("a file that was written");
        if bytes.len() <= SEAL_BYTES || random.random_bool(0.2) {
            bytes.truncate(bytes.len() / 2);
        } else {
            let is_forged = random.random_bool(0.7);
            let first = if is_forged { SEAL_BYTES } else { 0 };
            for _ in 0..random.random_range(1..5) {
                let place = random.random_range(first..bytes.len());
                bytes[place] ^= 1 << random.random_range(0..8);
            }
            if is_forged {
                bytes = sealed(&bytes[SEAL_BYTES..]);
            }
        }
        fs::write(&path, bytes).expect("a file that can be written");
    }
}

/// Runs a world in a process of its own, which is killed on its way; returns whether it was.
pub fn run_killed(world: &World, folder: &Path) -> bool {
    let choices: Vec<String> = world.path.iter().map(usize::to_string).collect();
    let world = format!("{} {} {}", world.seed, choices.join(","), folder.display());
    let program = std::env::current_exe().expect("a program knows its path");
    let arguments = ["worlds_of_every_setting_are_right", "--quiet"];
    let output = Command::new(program).args(arguments).env(KILLED, world).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() || output.status.code().is_none(), "before it was killed: {said}");
    !output.status.success()
}

/// The world that this process is to run until it is killed, if it is such a process, and the folder where it keeps plans.
pub fn is_to_be_killed() -> Option<(World, PathBuf)> {
    let text = std::env::var(KILLED).ok()?;
    let mut parts = text.splitn(3, ' ');
    let mut next = || parts.next().expect("a seed, choices and a folder");
    let seed = next().parse().expect("a seed");
    let path: Vec<usize> =
        next().split_terminator(',').map(|choice| choice.parse().expect("a choice")).collect();
    Some((World::reduced(seed, &path), PathBuf::from(next())))
}
