//! Recording a process from outside: with `OVERCOMMIT_TRACE` set, the first device that it uses is recorded, and the trace
//! is written when the process ends.

use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::registry;
use crate::OvercommitDevice;
use crate::config::Variable;

/// What is recorded, and where it goes.
static RECORDED: OnceLock<(OvercommitDevice, PathBuf)> = OnceLock::new();

/// Whether this device is the one to record.
pub(super) fn is_recorded(device: OvercommitDevice) -> bool {
    let Some(Ok(path)) = Variable::Trace.read::<PathBuf>() else { return false };
    RECORDED.get_or_init(|| (device, path)).0 == device
}

#[dtor::dtor(unsafe)]
fn save() {
    let Some((device, path)) = RECORDED.get() else { return };
    let result = registry::recording(device).map_err(|error| error.to_string());
    if let Err(error) = result.and_then(|recording| recording.save(path).map_err(|error| error.to_string())) {
        // Not `eprintln`, which panics where nobody listens any more.
        let _ = writeln!(std::io::stderr(), "{}: {error}", Variable::Trace.name());
    }
}
