//! What the program is told, and what a worker is given.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, value_parser};

use crate::OvercommitDevice;

/// The variable with what clients have to know.
pub(super) const TOKEN: &str = "OVERCOMMIT_TOKEN";
/// What a worker says when its device can be used.
pub(super) const READY: &str = "ready";

/// Hosts devices with budgets for Burn's remote client.
///
/// Each client has an address, a process and a budget of its own, and has to know a token. That keeps strangers out, and web pages that
/// this machine's browsers show; traffic is not encrypted. A client with the token can make this machine connect to others.
#[derive(Debug, Args)]
pub struct Options {
    /// The device: host, host:1, cuda:0. By default what OVERCOMMIT_DEVICE names, else the first GPU, else the host.
    #[arg(long)]
    pub(super) device: Option<String>,
    /// Each client's device memory, as "8 GiB" or "25%". By default what OVERCOMMIT_BUDGET says, else an equal part of 90%.
    #[arg(long)]
    pub(super) budget: Option<String>,
    /// Each client's memory on the host, for what does not fit the budget. By default what OVERCOMMIT_HOST_LIMIT says, else an equal part
    /// of 50%.
    #[arg(long)]
    pub(super) host_limit: Option<String>,
    /// How many clients there may be. Their addresses have one port after another.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..))]
    pub(super) clients: u16,
    /// The first client's address.
    #[arg(long, default_value = "127.0.0.1:3000")]
    pub(super) listen: SocketAddr,
    /// A file with the token that clients have to know. By default what OVERCOMMIT_TOKEN says, else one that is made and printed.
    #[arg(long)]
    pub(super) token_file: Option<PathBuf>,
    /// How many connections an address takes. If there are more, the oldest goes that has not said what it wants.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u16).range(1..))]
    pub(super) connections: u16,
    /// How many seconds a connection has to say what it wants.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u16).range(1..))]
    pub(super) handshake_limit: u16,
    /// What a client's messages may take of this machine's memory beside budget and host limit. A worker that needs more ends.
    #[arg(long, default_value = "4 GiB")]
    pub(super) message_limit: ByteSize,
    /// Is a worker: the listening socket is the standard input.
    #[arg(long, hide = true)]
    pub(super) worker: bool,
}

/// The command line of a face's program.
#[derive(Debug, Parser)]
#[command(version)]
pub(super) struct Program {
    #[command(flatten)]
    pub(super) options: Options,
}

/// What a worker hosts, and for whom.
#[derive(Debug)]
pub struct Worker {
    /// The device, which is configured.
    pub device: OvercommitDevice,
    /// Where clients' connections come from.
    pub listener: TcpListener,
    /// What clients have to know.
    pub token: String,
}
