//! A server gives each client of Burn's a budget of its own, and outlives what clients do.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use burn_backend::ops::{ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps};
use burn_backend::{Slice, TensorData, read_sync};
use burn_remote::{ConnectError, HostSpec, RemoteBackend, RemoteDevice};

use crate::PROGRAM;
use crate::hostile;

const KIB: usize = 1 << 10;
const BUDGET: &str = "256KiB";
/// A square matrix of this width fills a quarter of the budget, and so an eighth of what a client has with its share of the host.
const WIDTH: usize = 128;
/// So many leave room for no second client at the same memory.
const MOST: usize = 6;
/// Enough for anything here, were it ten times slower.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server, which ends with this.
struct Server {
    process: Child,
    addresses: Vec<String>,
}

impl Server {
    /// What it says goes to a file that has the test's name.
    fn new(clients: usize, token: Option<&str>) -> Self {
        let test = thread::current().name().unwrap().replace("::", "-");
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{test}.log"));
        let mut process = Command::new(PROGRAM)
            .args(["--device", "host", "--budget", BUDGET, "--host-limit", BUDGET])
            .args(["--listen", "127.0.0.1:0", "--clients", &clients.to_string()])
            .envs(token.map(|token| ("OVERCOMMIT_TOKEN", token)))
            .stdout(Stdio::piped())
            .stderr(File::create(log).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().take(clients);
        let addresses = lines.map(|line| line.unwrap().split_once(": ").unwrap().1.to_owned()).collect();
        Server { process, addresses }
    }

    /// The workers' processes.
    fn workers(&self) -> Vec<u32> {
        let id = self.process.id();
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap());
        children
            .flat_map(|ids| ids.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn connect(address: &str) -> Result<RemoteDevice, ConnectError> {
    HostSpec::websocket(address).connect(0)
}

type Tensor = <RemoteBackend as burn_backend::BackendTypes>::FloatTensorPrimitive;

fn ones(device: &RemoteDevice, rows: usize) -> Tensor {
    RemoteBackend::float_from_data(TensorData::new(vec![1.0_f32; rows * WIDTH], [rows, WIDTH]), device)
}

/// The first element, or why there is none.
fn first(tensor: Tensor) -> Result<f32, String> {
    let data = read_sync(RemoteBackend::float_into_data(tensor)).map_err(|error| error.to_string())?;
    Ok(data.iter::<f32>().next().unwrap())
}

/// A product on a device that works.
fn product(device: &RemoteDevice) -> Result<f32, String> {
    let x = ones(device, WIDTH);
    first(RemoteBackend::float_matmul(x.clone(), x))
}

/// A client of its own process, since Burn 0.22 keeps a session that has ended.
fn client(name: &str, address: &str) -> Command {
    let mut client = Command::new(env::current_exe().unwrap());
    client.args([name, "--ignored", "--nocapture"]).env("SERVER", address);
    client
}

/// Waits until a new client computes.
fn serves(address: &str) {
    let start = Instant::now();
    loop {
        let output = client("client_that_computes", address).output().unwrap();
        if output.status.success() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&output.stderr));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Not a test but the client that [`serves`] starts.
#[test]
#[ignore = "a client of other tests"]
fn client_that_computes() {
    let device = connect(&env::var("SERVER").unwrap()).unwrap();
    assert_eq!(product(&device), Ok(WIDTH as f32));
}

#[test]
fn each_client_has_a_budget_of_its_own() {
    let server = Server::new(2, None);
    let devices = [0, 1].map(|client| connect(&server.addresses[client]).unwrap());
    let held = [0, 1].map(|client| [0; MOST].map(|_| ones(&devices[client], WIDTH)));
    for tensors in held {
        for tensor in tensors {
            assert_eq!(first(tensor), Ok(1.0));
        }
    }
    for device in &devices {
        assert_eq!(product(device), Ok(WIDTH as f32));
    }
}

#[test]
fn memory_that_runs_out_is_an_error_and_a_new_client_goes_on() {
    let server = Server::new(1, None);
    let device = connect(&server.addresses[0]).unwrap();
    let held = [0; 12].map(|_| ones(&device, WIDTH));
    assert!(product(&device).is_err());
    drop(held);
    drop(device);
    serves(&server.addresses[0]);
}

/// Not a test but the client of the next one, which says when it holds its tensors, and waits for its end.
#[test]
#[ignore = "a client of another test"]
fn client_that_holds_most() {
    let device = connect(&env::var("SERVER").unwrap()).unwrap();
    let held = [0; MOST].map(|_| ones(&device, WIDTH));
    assert_eq!(first(held[MOST - 1].clone()), Ok(1.0));
    eprintln!("held");
    thread::sleep(PATIENCE);
}

#[test]
fn a_client_that_vanishes_frees_what_it_held() {
    let server = Server::new(1, None);
    let mut client = client("client_that_holds_most", &server.addresses[0])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    client.kill().unwrap();
    client.wait().unwrap();
    let worker = server.workers();
    serves(&server.addresses[0]);
    assert_eq!(server.workers(), worker, "the same worker goes on");
}

#[test]
fn a_worker_that_ends_is_followed_by_another() {
    let server = Server::new(2, None);
    let other = connect(&server.addresses[1]).unwrap();
    serves(&server.addresses[0]);
    let workers = server.workers();
    let killed = Command::new("kill").args(["-9", &workers[0].to_string()]).status().unwrap();
    assert!(killed.success());
    serves(&server.addresses[0]);
    assert_eq!(product(&other), Ok(WIDTH as f32), "the other client goes on");
    assert!(server.workers().contains(&workers[1]));
}

#[test]
fn a_token_is_asked_for() {
    let server = Server::new(1, Some("a secret"));
    let host = HostSpec::websocket(&server.addresses[0]);
    assert!(matches!(host.connect(0), Err(ConnectError::Unauthorized)));
    assert!(matches!(host.clone().with_credential("a secre").connect(0), Err(ConnectError::Unauthorized)));
    assert_eq!(product(&host.with_credential("a secret").connect(0).unwrap()), Ok(WIDTH as f32));
}

#[test]
fn what_cannot_be_served_is_said() {
    for (arguments, said) in [
        (["--listen", "127.0.0.1:0", "--budget", "lots"], "OVERCOMMIT_BUDGET"),
        (["--listen", "127.0.0.1:0", "--device", "toaster"], "toaster"),
        (["--listen", "0.0.0.0:0", "--clients", "2"], "--token-file"),
    ] {
        let output = Command::new(PROGRAM).args(arguments).env("OVERCOMMIT_DEVICE", "host").output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{errors}");
    }
}

/// Ops whose arguments are of many kinds, each in messages of its own.
fn several_ops(device: &RemoteDevice) {
    let x = ones(device, 16);
    let image = RemoteBackend::float_reshape(x.clone(), [1, 2, 32, 32].into());
    let weight = RemoteBackend::float_from_data(TensorData::new(vec![0.5_f32; 36], [2, 2, 3, 3]), device);
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let indices = RemoteBackend::int_from_data(TensorData::new(vec![0_i32, 3, 1], [3]), device);
    for out in [
        RemoteBackend::float_exp(x.clone()),
        RemoteBackend::float_matmul(x.clone(), RemoteBackend::float_transpose(x.clone())),
        RemoteBackend::float_sum_dim(x.clone(), 1),
        RemoteBackend::float_slice(x.clone(), &[Slice::from(2..9), Slice::from(3..5)]),
        RemoteBackend::float_select(x.clone(), 0, indices),
        RemoteBackend::float_cat(vec![x.clone(), x.clone()], 0),
        RemoteBackend::float_repeat_dim(x.clone(), 1, 3),
        RemoteBackend::conv2d(image.clone(), weight, None, options),
        RemoteBackend::adaptive_avg_pool2d(image, [5, 3]),
    ] {
        first(out).unwrap();
    }
}

/// For `SERVE_FUZZ_SECONDS`, by default some.
#[test]
fn hostile_clients_do_not_take_the_server_down() {
    let seconds = env::var("SERVE_FUZZ_SECONDS").map_or(8, |seconds| seconds.parse().unwrap());
    let mut server = Server::new(2, None);
    let session = hostile::recorded(&server.addresses[0], |address| several_ops(&connect(address).unwrap()));
    let other = connect(&server.addresses[1]).unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut attacks = 0;
    while Instant::now() < end {
        for _ in 0..20 {
            hostile::attack(&server.addresses[0], &session, attacks);
            attacks += 1;
        }
        serves(&server.addresses[0]);
        assert_eq!(product(&other), Ok(WIDTH as f32), "after attack {attacks}");
    }
    assert!(server.process.try_wait().unwrap().is_none(), "the server lives");
    let resident = |id: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * KIB
    };
    let most = server.workers().into_iter().map(resident).max().unwrap();
    println!("{attacks} attacks; the largest worker has {} KiB", most / KIB);
    assert!(most < KIB * KIB * KIB, "{most} bytes");
}
