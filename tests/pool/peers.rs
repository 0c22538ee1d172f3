//! Memory of other devices: offloaded bytes go there before or after the host's, by their speed, and come back.

use burn::tensor::{Int, Tensor};
use burn_overcommit::{
    Config, Error, LaneMode, Overcommit, OvercommitDevice, Policy, Stats, configure, reset_stats, stats,
};

/// The bytes of a tensor.
const TENSOR_BYTES: usize = 64 << 10;
const TENSORS: usize = 40;

/// Makes tensors, and reads them in another order.
fn values(device: &OvercommitDevice) -> Result<Vec<Vec<f32>>, Error> {
    let made: Vec<Tensor<Overcommit, 1>> = (0..TENSORS)
        .map(|n| {
            Tensor::<Overcommit, 1, Int>::arange(0..(TENSOR_BYTES / 4) as i64, device).float() * n as f32
        })
        .collect();
    let order = (0..TENSORS).step_by(2).chain((1..TENSORS).step_by(2)).rev();
    Ok(order.map(|n| (made[n].clone() + 1.0).into_data().to_vec().expect("floats")).collect())
}

fn with(index: u16, config: Config) -> (Vec<Vec<f32>>, Stats) {
    let device = OvercommitDevice::Host(index);
    configure(&device, config.policy(Policy::TensorCache)).expect("a host device");
    reset_stats(&device).expect("a host device");
    let values = values(&device).expect("enough memory");
    (values, stats(&device).expect("a device that ran"))
}

/// A budget and a host tier of so many tensors.
fn small(budget: usize, host: usize) -> Config {
    Config::new().budget_bytes(budget * TENSOR_BYTES).host_limit_bytes(host * TENSOR_BYTES)
}

#[test]
fn a_faster_device_is_used_before_the_host() {
    let (expected, _) = with(70, Config::new());
    for lanes in [LaneMode::Threads, LaneMode::Deferred { seed: 3 }] {
        let peers = format!("90:{}@100GB/s", 64 * TENSOR_BYTES);
        let (found, seen) = with(71, small(4, 64).peers(&peers).lanes(lanes));
        assert!(found == expected);
        assert!(seen.peak_peer_bytes > 30 * TENSOR_BYTES, "{seen}");
        // Only what the program reads.
        assert!(seen.peak_host_bytes <= 2 * TENSOR_BYTES, "{seen}");
        assert_eq!((seen.peer_bytes, seen.host_bytes), (0, 0));
    }
}

#[test]
fn a_slower_device_takes_what_the_host_has_no_room_for() {
    let (expected, _) = with(72, Config::new());
    let peers = format!("90:{}@1GB/s", 64 * TENSOR_BYTES);
    let (found, seen) = with(73, small(4, 64).peers(&peers));
    assert!(found == expected);
    assert_eq!(seen.peak_peer_bytes, 0, "{seen}");
    let (found, seen) = with(74, small(4, 8).peers(&peers));
    assert!(found == expected);
    assert!(seen.peak_peer_bytes > 20 * TENSOR_BYTES, "{seen}");
}

#[test]
fn all_tiers_together_hold_more_than_each() {
    let (expected, _) = with(75, Config::new());
    let peers = format!("90:{},91:{}@100GB/s", 6 * TENSOR_BYTES, 6 * TENSOR_BYTES);
    let disk = format!("{}:{}", std::env::temp_dir().display(), 64 * TENSOR_BYTES);
    let (found, seen) = with(76, small(4, 6).peers(&peers).disk(&disk));
    println!("{seen}");
    assert!(found == expected);
    assert!(seen.peak_peer_bytes >= 11 * TENSOR_BYTES && seen.peak_disk_bytes > 10 * TENSOR_BYTES, "{seen}");
    assert_eq!((seen.peer_bytes, seen.host_bytes, seen.disk_bytes), (0, 0, 0));
}

#[test]
fn other_devices_that_cannot_be_used_are_an_error_that_says_why() {
    let refused = |device: OvercommitDevice, peers: &str| {
        configure(&device, Config::new().peers(peers)).unwrap_err().to_string()
    };
    let error = refused(OvercommitDevice::Host(77), "77:1MiB");
    assert!(error.contains("host:77 is the device itself"), "{error}");
    let error = refused(OvercommitDevice::Host(77), "cuda:1:1MiB");
    assert!(error.starts_with("Config::peers: \"cuda:1:1MiB\" was given; expected INDEX:BYTES"), "{error}");
}
