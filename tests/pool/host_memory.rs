//! How large a process is on the host engine, whose device memory and host tier lie in the same memory.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn::tensor::backend::Backend;
use burn_overcommit::engine::Tier;
use burn_overcommit::engine::fault::Scarce;
use burn_overcommit::op::{Dtype, Op, Scalar, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor, configure_with_engine};
use burn_overcommit::{
    Config, Error, Overcommit, OvercommitDevice, Planning, Policy, Stats, configure, stats,
};
use burn_overcommit_networks::{Spec, by_name, training_step};
use serial_test::serial;
use support::process::is_alone;

type B = Autodiff<Overcommit>;

/// Steps of a small GPT: the losses' bits, and what it came to.
fn train(index: u16, config: Config) -> (Vec<u32>, Stats) {
    train_on(index, 32, config)
}

fn train_on(index: u16, batch: usize, config: Config) -> (Vec<u32>, Stats) {
    let device = OvercommitDevice::Host(index);
    configure(&device, config).unwrap();
    B::seed(&device, 1);
    let spec: Spec = by_name("gpt-2x64").unwrap().with_length(32).with_classes(100);
    let mut network = spec.network::<B>(&device);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..6 {
        let (trained, loss) = training_step(network, &mut optimizer, 1e-3, spec.sample(batch, &device));
        network = trained;
        losses.push(loss.into_scalar().to_bits());
    }
    let stats = stats(&device).unwrap();
    (losses, stats)
}

fn both_bytes(stats: &Stats) -> usize {
    stats.peak_allocated_bytes + stats.peak_host_bytes
}

/// Checks that at a quarter of its need a program holds less in both tiers than with all memory, and than with a host limit.
fn check_a_quarter(planning: &[Planning]) {
    let (expected, free) = train(400, Config::new());
    let need_bytes = both_bytes(&free);
    let config = |planning| Config::new().budget_bytes(need_bytes / 4).planning(planning);
    let (losses, moved) = train(402, config(Planning::Off).host_limit("1 GiB"));
    assert_eq!(losses, expected);
    let moved_bytes = both_bytes(&moved);
    for &planning in planning {
        let (losses, seen) = train(401, config(planning));
        assert_eq!(losses, expected, "{planning:?}");
        let bytes = both_bytes(&seen);
        let told =
            format!("{planning:?}: {bytes} bytes of {need_bytes}, and {moved_bytes} with a host limit");
        assert!(10 * bytes < 7 * need_bytes && bytes < moved_bytes, "{told}");
    }
}

#[test]
#[serial]
fn a_budget_makes_the_process_smaller_unless_a_host_limit_is_set() {
    check_a_quarter(&[Planning::Off, Planning::Background]);
}

#[test]
#[serial]
#[ignore = "a minute or two of planning"]
fn so_it_does_with_a_plan() {
    check_a_quarter(&[Planning::AtOnce]);
}

#[test]
#[serial]
fn other_policies_move_what_they_did() {
    let (_, free) = train(403, Config::new());
    let config = || Config::new().budget_bytes(free.peak_allocated_bytes / 4).policy(Policy::TensorCache);
    let [unset, set] = [config(), config().host_limit("1 GiB")].map(|config| train(404, config).1);
    assert_eq!((unset.peak_host_bytes, unset.counters), (set.peak_host_bytes, set.counters));
}

/// A row of a file of Linux, in bytes.
#[cfg(target_os = "linux")]
fn status_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let row = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    row.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// Trains, and returns by how much the process grew at most.
#[cfg(target_os = "linux")]
fn growth_of(config: Config) -> (Vec<u32>, Stats, usize) {
    const DEVICE: OvercommitDevice = OvercommitDevice::Host(406);
    // Makes the process's peak what it has now.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before_bytes = status_bytes("VmRSS:");
    let (losses, stats) = train_on(406, 160, config.planning(Planning::Off));
    let most_bytes = status_bytes("VmHWM:");
    runtime::cleanup(&DEVICE).unwrap();
    (losses, stats, most_bytes.saturating_sub(before_bytes))
}

