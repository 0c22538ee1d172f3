//! `overcommit serve`: devices for Burn's remote client, each client with a process and a budget of its own.
//!
//! One process supervises. Each client has an address, and behind it a worker: a process that hosts one device by the server of the
//! face's Burn. What a client does to its worker, other clients do not feel; a worker that ends is followed by another, which takes
//! over the listening socket, so that no connection is refused meanwhile.

use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Parser};

use crate::runtime::stats;
use crate::{OvercommitDevice, Variable};

/// The variable with what clients have to know.
const TOKEN: &str = "OVERCOMMIT_TOKEN";
/// What a worker says when its device can be used.
const READY: &str = "ready";
/// A worker that lived longer than this did not fail at its start.
const STARTED: Duration = Duration::from_secs(10);
/// How often a worker looks whether memory is held for nobody, and how often in a row it may be.
const LOOK: Duration = Duration::from_secs(1);
const HELD_LOOKS: u32 = 3;
/// The longest wait before another worker is started.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Hosts devices with budgets for Burn's remote client.
///
/// Each client has an address, a process and a budget of its own. Traffic is not encrypted: other addresses than this machine's own ask
/// for a token, which keeps strangers out and hides nothing. A client with the token can make this machine connect to others.
#[derive(Debug, Args)]
pub struct Options {
    /// The device: host, host:1, cuda:0. By default what OVERCOMMIT_DEVICE names, else the first GPU, else the host.
    #[arg(long)]
    device: Option<String>,
    /// Each client's device memory, as "8 GiB" or "25%". By default what OVERCOMMIT_BUDGET says.
    #[arg(long)]
    budget: Option<String>,
    /// Each client's memory on the host, for what does not fit the budget. By default what OVERCOMMIT_HOST_LIMIT says.
    #[arg(long)]
    host_limit: Option<String>,
    /// How many clients there may be. Their addresses have one port after another.
    #[arg(long, default_value_t = 1)]
    clients: u16,
    /// The first client's address.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// A file with the token that clients have to know. By default what OVERCOMMIT_TOKEN says.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Is a worker: the listening socket is the standard input.
    #[arg(long, hide = true)]
    worker: bool,
}

/// The command line of a face's program.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    #[command(flatten)]
    options: Options,
}

/// What a worker hosts, and for whom.
#[derive(Debug)]
pub struct Worker {
    /// The device, which is configured.
    pub device: OvercommitDevice,
    /// Where clients connect.
    pub listener: TcpListener,
    /// What they have to know.
    pub token: Option<String>,
}

/// The program of a face: `host` serves a worker's clients by the server of the face's Burn, until it is told to end.
pub fn run<E: Error + Send + Sync + 'static>(host: impl FnOnce(Worker) -> Result<(), E>) -> ExitCode {
    let Program { options } = Program::parse();
    let result = if options.worker { work(host) } else { supervise(&options) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overcommit serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work<E: Error + Send + Sync + 'static>(host: impl FnOnce(Worker) -> Result<(), E>) -> Result<()> {
    end_with_supervisor()?;
    let device = OvercommitDevice::default();
    // Starts the device, so that what is wrong with it is said now.
    stats(&device)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().context("a worker's input is its socket")?;
    let listener = TcpListener::from(socket);
    let port = listener.local_addr()?.port();
    thread::Builder::new().name("held memory".into()).spawn(move || end_where_memory_stays(device, port))?;
    println!("{READY}");
    io::stdout().flush()?;
    host(Worker { device, listener, token: token_of_environment() })?;
    Ok(())
}

/// Ends this process once no client is connected and memory is held all the same, as by a session that waits for a tensor that never
/// comes. The worker that takes over holds none.
fn end_where_memory_stays(device: OvercommitDevice, port: u16) {
    let mut held_looks = 0;
    loop {
        thread::sleep(LOOK);
        let is_held =
            has_connection(port) == Some(false) && stats(&device).is_ok_and(|stats| stats.storages > 0);
        held_looks = if is_held { held_looks + 1 } else { 0 };
        if held_looks == HELD_LOOKS {
            eprintln!("overcommit serve: no client is connected, and memory is still held; this worker ends");
            std::process::exit(1);
        }
    }
}

/// Whether the kernel knows of a connection to this port; `None` where it does not tell.
fn has_connection(port: u16) -> Option<bool> {
    // Established, and closed by the other side alone.
    const OPEN: [&str; 2] = ["01", "08"];
    let mut tells = false;
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let Ok(table) = fs::read_to_string(table) else { continue };
        tells = true;
        // Number, own address, other address, state.
        let connections = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own_port = format!(":{port:04X}");
        if connections.into_iter().any(|fields| fields[1].ends_with(&own_port) && OPEN.contains(&fields[3])) {
            return Some(true);
        }
    }
    tells.then_some(false)
}

/// Asks the kernel to end this process with its supervisor, and to take it first where the machine's memory runs out.
fn end_with_supervisor() -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};

        set_parent_process_death_signal(Some(Signal::TERM))?;
        if let Err(error) = fs::write("/proc/self/oom_score_adj", "1000") {
            log::info!("this worker is as likely to be ended for lack of memory as any process: {error}");
        }
    }
    Ok(())
}

