//! Messages for users: to the [`log`] facade, or to standard error where no logger is set.

use std::collections::BTreeSet;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use log::{Level, LevelFilter};

/// The variable that names the most detailed messages that are wanted.
pub const LEVEL_VARIABLE: &str = "OVERCOMMIT_LOG";
/// The level unless one is set.
pub const DEFAULT_LEVEL: LevelFilter = LevelFilter::Warn;

/// Tells the user something that belongs to no device, if the environment asks for messages of this level.
pub fn tell(level: Level, message: Arguments) {
    tell_up_to(level_of_environment(), level, message);
}

/// Tells the user something, if messages of this level are wanted.
pub fn tell_up_to(wanted: LevelFilter, level: Level, message: Arguments) {
    if level <= wanted {
        deliver(level, message);
    }
}

/// Tells the user something that every program should show, unless not even warnings are wanted.
#[cfg(feature = "cuda")]
pub fn announce(level: Level, message: Arguments) {
    if level_of_environment() >= LevelFilter::Warn {
        deliver(level, message);
    }
}

/// Whether messages of this level that belong to no device are wanted.
#[cfg(feature = "cuda")]
pub fn is_wanted(level: Level) -> bool {
    level <= level_of_environment()
}

fn level_of_environment() -> LevelFilter {
    let level = std::env::var(LEVEL_VARIABLE).ok().and_then(|level| level.trim().parse().ok());
    level.unwrap_or(DEFAULT_LEVEL)
}

fn deliver(level: Level, message: Arguments) {
    // The facade's level is `Off` as long as no logger is set.
    if log::max_level() > LevelFilter::Off {
        log::log!(target: "burn_overcommit", level, "{message}");
    } else if is_new(message) {
        // Not `eprintln`, which panics if standard error is closed; and at once, so that lines of several processes stay whole.
        let _ = io::stderr().write_all(format!("burn-overcommit: {message}\n").as_bytes());
    }
}

/// Whether the message was not printed before.
fn is_new(message: Arguments) -> bool {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(message.to_string())
}
