//! Recording a process from outside: with `OVERCOMMIT_TRACE` set, the first device that it uses is recorded, and the trace
//! is written when the process ends.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use super::registry;
use crate::OvercommitDevice;
use crate::config::Variable;
use crate::engine;
use crate::error::Error;

/// What is recorded, and where it goes.
static RECORDED: OnceLock<(OvercommitDevice, PathBuf)> = OnceLock::new();

/// Whether this device is the one to record.
///
/// # Errors
/// A file that cannot be written: better before a long run than after it.
pub(super) fn is_recorded(device: OvercommitDevice) -> Result<bool, Error> {
    if RECORDED.get().is_none()
        && let Some(path) = Variable::Trace.read::<PathBuf>()
    {
        let path = writable(path?)?;
        RECORDED.get_or_init(|| (device, path));
    }
    Ok(RECORDED.get().is_some_and(|(recorded, _)| *recorded == device))
}

/// The path from the root, since the process may be elsewhere when it ends; what is in the file stays.
fn writable(path: PathBuf) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(&path);
    let opened = absolute.and_then(|absolute| {
        OpenOptions::new().append(true).create(true).open(&absolute)?;
        Ok(absolute)
    });
    opened.map_err(|error: io::Error| {
        Variable::Trace.refuse(path.display().to_string(), format!("a file that can be written ({error})"))
    })
}

#[dtor::dtor(unsafe)]
fn save() {
    let Some((device, path)) = RECORDED.get() else { return };
    let result = registry::recording(device).map_err(|error| error.to_string());
    if let Err(error) = result.and_then(|recording| recording.save(path).map_err(|error| error.to_string())) {
        // Not `eprintln`, which panics where nobody listens any more.
        let _ = writeln!(io::stderr(), "{}: {error}", Variable::Trace.name());
        engine::fail_process();
    }
}