fn supervise(options: &Options) -> Result<()> {
    let token = token(options)?;
    allowed(options.listen.ip(), token.is_some())?;
    let listeners = bind(options)?;
    let (report, reports) = channel();
    for (client, listener) in listeners.into_iter().enumerate() {
        let address = listener.local_addr()?;
        let worker =
            Seat { client, socket: listener.into(), environment: environment(options, token.as_deref()) };
        let report = report.clone();
        thread::Builder::new().name(format!("client {client}")).spawn(move || worker.keep(&report))?;
        // One after another: if one cannot start, none else is tried.
        reports.recv()?.with_context(|| format!("client {client}"))?;
        println!("client {client}: ws://{address}");
        io::stdout().flush()?;
    }
    // Threads hold the workers as long as this process lives.
    loop {
        thread::park();
    }
}

/// The token, from its file or from the environment.
fn token(options: &Options) -> Result<Option<String>> {
    let Some(file) = &options.token_file else {
        return Ok(token_of_environment());
    };
    let token = fs::read_to_string(file).with_context(|| format!("--token-file {}", file.display()))?;
    match token.trim() {
        "" => bail!("--token-file {}: the file is empty; a token was expected in it", file.display()),
        token => Ok(Some(token.to_owned())),
    }
}

fn token_of_environment() -> Option<String> {
    std::env::var(TOKEN).ok().filter(|token| !token.is_empty())
}

/// Refuses to serve others than this machine without a token.
fn allowed(listen: IpAddr, has_token: bool) -> Result<()> {
    if listen.is_loopback() {
        return Ok(());
    }
    if !has_token {
        bail!(
            "--listen {listen} can be reached by other machines, and no token is set: name a file by --token-file, or set {TOKEN}"
        );
    }
    eprintln!(
        "overcommit serve: traffic is not encrypted; whoever reads it learns the token and all tensors. Serve a network you trust, or \
         127.0.0.1 through a tunnel."
    );
    Ok(())
}

/// A socket for each client. Where the first port is 0, all are any that are free.
fn bind(options: &Options) -> Result<Vec<TcpListener>> {
    (0..options.clients)
        .map(|client| {
            let mut address = options.listen;
            if address.port() > 0 {
                let port = address.port().checked_add(client).ok_or_else(|| {
                    anyhow!(
                        "--clients {}: there are not so many ports from {}",
                        options.clients,
                        options.listen
                    )
                })?;
                address.set_port(port);
            }
            TcpListener::bind(address).with_context(|| format!("--listen {address}"))
        })
        .collect()
}

/// The variables that differ for workers.
fn environment(options: &Options, token: Option<&str>) -> Vec<(&'static str, String)> {
    let settings = [
        (Variable::Device.name(), options.device.as_deref()),
        (Variable::Budget.name(), options.budget.as_deref()),
        (Variable::HostLimit.name(), options.host_limit.as_deref()),
        (TOKEN, token),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
}

/// A client's socket and the worker behind it.
struct Seat {
    client: usize,
    socket: OwnedFd,
    environment: Vec<(&'static str, String)>,
}

impl Seat {
    /// Keeps a worker running, as long as the process lives. Reports whether the first one starts, and ends if it does not.
    fn keep(self, report: &Sender<Result<()>>) {
        let mut worker = self.start();
        if let Err(error) = worker {
            let _ = report.send(Err(error));
            return;
        }
        let _ = report.send(Ok(()));
        let mut wait = Duration::ZERO;
        loop {
            let begin = Instant::now();
            let ended = worker.and_then(|(mut process, mut output)| {
                io::copy(&mut output, &mut io::stderr())?;
                Ok(process.wait()?.to_string())
            });
            let why = ended.unwrap_or_else(|error| format!("{error:#}"));
            eprintln!(
                "overcommit serve: client {}: its worker ended ({why}); another takes over",
                self.client
            );
            wait = if begin.elapsed() > STARTED {
                Duration::ZERO
            } else {
                (wait * 2).clamp(Duration::from_millis(100), LONGEST_WAIT)
            };
            thread::sleep(wait);
            worker = self.start();
        }
    }

    /// A worker whose device can be used, and what it says from then on.
    fn start(&self) -> Result<(Child, impl Read)> {
        let mut worker = Command::new(std::env::current_exe()?)
            .arg("--worker")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(self.socket.try_clone()?))
            .stdout(Stdio::piped())
            .spawn()
            .context("its worker cannot be started")?;
        let mut said = String::new();
        let output = worker.stdout.take().ok_or_else(|| anyhow!("a worker has an output"))?;
        let mut output = BufReader::new(output);
        output.read_line(&mut said)?;
        if said.trim() != READY {
            let status = worker.wait()?;
            bail!("its worker could not start ({status}); what it said is above");
        }
        Ok((worker, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_a_token() {
        let any = "0.0.0.0".parse().unwrap();
        assert!(allowed(any, false).unwrap_err().to_string().contains("--token-file"));
        assert!(allowed(any, true).is_ok());
        assert!(allowed("127.0.0.1".parse().unwrap(), false).is_ok());
        assert!(allowed("::1".parse().unwrap(), false).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connections_are_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(has_connection(port), Some(false));
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(has_connection(port), Some(true));
        drop(client);
    }

    #[test]
    fn addresses_have_one_port_after_another() {
        let Program { options } =
            Program::parse_from(["serve", "--listen", "127.0.0.1:65535", "--clients", "2"]);
        assert!(bind(&options).unwrap_err().to_string().contains("--clients 2"));
        let Program { options } = Program::parse_from(["serve", "--listen", "127.0.0.1:0", "--clients", "3"]);
        assert_eq!(bind(&options).unwrap().len(), 3);
    }
}
