//! What a newcomer does wrong: each is one message with what was given, what was expected and what to do, and the process goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::Autodiff;
use burn::tensor::{Int, Tensor, TensorData};
use burn_overcommit::{Config, Error, Overcommit, OvercommitDevice, configure, stats};

type B = Autodiff<Overcommit>;

const WIDTH: usize = 64;
const MATRIX_BYTES: usize = WIDTH * WIDTH * 4;

fn host(index: u16) -> OvercommitDevice {
    OvercommitDevice::Host(500 + index)
}

/// The message of what is refused.
fn refused<T>(attempt: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(attempt)) else { panic!("nothing was refused") };
    *panic.downcast::<String>().expect("our panics carry a String")
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
    assert!(text.len() < 700, "it is too long: {text}");
}

/// A step of training whose gradients are read.
fn step(device: &OvercommitDevice, layers: usize) -> Vec<u32> {
    let matrix = |value: f32| Tensor::<B, 2>::full([WIDTH, WIDTH], value, device);
    let weights: Vec<_> = (0..layers).map(|layer| matrix(0.01 * layer as f32).require_grad()).collect();
    let y = weights.iter().fold(matrix(0.5), |x, weight| x.matmul(weight.clone()).tanh());
    let gradients = y.sum().backward();
    let bits = |weight: &Tensor<B, 2>| {
        let gradient = weight.grad(&gradients).expect("it is tracked").into_data();
        gradient.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>()
    };
    weights.iter().flat_map(bits).collect()
}

#[test]
fn a_budget_that_means_nothing_is_refused_with_what_would() {
    let device = host(0);
    let error = |budget: &str| configure(&device, Config::new().budget(budget)).unwrap_err().to_string();
    for budget in ["", "lots", "-1", "8 gigs", "1e400 GiB", "%"] {
        says(
            &error(budget),
            &[
                "Config::budget",
                &format!("\"{budget}\""),
                "bytes such as 8 GiB or 500000, or a share such as 50%",
            ],
        );
    }
    for budget in ["120%", "NaN%"] {
        says(&error(budget), &["a share from 0% to 100%"]);
    }
    for budget in ["0", "0%", "100 B"] {
        says(&error(budget), &["at least 256 bytes"]);
    }
    says(&error("4000 TiB"), &["at most the", "bytes that are free"]);
    assert_eq!(step(&device, 2).len(), 2 * WIDTH * WIDTH, "the device works as if nothing had been asked");
}

#[test]
fn a_budget_too_small_says_which_would_do() {
    let device = host(1);
    configure(&device, Config::new().budget_bytes(2 * MATRIX_BYTES)).unwrap();
    let text = refused(|| step(&device, 2));
    says(
        &text,
        &[
            "matmul needs 48.0 KiB at once",
            "the budget is 32.0 KiB",
            "smallest budget for this op is 49152 bytes",
            "OVERCOMMIT_BUDGET",
        ],
    );
    // What it says is enough for this op, and what later ones say for these.
    let mut budget_bytes = 3 * MATRIX_BYTES;
    let expected = loop {
        configure(&device, Config::new().budget_bytes(budget_bytes)).unwrap();
        match catch_unwind(AssertUnwindSafe(|| step(&device, 2))) {
            Ok(bits) => break bits,
            Err(panic) => {
                assert!(
                    stats(&device).unwrap().smallest_budget_bytes <= budget_bytes,
                    "only ops that ran count"
                );
                let text = panic.downcast::<String>().expect("our panics carry a String");
                let needed = text.split("smallest budget for this op is ").nth(1).expect("it says so");
                let needed_bytes = needed.split(' ').next().and_then(|bytes| bytes.parse().ok());
                budget_bytes = needed_bytes.filter(|&bytes| bytes > budget_bytes).expect("a larger budget");
            }
        }
    };
    configure(&device, Config::new()).unwrap();
    assert_eq!(step(&device, 2), expected);
}

#[test]
fn configuring_too_late_says_what_is_alive() {
    let device = host(2);
    let kept = Tensor::<B, 2>::ones([WIDTH, WIDTH], &device);
    let late = || configure(&device, Config::new().budget("1 MiB"));
    let error = late().unwrap_err();
    assert!(matches!(error, Error::InUse { storages: 1, .. }), "{error:?}");
    says(&error.to_string(), &["host:502", "1 of its tensors", "before the first use", "abandoned forward"]);
    drop(kept);
    late().unwrap();
    // A forward pass that no backward pass follows.
    let weight = Tensor::<B, 2>::ones([WIDTH, WIDTH], &device).require_grad();
    drop(weight.clone().matmul(weight.clone()).tanh().sum());
    drop(weight);
    says(&late().unwrap_err().to_string(), &["abandoned forward", "until the next backward"]);
    // The next backward pass frees it.
    let weight = Tensor::<B, 2>::ones([2, 2], &device).require_grad();
    drop(weight.sum().backward());
    late().unwrap();
}

