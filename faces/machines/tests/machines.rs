//! An orchestrator and four nodes as processes on the loopback interface, and what the nodes say when one of them is gone.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use burn_overcommit_machines::checkpoint;
use burn_overcommit_machines::exchange::{Exchange, Members};
use burn_overcommit_machines::launch::{Launch, Processes, free_port};
use burn_overcommit_machines::node::{self, Outcome, Task};
use burn_overcommit_machines::orchestrator;
use serial_test::serial;
use tempfile::TempDir;

const NODES: usize = 4;
const STEPS: usize = 40;
/// Steps between checkpoints.
const EVERY: usize = 5;
const BATCH: usize = 128;
const BUCKET_BYTES: usize = 64 << 10;
/// A part of what a node needs with all memory.
const BUDGETS: [&str; NODES] = ["640 KiB", "704 KiB", "640 KiB", "768 KiB"];
/// More than this a node does not take to end after the time limit.
const MARGIN: Duration = Duration::from_secs(15);

fn launch(folder: &Path, limit_s: u64) -> Launch {
    let text = |number: usize| number.to_string();
    let options = [
        ("--steps", text(STEPS)),
        ("--batch", text(BATCH)),
        ("--every", text(EVERY)),
        ("--bucket", text(BUCKET_BYTES)),
        ("--checkpoint", folder.display().to_string()),
    ];
    Launch {
        program: env!("CARGO_BIN_EXE_machines").into(),
        nodes: NODES,
        limit_s,
        budgets: BUDGETS.map(String::from).to_vec(),
        options: options.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect(),
        outcomes: Some(folder.to_path_buf()),
    }
}

/// Trains to the end, and returns what came of each node.
fn train(folder: &Path) -> Vec<Outcome> {
    let ended = launch(folder, 20).start(&[], Stdio::inherit).expect("processes start").wait();
    let ended = ended.expect("processes end");
    assert!(ended.is_success(), "{ended:?}");
    let outcome = |rank: usize| Outcome::read(&folder.join(format!("node-{rank}.outcome")));
    (0..NODES).map(|rank| outcome(rank).expect("each node has written one")).collect()
}

/// What one process learns from the whole batch with all memory.
fn alone(folder: &Path) -> Outcome {
    let limit = Duration::from_secs(30);
    let members = Members { rank: 0, nodes: 1, server: String::new(), limit };
    let task = Task {
        members,
        budget: None,
        steps: STEPS,
        batch: BATCH,
        checkpoints: folder.to_path_buf(),
        every: STEPS,
        bucket_bytes: BUCKET_BYTES,
        outcome: None,
    };
    node::run(&task).expect("nothing is missing")
}

fn floats(outcome: &Outcome) -> impl Iterator<Item = f32> {
    outcome.weights.iter().map(|&bits| f32::from_bits(bits))
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

/// Waits until all nodes have checkpoints.
fn wait_for_checkpoints(folder: &Path) {
    let begun = Instant::now();
    let are_there =
        || (0..NODES).all(|rank| checkpoint::steps(folder, rank).is_ok_and(|steps| !steps.is_empty()));
    while !are_there() {
        assert!(begun.elapsed() < Duration::from_secs(90), "no checkpoints");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the nodes but one, and expects that each ends with one line that says this.
fn expect_errors(processes: &mut Processes, but: usize, limit: Duration, expected: &str) {
    let begun = Instant::now();
    for (rank, node) in processes.nodes.iter_mut().filter(|(rank, _)| *rank != but) {
        let mut said = String::new();
        node.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        let status = node.wait().expect("it ends");
        assert!(begun.elapsed() < limit, "node {rank} took {:?}: {said}", begun.elapsed());
        assert!(!status.success());
        // The crate's own messages tell which device is the default.
        let is_message = |line: &&str| {
            line.starts_with("step ")
                || line.contains("goes on after")
                || line.starts_with("burn-overcommit: ")
        };
        let errors: Vec<&str> = said.lines().filter(|line| !is_message(line)).collect();
        println!("{errors:?} after {:?}", begun.elapsed());
        assert_eq!(errors.len(), 1, "node {rank} says: {said}");
        assert!(errors[0].starts_with(&format!("node {rank}: ")) && errors[0].contains(expected), "{said}");
    }
    assert!(!processes.orchestrator.wait().expect("it ends").success());
}

#[test]
#[serial]
fn four_processes_learn_what_one_learns() {
    let folders = [folder(), folder(), folder()];
    let expected = alone(folders[0].path());
    let learned = train(folders[1].path());
    for (rank, outcome) in learned.iter().enumerate() {
        assert!(outcome.weights == learned[0].weights, "all nodes have the same weights");
        let differences = floats(outcome).zip(floats(&expected)).map(|(a, b)| (a - b).abs());
        let furthest = differences.fold(0.0, f32::max);
        let (evictions, peak_bytes) = (outcome.evictions, outcome.peak_bytes);
        println!("node {rank}: within {furthest} of one, {evictions} evictions, at most {peak_bytes} bytes");
        assert!(furthest < 1e-5, "{furthest}");
        assert!(evictions > 0 && peak_bytes < expected.peak_bytes / 8);
    }
    let again = train(folders[2].path());
    assert!(again[0].weights == learned[0].weights, "the order in which nodes come makes no difference");
}

#[test]
#[serial]
fn training_goes_on_after_a_node_was_killed() {
    let disturbed = folder();
    let mut processes = launch(disturbed.path(), 20).start(&[], Stdio::piped).expect("processes start");
    wait_for_checkpoints(disturbed.path());
    processes.nodes[2].1.kill().expect("it runs");
    expect_errors(&mut processes, 2, Duration::from_secs(15), "node 2 is gone");
    drop(processes);
    let learned = train(disturbed.path());
    assert!(learned.iter().all(|outcome| outcome.resumed >= EVERY && outcome.resumed < STEPS));
    let expected = train(folder().path());
    assert!(expected.iter().all(|outcome| outcome.resumed == 0));
    assert!(learned[0].weights == expected[0].weights, "it is as if nothing had happened");
}

#[test]
#[serial]
fn a_node_that_never_joins_is_named() {
    let folder = folder();
    let limit = Duration::from_secs(8);
    let mut processes =
        launch(folder.path(), limit.as_secs()).start(&[3], Stdio::piped).expect("processes start");
    expect_errors(&mut processes, 3, limit + MARGIN, "node 3 did not join within 8 s");
}

#[test]
#[serial]
fn a_node_that_hangs_is_named() {
    let folder = folder();
    let limit = Duration::from_secs(8);
    let mut processes =
        launch(folder.path(), limit.as_secs()).start(&[], Stdio::piped).expect("processes start");
    wait_for_checkpoints(folder.path());
    let stopped = processes.nodes[1].1.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &stopped]).status().expect("there is kill").success());
    expect_errors(&mut processes, 1, limit + MARGIN, "node 1 did not come within 8 s");
    drop(processes);
    assert!(train(folder.path())[0].resumed >= EVERY);
}

