//! The disk tier: what the host tier has no room for goes to a file and comes back, and nothing is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Int, Tensor, activation};
use burn_overcommit::engine::fault::{DiskFault, DiskFaults, FaultyDisk};
use burn_overcommit::runtime::configure_with_engine;
use burn_overcommit::{
    Config, Error, LaneMode, Overcommit, OvercommitDevice, Policy, Stats, configure, reset_stats, runtime,
    stats,
};

const KIB: usize = 1 << 10;
/// The bytes of a tensor.
const TENSOR_BYTES: usize = 64 * KIB;

fn disk(bytes: usize) -> String {
    format!("{}:{bytes}", std::env::temp_dir().display())
}

/// Makes tensors, and reads them in another order.
fn values(device: &OvercommitDevice, tensors: usize) -> Result<Vec<Vec<f32>>, Error> {
    let made: Vec<Tensor<Overcommit, 1>> = (0..tensors)
        .map(|n| {
            Tensor::<Overcommit, 1, Int>::arange(0..(TENSOR_BYTES / 4) as i64, device).float() * n as f32
        })
        .collect();
    let mut order: Vec<usize> = (0..tensors).step_by(2).chain((1..tensors).step_by(2)).collect();
    order.reverse();
    Ok(order.into_iter().map(|n| (made[n].clone() + 1.0).into_data().to_vec().expect("floats")).collect())
}

fn with(device: OvercommitDevice, config: Config, tensors: usize) -> (Vec<Vec<f32>>, Stats) {
    configure(&device, config.policy(Policy::TensorCache)).expect("a host device");
    reset_stats(&device).expect("a host device");
    let values = values(&device, tensors).expect("enough memory");
    (values, stats(&device).expect("a device that ran"))
}

#[test]
fn what_the_host_has_no_room_for_goes_to_the_disk() {
    let (expected, _) = with(OvercommitDevice::Host(60), Config::new(), 40);
    for lanes in [LaneMode::Threads, LaneMode::Deferred { seed: 3 }] {
        let config = Config::new()
            .budget_bytes(4 * TENSOR_BYTES)
            .host_limit_bytes(4 * TENSOR_BYTES)
            .disk(&disk(64 * TENSOR_BYTES))
            .lanes(lanes);
        let (found, seen) = with(OvercommitDevice::Host(61), config, 40);
        assert!(found == expected);
        println!("{seen}");
        assert!(seen.peak_disk_bytes > 30 * TENSOR_BYTES && seen.counters.loaded_bytes > 0, "{seen}");
        assert_eq!((seen.disk_bytes, seen.host_bytes), (0, 0));
    }
}

#[test]
fn after_a_write_that_failed_the_host_limit_holds() {
    let device = OvercommitDevice::Host(90);
    let faults = Arc::new(DiskFaults::new(DiskFault::FailedRequests(0)));
    let faulty = |engine| Arc::new(FaultyDisk::new(engine, faults.clone())) as _;
    let config = Config::new()
        .budget_bytes(4 * TENSOR_BYTES)
        .host_limit_bytes(4 * TENSOR_BYTES)
        .disk(&disk(64 * TENSOR_BYTES))
        .recompute(false);
    configure_with_engine(&device, config, faulty).expect("a host device");
    let mut made = Vec::new();
    let filled = catch_unwind(AssertUnwindSafe(|| {
        for value in 0..40 {
            made.push(Tensor::<Overcommit, 1, Int>::full([TENSOR_BYTES / 4], value, &device));
            runtime::sync(&device).expect("nothing is lost");
        }
    }));
    let text = *filled.unwrap_err().downcast::<String>().expect("an error says something");
    assert!(text.contains("host tier is full") && text.contains("since a write to it failed"), "{text}");
    let seen = stats(&device).expect("a device that ran");
    assert!((1..4).contains(&seen.failed_writes) && made.len() < 14, "{}: {seen}", made.len());
    made.truncate(made.len() - 2);
    for (value, tensor) in made.into_iter().enumerate() {
        assert!(tensor.into_data().iter::<i32>().all(|element| element == value as i32));
    }
}

