//! A server gives each client of Burn's a budget of its own, and outlives what clients do.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use burn_backend::ops::{ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps};
use burn_backend::{FloatDType, Slice, TensorData, read_sync};
use burn_remote::{ConnectError, HostSpec, RemoteBackend, RemoteDevice};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::PROGRAM;
use crate::hostile;

const KIB: usize = 1 << 10;
const TOKEN: &str = "a secret";
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
    /// What it says goes to a file that has the test's name, and so does the token.
    fn new(clients: usize) -> Self {
        let test = thread::current().name().unwrap().replace("::", "-");
        let file = |kind: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{test}.{kind}"));
        let (log, token_file) = (file("log"), file("token"));
        fs::write(&token_file, TOKEN).unwrap();
        let mut process = Command::new(PROGRAM)
            .arg("--token-file")
            .arg(token_file)
            .args(["--device", "host", "--budget", BUDGET, "--host-limit", BUDGET])
            .args(["--listen", "127.0.0.1:0", "--clients", &clients.to_string()])
            .args(["--handshake-limit", "5", "--message-limit", "256MiB"])
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
    HostSpec::websocket(address).with_credential(TOKEN).connect(0)
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
    let server = Server::new(2);
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
    let server = Server::new(1);
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
    let server = Server::new(1);
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
    let server = Server::new(2);
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
    let server = Server::new(1);
    let host = HostSpec::websocket(&server.addresses[0]);
    assert!(matches!(host.connect(0), Err(ConnectError::Unauthorized)));
    assert!(matches!(host.clone().with_credential("a secre").connect(0), Err(ConnectError::Unauthorized)));
    assert_eq!(product(&host.with_credential(TOKEN).connect(0).unwrap()), Ok(WIDTH as f32));
    for process in [server.workers(), vec![server.process.id()]].concat() {
        for what in ["environ", "cmdline"] {
            let told = fs::read(format!("/proc/{process}/{what}")).unwrap();
            assert!(!String::from_utf8_lossy(&told).contains(TOKEN), "{what} is for others to see");
        }
    }
}