#[test]
#[serial]
fn an_orchestrator_that_ends_is_an_error() {
    let folder = folder();
    let mut processes = launch(folder.path(), 20).start(&[], Stdio::piped).expect("processes start");
    wait_for_checkpoints(folder.path());
    processes.orchestrator.kill().expect("it runs");
    expect_errors(
        &mut processes,
        NODES,
        Duration::from_secs(15),
        "the connection to the orchestrator was lost",
    );
}

#[test]
#[serial]
fn nodes_that_were_started_with_other_options_are_told() {
    let folder = folder();
    let port = free_port().expect("there is one").to_string();
    let server = format!("127.0.0.1:{port}");
    let checkpoints = folder.path().display().to_string();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_machines"));
        command.args(arguments).args(["--nodes", "2", "--time-limit", "30"]);
        command.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let node = |rank: usize, steps: &str| {
        let name = rank.to_string();
        let place = ["node", "--rank", &name, "--server", &server];
        let training = ["--checkpoint", &checkpoints, "--steps", steps];
        (rank, start(&[place.as_slice(), training.as_slice()].concat()))
    };
    let orchestrator = start(&["orchestrator", "--port", &port]);
    let mut processes = Processes { orchestrator, nodes: vec![node(0, "40"), node(1, "50")] };
    let expected = "node 1 has --steps 50, and node 0 has 40: all nodes must have the same";
    expect_errors(&mut processes, NODES, Duration::from_secs(30), expected);
}

#[test]
fn no_orchestrator_is_an_error() {
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_machines"))
        .args(["node", "--rank", "0", "--nodes", "2", "--server", "127.0.0.1:9", "--time-limit", "1"])
        .output()
        .expect("it runs");
    let said = String::from_utf8(output.stderr).expect("it is text");
    assert!(said.contains("no orchestrator answers at 127.0.0.1:9 within 1 s"), "{said}");
    assert!(!output.status.success() && begun.elapsed() < Duration::from_secs(15));
}

/// Nodes as threads with an orchestrator. Returns what came of each.
fn together<T: Send>(nodes: usize, work: impl Fn(Exchange, usize) -> T + Sync) -> Vec<T> {
    let limit = Duration::from_secs(20);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = listener.local_addr().expect("it has an address").to_string();
    thread::scope(|scope| {
        let serving = scope.spawn(move || orchestrator::serve(listener, nodes, limit));
        let (work, server) = (&work, &server);
        let node = |rank| {
            move || {
                let members = Members { rank, nodes, server: server.clone(), limit };
                work(Exchange::join(members).expect("the orchestrator is there"), rank)
            }
        };
        let threads: Vec<_> = (0..nodes).map(|rank| scope.spawn(node(rank))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let _ = serving.join().expect("no panic");
        ended
    })
}

#[test]
fn ten_thousand_exchanges_end_and_add_in_the_order_of_the_nodes() {
    // Their sum depends on the order.
    let number = |rank: usize, step: usize| [1e8f32, 1.0, -1e8, 0.1][(rank + step) % NODES] + step as f32;
    together(NODES, |mut exchange, rank| {
        for step in 0..10_000 {
            let expected = (1..NODES).fold(number(0, step), |sum, rank| sum + number(rank, step));
            // A few bytes, and more than a segment.
            let count = if step % 10 == 0 { 20_000 } else { 3 };
            let sums = exchange.sum(step, &vec![number(rank, step); count]).expect("all are there");
            assert!(sums.len() == count && sums.iter().all(|sum| sum.to_bits() == expected.to_bits()));
        }
        exchange.leave(10_000);
    });
}

#[test]
fn nodes_that_bring_different_numbers_are_told() {
    let errors =
        together(2, |mut exchange, rank| exchange.sum(7, &vec![0.0; 3 + rank]).expect_err("one more"));
    for error in errors {
        let error = error.to_string();
        assert!(error.starts_with("step 7: node ") && error.contains(": all must train the same"), "{error}");
    }
}