#[cfg(target_os = "linux")]
#[test]
#[serial]
fn the_process_is_as_large_as_device_memory_and_host_tier_together() {
    // Threads and what products are packed in come with the first.
    growth_of(Config::new());
    let (expected, free, free_bytes) = growth_of(Config::new());
    let (losses, small, small_bytes) = growth_of(Config::new().budget_bytes(free.peak_allocated_bytes / 4));
    assert_eq!(losses, expected);
    assert!(small.to_string().contains("\n| both "), "{small}");
    let told = format!("{small_bytes} bytes more, and {free_bytes} with all memory: {small}");
    assert!(small_bytes < 5 * small.peak_with_host_bytes / 4 + (8 << 20), "{told}");
    assert!(10 * small.peak_with_host_bytes < 6 * free.peak_allocated_bytes, "{told}");
    assert!(10 * small_bytes < 7 * free_bytes, "{told}");
}

#[cfg(target_os = "linux")]
#[test]
#[serial]
fn pages_count_about_once_however_many_views_there_are() {
    // Memory of a process is all its tests'.
    if !is_alone(module_path!(), "pages_count_about_once_however_many_views_there_are") {
        return;
    }
    const PAGE_BYTES: usize = 64 << 10;
    const BUDGET_BYTES: usize = 64 << 20;
    let device = OvercommitDevice::Host(405);
    let config = Config::new().page_mapping(true).page_bytes(PAGE_BYTES).budget_bytes(BUDGET_BYTES);
    // Constants are not stored where ops are fused.
    configure(&device, config.planning(Planning::Off).fusion(false)).unwrap();
    let before_bytes = status_bytes("VmRSS:");
    let fill = |pages: usize| {
        let shape = Shape::new(&[pages * PAGE_BYTES / 4]);
        runtime::create(&device, Op::Fill { shape, dtype: Dtype::F32, value: 1.0.into() }).unwrap()
    };
    // Small ones that stay, so that free memory is in pieces, and large ones that come and go.
    let mut kept: Vec<Option<Tensor>> = (0..980).map(|_| Some(fill(1))).collect();
    for round in 0..40 {
        // Seldom the same ones.
        let step = 3 + round % 5;
        for at in (round / 5 % step..kept.len()).step_by(step) {
            kept[at] = None;
        }
        let large: Vec<Tensor> = (0..4).map(|more| fill(30 + more)).collect();
        for tensor in large {
            drop(runtime::run(Op::Unary(Unary::Neg), [tensor]).unwrap());
        }
        for place in &mut kept {
            place.get_or_insert_with(|| fill(1));
        }
    }
    runtime::sync(&device).unwrap();
    let stats = stats(&device).unwrap();
    let pages = stats.reserved_bytes / PAGE_BYTES;
    assert!(stats.counters.mapped_pages as usize > 3 * pages, "few views: {stats}");
    let bytes = status_bytes("VmRSS:") - before_bytes;
    let most_bytes = 13 * stats.reserved_bytes / 10 + (8 << 20);
    assert!(bytes < most_bytes, "{bytes} bytes for {} of pages", stats.reserved_bytes);
    drop(kept);
}

/// The bytes of one of the tensors below.
const TENSOR_BYTES: usize = 64 << 10;

/// A device whose system has so many bytes of a tier.
fn scarce(index: u16, config: Config, tier: Tier, bytes: usize) -> OvercommitDevice {
    let device = OvercommitDevice::Host(index);
    let wrap = |engine| Arc::new(Scarce::new(engine, tier, bytes)) as _;
    configure_with_engine(&device, config.page_mapping(false), wrap).unwrap();
    device
}

/// A tensor that holds `value`, in a way that no op makes again if it is `written`.
fn filled(device: &OvercommitDevice, value: usize, written: bool) -> Result<Tensor, Error> {
    let shape = Shape::new(&[TENSOR_BYTES / 4]);
    if written {
        let bytes = (value as f32).to_le_bytes().repeat(TENSOR_BYTES / 4);
        return runtime::write(device, &bytes, Dtype::F32, shape);
    }
    runtime::create(device, Op::Fill { shape, dtype: Dtype::F32, value: Scalar::from(value as f64) })
}

fn holds(tensor: &Tensor, value: usize) -> bool {
    let bytes = runtime::read(tensor.clone()).expect("enough memory");
    bytes.chunks(4).all(|element| element == (value as f32).to_le_bytes())
}