#[test]
fn a_token_is_made_and_printed_where_none_is_given() {
    let mut process = Command::new(PROGRAM)
        .args(["--device", "host", "--budget", BUDGET, "--host-limit", BUDGET, "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().take(2);
    let said: Vec<String> = lines.map(|line| line.unwrap().split_once(": ").unwrap().1.to_owned()).collect();
    let server = Server { process, addresses: vec![said[1].clone()] };
    let host = HostSpec::websocket(&server.addresses[0]);
    assert!(matches!(host.connect(0), Err(ConnectError::Unauthorized)));
    assert_eq!(product(&host.with_credential(said[0].as_str()).connect(0).unwrap()), Ok(WIDTH as f32));
}

/// Not a test but the client of the next one: its session on one server waits for a tensor of another that has stopped.
#[test]
#[ignore = "a client of another test"]
fn client_that_waits_for_ever() {
    let [device, stopped] = ["SERVER", "STOPPED"].map(|name| connect(&env::var(name).unwrap()).unwrap());
    let held = [0; MOST].map(|_| ones(&device, WIDTH));
    assert_eq!(first(held[MOST - 1].clone()), Ok(1.0));
    let other = ones(&stopped, 1);
    assert_eq!(first(other.clone()), Ok(1.0));
    eprintln!("held");
    assert_eq!(std::io::stdin().lines().next().unwrap().unwrap(), "go on");
    let moved = RemoteBackend::float_to_device(other, &device);
    let _ = first(moved);
}

#[test]
fn memory_that_a_vanished_client_leaves_goes_with_the_worker() {
    let server = Server::new(2);
    let mut client = client("client_that_waits_for_ever", &server.addresses[0])
        .env("STOPPED", &server.addresses[1])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    let signal = |name: &str, id: u32| {
        assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success())
    };
    let workers = server.workers();
    signal("-STOP", workers[1]);
    client.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    // Its session waits by now, or will.
    thread::sleep(Duration::from_millis(500));
    client.kill().unwrap();
    client.wait().unwrap();
    // Somebody who says nothing is no client.
    let _stranger = TcpStream::connect(server.addresses[0].trim_start_matches("ws://")).unwrap();
    serves(&server.addresses[0]);
    signal("-CONT", workers[1]);
}

#[test]
fn strangers_keep_nobody_out() {
    let server = Server::new(1);
    let address = &server.addresses[0];
    let strangers = hostile::crowd(address, 200);
    serves(address);
    drop(strangers);
}

#[test]
fn messages_that_take_too_much_memory_end_one_worker() {
    let server = Server::new(2);
    let other = connect(&server.addresses[1]).unwrap();
    let session =
        hostile::recorded(&server.addresses[0], |address| drop(product(&connect(address).unwrap())));
    let sent_bytes = hostile::pour(&server.addresses[0], &session[0], 4 << 30);
    println!("{} MiB were sent", sent_bytes >> 20);
    serves(&server.addresses[0]);
    assert_eq!(product(&other), Ok(WIDTH as f32), "the other client goes on");
}

#[test]
fn what_cannot_be_served_is_said() {
    for (arguments, said) in [
        (["--listen", "127.0.0.1:0", "--budget", "lots"], "OVERCOMMIT_BUDGET"),
        (["--listen", "127.0.0.1:0", "--device", "toaster"], "toaster"),
        (["--listen", "127.0.0.1:0", "--clients", "0"], "--clients"),
    ] {
        let output = Command::new(PROGRAM).args(arguments).env("OVERCOMMIT_DEVICE", "host").output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{errors}");
    }
    let output = Command::new(PROGRAM)
        .args(["--device", "host", "--listen", "127.0.0.1:0", "--clients", "3", "--budget", "40%"])
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("--clients 3: --budget gives each"), "{errors}");
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

/// Not a test but a client that asks for tensors that no memory holds, until its session ends.
#[test]
#[ignore = "a client of another test"]
fn client_with_extreme_shapes() {
    let device = connect(&env::var("SERVER").unwrap()).unwrap();
    let mut random = StdRng::seed_from_u64(env::var("SEED").unwrap().parse().unwrap());
    let sizes = [0, 1, 3, 1 << 16, 1 << 31, 1 << 32, 1 << 47, 1 << 62, usize::MAX >> 1, usize::MAX];
    let x = ones(&device, 16);
    let mut size = || sizes[random.random_range(0..sizes.len())];
    let [a, b, c] = [(); 3].map(|()| size());
    let kind = random.random_range(0..7);
    // Burn's client refuses some of these by itself.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
        let extreme = match kind {
            0 => RemoteBackend::float_zeros([a, b].into(), &device, FloatDType::F32),
            1 => RemoteBackend::float_expand(
                RemoteBackend::float_slice(x, &[Slice::from(0..1), Slice::from(0..1)]),
                [a, b].into(),
            ),
            2 => RemoteBackend::float_reshape(x, [a, b, c].into()),
            3 => RemoteBackend::float_repeat_dim(x, 0, a),
            4 => RemoteBackend::float_slice(
                x,
                &[Slice::new(a as isize, Some(b as isize), 1), Slice::new(0, None, (c as isize).max(1))],
            ),
            5 => {
                let image = RemoteBackend::float_reshape(x.clone(), [1, 2, 32, 32].into());
                let weight = RemoteBackend::float_reshape(x, [32, 2, 4, 8].into());
                RemoteBackend::conv2d(
                    image,
                    weight,
                    None,
                    ConvOptions::new([a.max(1); 2], [b; 2], [c.max(1); 2], 1),
                )
            }
            _ => {
                let far = RemoteBackend::float_expand(
                    RemoteBackend::float_slice(x.clone(), &[Slice::from(0..1)]),
                    [a, WIDTH].into(),
                );
                let slices = [Slice::new(b as isize, Some((b as isize).saturating_add(16)), 1)];
                RemoteBackend::float_slice_assign(far, &slices, x)
            }
        };
        let _ = first(RemoteBackend::float_add_scalar(extreme, 1.0.into()));
    }));
}

/// For `SERVE_FUZZ_SECONDS`, by default some.
#[test]
fn hostile_clients_do_not_take_the_server_down() {
    let seconds = env::var("SERVE_FUZZ_SECONDS").map_or(8.0, |seconds| seconds.parse().unwrap());
    let mut server = Server::new(2);
    let host = |address: &str| connect(address).unwrap();
    let session = hostile::recorded(&server.addresses[0], |address| several_ops(&host(address)));
    let other = host(&server.addresses[1]);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut attacks = 0;
    while Instant::now() < end {
        thread::scope(|scope| {
            for attack in attacks..attacks + 20 {
                let (address, session) = (&server.addresses[0], &session);
                let attack = move || hostile::attack(address, session, attack);
                // Some at once, most one after another.
                if attacks % 100 == 0 { drop(scope.spawn(attack)) } else { attack() }
            }
        });
        let mut extreme = client("client_with_extreme_shapes", &server.addresses[0]);
        extreme
            .env("SEED", attacks.to_string())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        attacks += 20;
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
