//! Burn's devices that run on this crate's.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};

use burn_overcommit::{Config, Error, OvercommitDevice, configure};
use burn_remote::server::{BackendServer, TokenAuthorizer, WebSocketTransport};
use burn_tensor::Device;
use burn_tensor::remote::RemoteHost;
use tokio::runtime::Runtime;

use crate::Overcommit;
use crate::convert::Member;

/// The default device, configured: `OVERCOMMIT_DEVICE` names it, else it is the first GPU, else the host. `.autodiff()` makes it
/// differentiate, as any device of Burn's.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit_022::{Config, device};
///
/// let device = device(Config::new().budget_bytes(64 << 20))?.autodiff();
/// let x = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();
/// let gradients = x.clone().square().sum().backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_data().to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`device_on`].
pub fn device(config: Config) -> Result<Device, Error> {
    device_on(OvercommitDevice::default(), config)
}

/// The named device, configured. However often it is asked for with one configuration, it is the same device.
///
/// ```
/// use burn_overcommit_022::{Config, OvercommitDevice, device_on, stats};
///
/// let second = device_on(OvercommitDevice::Host(1), Config::new().budget_bytes(32 << 20))?;
/// assert_eq!(stats(&OvercommitDevice::Host(1))?.budget_bytes, 32 << 20);
/// # let _ = second;
/// # Ok::<(), burn_overcommit_022::Error>(())
/// ```
///
/// # Errors
/// If there is no such device, if the configuration does not fit it, if the device was used before with another one, or if the
/// loopback interface is not to be had.
pub fn device_on(device: OvercommitDevice, config: Config) -> Result<Device, Error> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let host = match devices.get(&device) {
        Some((host, configured)) if *configured == config => return connected(device, host),
        Some((host, _)) => Some(host.clone()),
        None => None,
    };
    configure(&device, config.clone())?;
    let host = match host {
        Some(host) => host,
        None => serve(device).map_err(|error| Error::Device { device, reason: error.to_string() })?,
    };
    devices.insert(device, (host.clone(), config));
    connected(device, &host)
}

fn connected(device: OvercommitDevice, host: &RemoteHost) -> Result<Device, Error> {
    let connected = Device::remote_options(host).init();
    connected.map_err(|error| Error::Device { device, reason: error.to_string() })
}

/// Where the server of a device is found, and how the device is configured.
static DEVICES: LazyLock<Mutex<HashMap<OvercommitDevice, (RemoteHost, Config)>>> =
    LazyLock::new(Mutex::default);

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
