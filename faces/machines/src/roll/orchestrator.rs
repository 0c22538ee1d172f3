//! Burn's orchestrator, on a thread of its own, so that it can be ended: it keeps a connection and memory of every registration.

use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burn_collective::start_global_orchestrator;
use tokio::runtime;
use tokio::sync::oneshot;

/// How long it may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Orchestrator {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Orchestrator {
    /// Starts it, and returns once it listens.
    pub(super) fn start(port: u16) -> Result<Self, String> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("an event loop can be made").block_on(async {
                tokio::select! {
                    () = start_global_orchestrator(port) => (),
                    _ = stopped => (),
                }
            });
        };
        let thread = thread::Builder::new().name("orchestrator".into()).spawn(run);
        let thread = thread.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if thread.is_finished() || begun.elapsed() > START_LIMIT {
                return Err(format!("Burn's orchestrator cannot listen on port {port}: is it taken?"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Orchestrator { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Orchestrator {
    /// Ends it and all that it holds.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
