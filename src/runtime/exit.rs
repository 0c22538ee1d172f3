//! Recording a process without changing it: with `OVERCOMMIT_TRACE` set, the first device that the process uses is recorded. The
//! trace is written in blocks while the process runs and when it ends, so that a killed process leaves a trace up to its last block.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::device::Runtime;
use crate::OvercommitDevice;
use crate::config::Variable;
use crate::engine;
use crate::error::Error;
use crate::trace::{Recording, TraceError, TraceFile};

/// How often a block is written.
const BLOCK: Duration = Duration::from_millis(500);

/// The device that is recorded, and its trace.
static RECORDED: OnceLock<(OvercommitDevice, Mutex<ProcessTrace>)> = OnceLock::new();

/// The trace of a process.
struct ProcessTrace {
    path: PathBuf,
    /// The device at work, until the last block is written or one could not be.
    runtime: Weak<Runtime>,
    /// Whether blocks are written before the end. A program that records this device itself gets all that has happened.
    has_blocks: bool,
    /// The file, once it has a block.
    file: Option<TraceFile>,
    failure: Option<String>,
}

/// Whether this device is the one to record.
///
/// # Errors
/// A file that cannot be written: it is better to hear of it before a long run than after it.
pub(super) fn is_recorded(device: OvercommitDevice) -> Result<bool, Error> {
    if RECORDED.get().is_none()
        && let Some(path) = Variable::Trace.read::<PathBuf>()
    {
        let path = writable(path?)?;
        RECORDED.get_or_init(|| {
            let runtime = Weak::new();
            (device, Mutex::new(ProcessTrace { path, runtime, has_blocks: false, file: None, failure: None }))
        });
    }
    Ok(RECORDED.get().is_some_and(|(recorded, _)| *recorded == device))
}

/// Records the device from now on. A device that is configured anew begins its trace anew.
pub(super) fn record(runtime: &Arc<Runtime>, has_blocks: bool) {
    static STARTED: OnceLock<()> = OnceLock::new();
    let Some(mut trace) = process_trace() else { return };
    (trace.runtime, trace.has_blocks, trace.file) = (Arc::downgrade(runtime), has_blocks, None);
    STARTED.get_or_init(|| {
        // SAFETY: it does not unwind. It comes after the engine has opened NVIDIA's driver, since what is registered last runs
        // first, and the driver ends at the end of the process too.
        unsafe { dtor::at_module_exit(save) };
        let blocks = thread::Builder::new().name("overcommit-trace".into()).spawn(write_blocks);
        trace.failure = blocks.err().map(|error| error.to_string());
    });
}

fn process_trace() -> Option<MutexGuard<'static, ProcessTrace>> {
    let (_, trace) = RECORDED.get()?;
    Some(trace.lock().unwrap_or_else(PoisonError::into_inner))
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

impl ProcessTrace {
    /// Writes what a device has done since the last block. After a failure nothing more is written.
    fn write(&mut self, take: impl FnOnce(&Arc<Runtime>) -> Result<Recording, Error>) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        let written = take(&runtime).map_err(|error| error.to_string()).and_then(|recording| {
            self.append(&recording)
                .map_err(|reason| TraceError::File { path: self.path.clone(), reason }.to_string())
        });
        if let Err(error) = written {
            (self.runtime, self.failure) = (Weak::new(), Some(error));
        }
    }

    fn append(&mut self, recording: &Recording) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(TraceFile::create(&self.path, &recording.header)?),
        };
        file.append(&recording.events)
    }
}

fn write_blocks() {
    loop {
        thread::sleep(BLOCK);
        match process_trace() {
            Some(mut trace) if trace.has_blocks => trace.write(|runtime| runtime.recorded_so_far()),
            _ => {}
        }
    }
}

extern "C" fn save() {
    let Some(mut trace) = process_trace() else { return };
    trace.write(|runtime| runtime.recording());
    trace.runtime = Weak::new();
    if let Some(error) = &trace.failure {
        // Not `eprintln`, which panics if standard error is closed.
        let _ = writeln!(io::stderr(), "{}: {error}", Variable::Trace.name());
        engine::fail_process();
    }
}
