//! By a server inside the process, and Burn's client for it.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};

use burn_overcommit::runtime::ensure_configured;
use burn_overcommit::{Config, Error, OvercommitDevice};
use burn_overcommit_022_backend::{Member, Overcommit};
use burn_remote::server::{BackendServer, TokenAuthorizer, WebSocketTransport};
use burn_tensor::Device;
use burn_tensor::remote::RemoteHost;
use tokio::runtime::Runtime;

pub fn open(device: OvercommitDevice, config: Config) -> Result<Device, Error> {
    let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(host) = hosts.get(&device) {
        let connected = connect(device, host)?;
        // Tensors that the program has dropped are dropped there before the device is configured anew.
        connected.sync().map_err(|error| failed(device, error))?;
        ensure_configured(&device, config)?;
        return Ok(connected);
    }
    ensure_configured(&device, config)?;
    let host = serve(device).map_err(|error| failed(device, error))?;
    let connected = connect(device, &host)?;
    hosts.insert(device, host);
    Ok(connected)
}

fn connect(device: OvercommitDevice, host: &RemoteHost) -> Result<Device, Error> {
    Device::remote_options(host).init().map_err(|error| failed(device, error))
}

fn failed(device: OvercommitDevice, error: impl Display) -> Error {
    Error::Device { device, reason: error.to_string() }
}

/// Where the server of a device is found.
static HOSTS: LazyLock<Mutex<HashMap<OvercommitDevice, RemoteHost>>> = LazyLock::new(Mutex::default);

/// The threads of the servers, which last as long as the process.
static SERVERS: LazyLock<io::Result<Runtime>> = LazyLock::new(Runtime::new);

/// Serves the device on a free port of the loopback interface, to those who know a random token.
fn serve(device: OvercommitDevice) -> io::Result<RemoteHost> {
    let servers = SERVERS.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let token = format!("{:032x}", rand::random::<u128>());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("ws://{}", listener.local_addr()?);
    let authorizer = TokenAuthorizer::new(token.as_str()).expect("the token is not empty");
    let server = BackendServer::<Overcommit>::new([Member(device)]).with_authorizer(authorizer);
    let serving = server.serve_async(WebSocketTransport::from_listener(listener));
    drop(servers.spawn(serving));
    Ok(RemoteHost::websocket(&url).with_credential(token.as_str()))
}