#[derive(Module, Debug)]
struct Deep<B: Backend> {
    layers: Vec<Linear<B>>,
}

/// The losses of two steps of a network of so many layers.
fn losses(device: &OvercommitDevice, layers: usize) -> Vec<f32> {
    type B = Autodiff<Overcommit>;
    const WIDTH: usize = 384;
    runtime::seed(device, 5).expect("a host device");
    B::seed(device, 5);
    let layer = |_| LinearConfig::new(WIDTH, WIDTH).init(device);
    let mut network = Deep::<B> { layers: (0..layers).map(layer).collect() };
    let mut optimizer = SgdConfig::new().init();
    let images = Tensor::<B, 2>::random([64, WIDTH], Distribution::Normal(0.0, 1.0), device);
    let step = |_| {
        let hidden =
            |x: Tensor<B, 2>, layer: &Linear<B>| x.clone() + activation::relu(layer.forward(x)) * 0.1;
        let loss = network.layers.iter().fold(images.clone(), hidden).powi_scalar(2).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.01, network.clone(), gradients);
        loss.into_scalar()
    };
    (0..2).map(step).collect()
}

#[test]
fn a_network_of_twenty_times_device_and_host_memory_trains() {
    let (free, small) = (OvercommitDevice::Host(62), OvercommitDevice::Host(63));
    configure(&free, Config::new()).expect("a host device");
    let expected = losses(&free, 120);
    let needed_bytes = stats(&free).expect("a device that ran").peak_allocated_bytes;
    let (budget_bytes, host_limit_bytes) = (needed_bytes / 32, needed_bytes / 80);
    let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(host_limit_bytes);
    configure(&small, config.disk(&disk(2 * needed_bytes))).expect("a host device");
    assert!(losses(&small, 120) == expected);
    let seen = stats(&small).expect("a device that ran");
    println!("{seen}");
    assert!(20 * (seen.budget_bytes + seen.host_limit_bytes) <= needed_bytes);
}

#[test]
fn a_disk_that_cannot_be_used_is_an_error_that_says_why() {
    let device = OvercommitDevice::Host(64);
    let refused = |disk: &str| configure(&device, Config::new().disk(disk)).unwrap_err().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none");
    assert!(refused(&format!("{}:1GiB", none.display())).contains("No such file"));
    assert!(refused(&format!("{}:1000TB", folder.path().display())).contains("are free"));
    let error = refused("/tmp");
    assert!(error.starts_with("Config::disk: \"/tmp\" was given; expected FOLDER:BYTES such as"), "{error}");
    configure(&device, Config::new()).expect("the device works without");
}

#[test]
fn the_file_has_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = OvercommitDevice::Host(65);
    let config = Config::new()
        .budget_bytes(4 * TENSOR_BYTES)
        .host_limit_bytes(4 * TENSOR_BYTES)
        .disk(&format!("{}:{}", folder.path().display(), 64 * TENSOR_BYTES));
    let (_, seen) = with(device, config, 40);
    assert!(seen.peak_disk_bytes > 0);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// What encoded values would take is counted while an iteration is logged, and the counts wait in host memory.
#[test]
fn counts_of_values_leave_host_memory_to_reads() {
    let device = OvercommitDevice::Host(66);
    let config = Config::new().budget_bytes(64 * KIB).host_limit_bytes(64 * KIB);
    configure(&device, config.disk(&disk(KIB * KIB))).expect("a host device");
    let values = Tensor::<Overcommit, 1, Int>::arange(0..256, &device).float();
    // Logging begins with the first eviction, and counting where device memory has room.
    drop((0..100).map(|n| values.clone() + n as f32).collect::<Vec<_>>());
    let made: Vec<_> = (0..30).map(|n| activation::relu(values.clone() - n as f32)).collect();
    let large = Tensor::<Overcommit, 1, Int>::arange(0..10 << 10, &device).into_data();
    assert_eq!(large.num_elements(), 10 << 10);
    for (n, made) in made.into_iter().enumerate() {
        let expected: Vec<f32> = (0..256).map(|value| (value as f32 - n as f32).max(0.0)).collect();
        assert_eq!(made.into_data().to_vec::<f32>().expect("floats"), expected);
    }
}
