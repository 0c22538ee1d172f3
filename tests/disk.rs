//! The disk tier: what the host tier has no room for goes to a file and comes back, and nothing is lost.
#![cfg(feature = "host")]

use burn::tensor::{Int, Tensor};
use burn_overcommit::{
    Config, Error, LaneMode, Overcommit, OvercommitDevice, Policy, Stats, configure, reset_stats, stats,
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
            .disk_checksums(true)
            .lanes(lanes);
        let (found, seen) = with(OvercommitDevice::Host(61), config, 40);
        assert!(found == expected);
        println!("{seen}");
        assert!(seen.peak_disk_bytes > 30 * TENSOR_BYTES && seen.counters.loaded_bytes > 0, "{seen}");
        assert_eq!((seen.disk_bytes, seen.host_bytes), (0, 0));
    }
}
