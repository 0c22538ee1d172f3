//! A worker: hosts one device for one client.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;

use super::door::{Door, Limits};
use super::options::{Options, READY, Worker};
use crate::runtime::{free_bytes, stats};
use crate::{OvercommitDevice, Stats};

/// How often a worker looks whether memory is held for nobody, and how often in a row it may be.
const LOOK: Duration = Duration::from_secs(1);
const HELD_LOOKS: u32 = 3;

/// Serves by `host` until it is told to end.
pub(super) fn work<E: Error + Send + Sync + 'static>(
    options: &Options,
    host: impl FnOnce(Worker) -> Result<(), E>,
) -> Result<()> {
    end_with_supervisor()?;
    let token = read_token()?;
    let device = OvercommitDevice::default();
    // Starts the device, so that what is wrong with it is said now.
    let stats = stats(&device)?;
    refuse_too_many(options.clients, &stats)?;
    limit_memory(stats.budget_bytes + stats.host_limit_bytes + options.message_limit.as_u64() as usize)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().context("a worker's input is its socket")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let limits = Limits {
        connections: options.connections.into(),
        handshake: Duration::from_secs(options.handshake_limit.into()),
    };
    let door = Door::open(socket.into(), listener.local_addr()?, limits)?;
    let watch = move || end_where_memory_stays(device, &door);
    thread::Builder::new().name("held memory".into()).spawn(watch)?;
    println!("{READY}");
    io::stdout().flush()?;
    host(Worker { device, listener, token })?;
    Ok(())
}

/// The token, which the supervisor writes to where it reads what this process says: an environment or arguments are for all to see.
fn read_token() -> Result<String> {
    let mut supervisor = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut token = String::new();
    supervisor.read_to_string(&mut token).context("a worker is told a token")?;
    Ok(token)
}

/// Refuses more clients than there is memory for.
fn refuse_too_many(clients: u16, stats: &Stats) -> Result<()> {
    let [free_bytes, free_host_bytes] = free_bytes(&stats.device)?;
    let all = |bytes: usize| bytes.saturating_mul(clients.into());
    let size = |bytes: usize| ByteSize(bytes as u64);
    for (option, each_bytes, of, free_bytes) in [
        ("--budget", stats.budget_bytes, stats.device.to_string(), free_bytes),
        ("--host-limit", stats.host_limit_bytes, "the host".to_owned(), free_host_bytes),
    ] {
        if all(each_bytes) > free_bytes {
            bail!(
                "--clients {clients}: {option} gives each {}, together {}, and {of} has {} free; give each less, or serve fewer",
                size(each_bytes),
                size(all(each_bytes)),
                size(free_bytes)
            );
        }
    }
    Ok(())
}

/// Has allocations fail from so much more than now on, and this process end.
fn limit_memory(more_bytes: usize) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).context("VmData")?;
        let now_kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        let limit_bytes = (now_kib << 10).saturating_add(more_bytes as u64);
        let maximum = getrlimit(Resource::Data).maximum;
        let current = maximum.map_or(limit_bytes, |maximum| maximum.min(limit_bytes));
        setrlimit(Resource::Data, Rlimit { current: Some(current), maximum })?;
    }
    Ok(())
}

/// Ends this process once there is no session and memory is held all the same, as by a session that waits for a tensor that never
/// comes. The worker that takes over holds none.
fn end_where_memory_stays(device: OvercommitDevice, door: &Arc<Door>) {
    let mut held_looks = 0;
    loop {
        thread::sleep(LOOK);
        let is_held = door.sessions() == 0 && stats(&device).is_ok_and(|stats| stats.storages > 0);
        held_looks = if is_held { held_looks + 1 } else { 0 };
        if held_looks == HELD_LOOKS {
            eprintln!("overcommit serve: no client is connected, and memory is still held; this worker ends");
            std::process::exit(1);
        }
    }
}

/// Asks the kernel to end this process with its supervisor, and to take it first where the machine's memory runs out.
fn end_with_supervisor() -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};

        set_parent_process_death_signal(Some(Signal::TERM))?;
        if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "1000") {
            log::info!("this worker is as likely to be ended for lack of memory as any process: {error}");
        }
    }
    Ok(())
}