#[test]
fn where_the_system_has_no_more_host_memory_the_limit_becomes_what_there_is() {
    let config = Config::new().budget_bytes(4 * TENSOR_BYTES).host_limit("1 GiB").fusion(false);
    let device = scarce(410, config, Tier::Host, 8 * TENSOR_BYTES);
    let made: Vec<Tensor> = (0..40).map(|value| filled(&device, value, value < 4).unwrap()).collect();
    assert!(made.iter().enumerate().all(|(value, tensor)| holds(tensor, value)));
    let seen = stats(&device).unwrap();
    assert!(seen.counters.recomputed_ops > 0 && seen.counters.out_of_memory == 0, "{seen}");
    assert_eq!(seen.host_limit_bytes, 8 * TENSOR_BYTES);
}

#[test]
fn an_op_that_cannot_run_otherwise_is_refused_by_both_limits() {
    let disk = format!("{}:{}", std::env::temp_dir().display(), 8 * TENSOR_BYTES);
    let config = Config::new().budget_bytes(4 * TENSOR_BYTES).host_limit("1 GiB").disk(&disk).fusion(false);
    let device = scarce(411, config, Tier::Host, 4 * TENSOR_BYTES);
    let mut kept = Vec::new();
    let error = loop {
        match filled(&device, kept.len(), true) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => break error,
        }
    };
    let text = error.to_string();
    assert!(error.is_out_of_memory(), "{text}");
    for part in [
        format!(
            "of its {} are in use ({} were allowed, and the system has no more)",
            4 * TENSOR_BYTES,
            1 << 30
        ),
        format!("of the disk's {}", 8 * TENSOR_BYTES),
    ] {
        assert!(text.contains(&part), "no \"{part}\" in: {text}");
    }
    assert!(kept.len() > 8, "{}: {text}", kept.len());
    // Tensors that can be recomputed are dropped meanwhile.
    drop(kept.split_off(4));
    let made: Vec<Tensor> = (0..40).map(|value| filled(&device, value, false).unwrap()).collect();
    assert!(made.iter().chain(&kept).zip((0..40).chain(0..)).all(|(tensor, value)| holds(tensor, value)));
}

#[test]
fn a_system_without_any_memory_for_a_device_is_out_of_memory() {
    for pages in [false, true] {
        let device = OvercommitDevice::Host(412);
        let config = Config::new().page_mapping(pages);
        let wrap = |engine| Arc::new(Scarce::new(engine, Tier::Device, 0)) as _;
        configure_with_engine(&device, config, wrap).unwrap();
        let error = filled(&device, 1, false).and_then(runtime::read).unwrap_err();
        assert!(matches!(error, Error::Engine { .. }) && error.is_out_of_memory(), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_may_have_little_memory_recomputes() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    if !is_alone(module_path!(), "a_process_that_may_have_little_memory_recomputes") {
        return;
    }
    const LEFT_BYTES: usize = 48 << 20;
    let device = OvercommitDevice::Host(413);
    let config = Config::new().budget_bytes(8 * TENSOR_BYTES).host_limit("1 GiB");
    configure(&device, config.planning(Planning::Off).fusion(false)).unwrap();
    // Threads need memory for themselves.
    assert!(holds(&filled(&device, 1, false).unwrap(), 1));
    let current = Some((status_bytes("VmSize:") + LEFT_BYTES) as u64);
    setrlimit(Resource::As, Rlimit { current, ..getrlimit(Resource::As) }).unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match filled(&device, kept.len(), true) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => break error,
        }
    };
    assert!(error.is_out_of_memory(), "{error}");
    let limit_bytes = stats(&device).unwrap().host_limit_bytes;
    assert!(limit_bytes >= LEFT_BYTES / 2 && kept.len() * TENSOR_BYTES >= limit_bytes, "{error}");
    kept.truncate(kept.len() - 8);
    let made: Vec<Tensor> = (0..100).map(|value| filled(&device, value, false).unwrap()).collect();
    assert!(
        made.iter().enumerate().chain(kept.iter().enumerate()).all(|(value, tensor)| holds(tensor, value))
    );
    assert!(stats(&device).unwrap().counters.recomputed_ops > 0);
}
