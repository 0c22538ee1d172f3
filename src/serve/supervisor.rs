//! The process that supervises: binds the addresses, and keeps a worker behind each.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::options::{Options, READY, TOKEN};
use crate::Variable;

/// A worker that lived longer than this did not fail at its start.
const STARTED: Duration = Duration::from_secs(10);
/// The longest wait before another worker is started.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// What clients have of the device's free memory and of the host's together, unless told otherwise.
const BUDGET_PERCENT: f64 = 90.0;
const HOST_PERCENT: f64 = 50.0;

/// Serves until this process is told to end.
pub(super) fn supervise(options: &Options) -> Result<()> {
    let token = match given_token(options)? {
        Some(token) => token,
        None => {
            let token = random_token()?;
            println!("token: {token}");
            token
        }
    };
    if !options.listen.ip().is_loopback() {
        eprintln!(
            "overcommit serve: traffic is not encrypted; whoever reads it learns the token and all tensors. Serve a network you trust, \
             or 127.0.0.1 through a tunnel."
        );
    }
    let listeners = bind(options)?;
    let (report, reports) = channel();
    for (client, listener) in listeners.into_iter().enumerate() {
        let address = listener.local_addr()?;
        let seat = Seat {
            client,
            socket: listener.into(),
            arguments: arguments(options),
            environment: environment(options),
            token: token.clone(),
        };
        let report = report.clone();
        // One worker holds what all may take against the memory that is free now.
        let counted = if client == 0 { options.clients } else { 1 };
        let keep = move || seat.keep(counted, &report);
        thread::Builder::new().name(format!("client {client}")).spawn(keep)?;
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

/// The token, from its file or from the environment, if it is in one of them.
fn given_token(options: &Options) -> Result<Option<String>> {
    let Some(file) = &options.token_file else {
        return Ok(std::env::var(TOKEN).ok().filter(|token| !token.is_empty()));
    };
    let token = fs::read_to_string(file).with_context(|| format!("--token-file {}", file.display()))?;
    match token.trim() {
        "" => bail!("--token-file {}: the file is empty; a token was expected in it", file.display()),
        token => Ok(Some(token.to_owned())),
    }
}

/// A token of 128 bits that nobody can guess.
fn random_token() -> Result<String> {
    let mut random = [0; 16];
    let source = "/dev/urandom";
    let read = fs::File::open(source).and_then(|mut file| file.read_exact(&mut random));
    read.with_context(|| format!("{source} gives no token; name a file with one by --token-file"))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
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

/// What workers are told by arguments.
fn arguments(options: &Options) -> Vec<String> {
    let numbers = [
        ("--connections", options.connections.into()),
        ("--handshake-limit", options.handshake_limit.into()),
        ("--message-limit", options.message_limit.as_u64()),
    ];
    numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]).collect()
}

/// The variables that differ for workers.
fn environment(options: &Options) -> Vec<(&'static str, String)> {
    // Several clients share what one would have.
    let part = |variable: Variable, percent: f64| {
        let is_shared = options.clients > 1 && std::env::var_os(variable.name()).is_none();
        is_shared.then(|| format!("{}%", percent / f64::from(options.clients)))
    };
    let settings = [
        (Variable::Device, options.device.clone()),
        (Variable::Budget, options.budget.clone().or_else(|| part(Variable::Budget, BUDGET_PERCENT))),
        (Variable::HostLimit, options.host_limit.clone().or_else(|| part(Variable::HostLimit, HOST_PERCENT))),
    ];
    settings.into_iter().filter_map(|(variable, value)| Some((variable.name(), value?))).collect()
}

/// A client's socket and the worker behind it.
struct Seat {
    client: usize,
    socket: OwnedFd,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    token: String,
}

impl Seat {
    /// Keeps a worker running, as long as the process lives. Reports whether the first one starts, which counts so many clients, and ends
    /// if it does not.
    fn keep(self, counted: u16, report: &Sender<Result<()>>) {
        let mut worker = self.start(counted);
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
            worker = self.start(1);
        }
    }

    /// A worker whose device can be used, and what it says from then on.
    fn start(&self, counted: u16) -> Result<(Child, impl Read)> {
        let (mut output, of_worker) = UnixStream::pair()?;
        let mut worker = Command::new(std::env::current_exe()?)
            .args(["--worker", "--clients", &counted.to_string()])
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env_remove(TOKEN)
            .stdin(Stdio::from(self.socket.try_clone()?))
            .stdout(Stdio::from(OwnedFd::from(of_worker)))
            .spawn()
            .context("its worker cannot be started")?;
        output.write_all(self.token.as_bytes())?;
        output.shutdown(Shutdown::Write)?;
        let (mut output, mut said) = (BufReader::new(output), String::new());
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
    use clap::Parser;

    use super::super::options::Program;
    use super::*;

    #[test]
    fn no_two_tokens_are_alike() {
        let tokens = [(); 2].map(|()| random_token().unwrap());
        assert!(tokens[0] != tokens[1] && tokens.iter().all(|token| token.len() == 32));
    }

    #[test]
    fn clients_share_what_one_would_have() {
        let of = |clients: &str| {
            let Program { options } =
                Program::parse_from(["serve", "--clients", clients, "--host-limit", "1 GiB"]);
            environment(&options)
        };
        let host = |limit: &str| (Variable::HostLimit.name(), limit.to_owned());
        assert_eq!(of("1"), [host("1 GiB")]);
        assert_eq!(of("4"), [(Variable::Budget.name(), "22.5%".to_owned()), host("1 GiB")]);
        assert!(Program::try_parse_from(["serve", "--clients", "0"]).is_err());
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