#[test]
fn mixed_devices_are_named() {
    let [first, second] = [host(3), host(4)].map(|device| Tensor::<Overcommit, 1>::ones([8], &device));
    let text = refused(|| first.clone() + second.clone());
    // Burn itself looks, before it calls a backend.
    says(&text, &["Host(503)", "Host(504)", "not on the same device"]);
    let sum = first + second.to_device(&host(3));
    assert_eq!(sum.into_data(), TensorData::from([2.0f32; 8]));
}

#[test]
fn a_device_that_this_machine_lacks_says_what_to_use() {
    let error = configure(&OvercommitDevice::Cuda(63), Config::new()).unwrap_err().to_string();
    says(&error, &["cuda:63", "not available", "use host:0"]);
    let text = refused(|| Tensor::<Overcommit, 1>::ones([8], &OvercommitDevice::Cuda(63)));
    says(&text, &["cuda:63", "use host:0"]);
    let error = "gpu:0".parse::<OvercommitDevice>().unwrap_err();
    says(&error, &["\"gpu:0\"", "expected cuda:N, host:N or sim:KEY"]);
}

#[test]
fn a_panic_in_training_that_is_caught_leaves_nothing_behind() {
    let (device, other) = (host(5), host(6));
    configure(&device, Config::new().budget_bytes(6 * MATRIX_BYTES)).unwrap();
    let expected = step(&other, 8);
    for _ in 0..20 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let weight = Tensor::<B, 2>::ones([WIDTH, WIDTH], &device).require_grad();
            let y = (0..6).fold(weight.clone(), |x, _| x.matmul(weight.clone()).tanh());
            assert!(y.dims()[0] > WIDTH, "a mistake of the program");
        }));
        assert!(caught.is_err());
        // So does an op that does not fit.
        refused(|| Tensor::<B, 2>::ones([WIDTH, 16 * WIDTH], &device).into_data());
        assert_eq!(step(&device, 8), expected);
    }
    let told = stats(&device).unwrap();
    assert!(told.storages <= 16 && told.allocated_bytes <= told.budget_bytes, "{told}");
    assert_eq!(told.counters.out_of_memory, 20);
}

/// A disk without room. Linux has one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_what_is_written_there_and_nothing_else() {
    let device = host(7);
    configure(&device, Config::new().record()).unwrap();
    let bits = step(&device, 2);
    let recording = burn_overcommit::recording(&device).unwrap();
    let error = recording.save("/dev/full").unwrap_err().to_string();
    says(&error, &["/dev/full", "No space left"]);
    assert_eq!(step(&device, 2), bits);
    // Plans that cannot be kept are searched again in the next run.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not a folder");
    std::fs::write(&file, "").unwrap();
    let device = host(8);
    let cache = burn_overcommit::PlanCache::Folder(file);
    let planned = Config::new().budget_bytes(6 * MATRIX_BYTES).plan_cache(cache);
    configure(&device, planned.planning(burn_overcommit::Planning::AtOnce)).unwrap();
    let expected = step(&host(9), 8);
    for _ in 0..6 {
        assert_eq!(step(&device, 8), expected);
    }
}

#[test]
fn what_has_no_elements_has_no_extreme_and_no_mean_of_integers() {
    let device = host(30);
    let empty = || Tensor::<Overcommit, 2>::zeros([3, 0], &device);
    let integers = || Tensor::<Overcommit, 2, Int>::zeros([3, 0], &device);
    for (text, name) in [
        (refused(|| empty().max_dim(1)), "max"),
        (refused(|| empty().min_dim(1)), "min"),
        (refused(|| empty().argmax(1)), "argmax"),
        (refused(|| empty().max_dim_with_indices(1)), "argmax"),
        (refused(|| empty().max()), "max"),
        (refused(|| integers().mean_dim(1)), "mean"),
    ] {
        says(&text, &[name, "has no elements", "an axis that has some"]);
    }
    assert_eq!(empty().sum_dim(1).into_data().to_vec::<f32>().unwrap(), [0.0; 3]);
    assert!(empty().mean_dim(1).into_data().iter::<f32>().all(f32::is_nan));
}
