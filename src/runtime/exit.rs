//! Recording a process without changing it: with `OVERCOMMIT_TRACE` set, the first device that the process uses is recorded,
//! and the trace is written when the process ends.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::OvercommitDevice;
use crate::config::Variable;
use crate::engine;
use crate::error::Error;
use crate::trace::Recording;

/// Takes the recording of a device.
type TakeRecording = fn(&OvercommitDevice) -> Result<Recording, Error>;

/// The device that is recorded, how its recording is taken, and the file that it goes to.
static RECORDED: OnceLock<(OvercommitDevice, TakeRecording, PathBuf)> = OnceLock::new();

/// Whether this device is the one to record. If so, its recording is taken when the process ends.
///
/// # Errors
/// A file that cannot be written: it is better to hear of it before a long run than after it.
pub(super) fn is_recorded(device: OvercommitDevice, take: TakeRecording) -> Result<bool, Error> {
    if RECORDED.get().is_none()
        && let Some(path) = Variable::Trace.read::<PathBuf>()
    {
        let path = writable(path?)?;
        RECORDED.get_or_init(|| {
            // SAFETY: it does not unwind. It comes after the engine has opened NVIDIA's driver, since what is registered last runs
            // first, and the driver ends at the end of the process too.
            unsafe { dtor::at_module_exit(save) };
            (device, take, path)
        });
    }
    Ok(RECORDED.get().is_some_and(|(recorded, ..)| *recorded == device))
}

/// The absolute path, since the working directory may be another when the process ends. The file keeps its contents.
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

extern "C" fn save() {
    let Some((device, take, path)) = RECORDED.get() else { return };
    let result = take(device).map_err(|error| error.to_string());
    if let Err(error) = result.and_then(|recording| recording.save(path).map_err(|error| error.to_string())) {
        // Not `eprintln`, which panics if standard error is closed.
        let _ = writeln!(io::stderr(), "{}: {error}", Variable::Trace.name());
        engine::fail_process();
    }
}
