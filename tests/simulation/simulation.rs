//! The simulation engine as a user meets it: no data, a clock of its own, any size.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::Autodiff;
use burn::nn::LinearConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Bool, Distribution, Int, Tensor, TensorData};
use burn_overcommit::engine::sim::{SimEngine, Workspace};
use burn_overcommit::engine::{Engine, Flops, HostTimes, Lane, Props, Tier};
use burn_overcommit::runtime::sync;
use burn_overcommit::trace::{Event, Ran};
use burn_overcommit::{Config, Exactness, Overcommit, OvercommitDevice, Policy, Profile, Reads, SimProfile};
use burn_overcommit::{Stats, Steps, configure, dry_run, recording, stats};

type Ours = Overcommit<f32, i32>;

const GIB: usize = 1 << 30;

/// A device of round figures: what a megabyte or a million multiplications take is a millisecond.
fn device(config: Config) -> OvercommitDevice {
    let props = Props {
        name: "test".to_string(),
        device_bytes: 64 * GIB,
        host_bytes: 256 * GIB,
        shares_memory: false,
        flops: Flops::all(1e9),
        memory_bytes_per_second: 1e9,
        offload_bytes_per_second: 1e9,
        fetch_bytes_per_second: 1e9,
        peer_bytes_per_second: None,
        overhead_ns: 0,
        page_bytes: Some(2 << 20),
        view_bytes: None,
        host: HostTimes::default(),
        kernels: None,
    };
    let profile = Profile { key: "test".to_string(), props, workspace: Workspace::Gpu };
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, config).expect("a valid configuration");
    device
}

fn refused<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err().expect("it is refused");
    *panic.downcast::<String>().expect("our panics carry a String")
}

fn end_ns(device: &OvercommitDevice) -> u64 {
    stats(device).unwrap().times.expect("a clock").end_ns
}

#[test]
fn each_way_of_the_link_has_its_rate() {
    let mut profile = SimProfile::named("h100").and_then(SimProfile::get).expect("a device of the table");
    (profile.props.offload_bytes_per_second, profile.props.fetch_bytes_per_second) = (1e9, 4e9);
    profile.props.overhead_ns = 0;
    let engine = SimEngine::new(&profile);
    let [device, host] = [Tier::Device, Tier::Host].map(|tier| engine.map(tier, 1_000_000).unwrap());
    // SAFETY: there is no data.
    unsafe {
        engine.copy(Lane::Offload, device, host).unwrap();
        engine.copy(Lane::Fetch, host, device).unwrap();
    }
    let busy_ns = engine.times().expect("a clock").busy_ns;
    assert_eq!([Lane::Offload, Lane::Fetch].map(|lane| busy_ns[lane as usize]), [1_000_000, 250_000]);
}

#[test]
fn files_of_devices_with_one_rate_for_both_ways_are_read() {
    let profile = SimProfile::named("h100").and_then(SimProfile::get).expect("a device of the table");
    let mut fields = serde_json::to_value(&profile.props).unwrap();
    let fields_of = fields.as_object_mut().unwrap();
    fields_of.remove("fetch_bytes_per_second");
    let rate = fields_of.remove("offload_bytes_per_second").expect("the rate of a way");
    fields_of.insert("link_bytes_per_second".into(), rate);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), fields.to_string()).unwrap();
    assert_eq!(Profile::read(file.path()).unwrap().props, profile.props);
}

/// An H100 on which a call that maps pages takes so long.
fn h100_that_maps_in(map_call_ns: u64) -> OvercommitDevice {
    let mut profile = SimProfile::named("h100").and_then(SimProfile::get).expect("a device of the table");
    profile.key = format!("h100-that-maps-in-{map_call_ns}");
    profile.props.host.map_call_ns = map_call_ns;
    OvercommitDevice::Sim(SimProfile::add(profile))
}

#[test]
fn a_budget_may_exceed_what_the_device_has() {
    let device = device(Config::new().budget("1 TiB").host_limit("2 TiB"));
    let limits = stats(&device).map(|stats| (stats.budget_bytes, stats.host_limit_bytes)).unwrap();
    assert_eq!(limits, (1024 * GIB, 2048 * GIB));
    let more_than_it_has = Tensor::<Ours, 1>::ones([20 * GIB], &device).sin();
    sync(&device).unwrap();
    let stats = stats(&device).unwrap();
    assert_eq!((stats.peak_allocated_bytes, stats.counters.evictions), (80 * GIB, 0));
    drop(more_than_it_has);
}

#[test]
fn mapping_pages_takes_the_programs_time() {
    let filled_ns = |map_call_ns| {
        let device = h100_that_maps_in(map_call_ns);
        let filled = Tensor::<Ours, 1>::ones([64 << 20], &device).sin();
        sync(&device).unwrap();
        drop(filled);
        end_ns(&device)
    };
    assert!(filled_ns(10_000_000) >= filled_ns(0) + 10_000_000);
}

#[test]
fn reads_give_what_was_asked_for_and_are_counted() {
    let values = |config: Config| {
        let device = device(config);
        let x = Tensor::<Ours, 1>::ones([3], &device);
        let read =
            (x.clone().into_data().to_vec::<f32>().unwrap(), x.int().into_data().to_vec::<i32>().unwrap());
        let counters = stats(&device).unwrap().counters;
        assert_eq!((counters.reads, counters.ops_after_read > 0), (2, true));
        read
    };
    assert_eq!(values(Config::new()), (vec![0.0; 3], vec![0; 3]));
    assert_eq!(values(Config::new().reads(Reads::Value(2.5))), (vec![2.5; 3], vec![2; 3]));
    let log = Reads::Log(vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]]);
    assert_eq!(values(Config::new().reads(log)), (vec![1.0, 2.0, 3.0], vec![4, 5, 6]));
}

#[test]
fn a_log_that_is_not_of_this_program_is_refused() {
    let device = device(Config::new().reads(Reads::Log(vec![vec![1.0, 2.0]])));
    let x = Tensor::<Ours, 1>::ones([3], &device);
    let text = x.clone().try_into_data().unwrap_err().to_string();
    assert!(text.contains("read 1 of sim:test: 2 elements were recorded, and 3 are read"), "{text}");
    let text = x.try_into_data().unwrap_err().to_string();
    assert!(text.contains("read 2 of sim:test: only 1 reads were recorded"), "{text}");
}

#[test]
fn a_size_that_depends_on_values_needs_a_density() {
    let mask = |device| Tensor::<Ours, 2, Bool>::from_data(TensorData::new(vec![true; 40], [10, 4]), device);
    let without = device(Config::new());
    let text = refused(|| mask(&without).argwhere());
    assert!(text.contains("argwhere: how much it makes depends on values, and sim:test has none"), "{text}");
    assert_eq!(mask(&device(Config::new().density(0.3))).argwhere().dims(), [12, 2]);
}

#[test]
fn time_is_that_of_the_roofline_and_of_copies_beside_it() {
    let device = device(Config::new());
    // 2 x 1000^3 operations are two seconds; reading and writing three times 4 MB would be 12 milliseconds.
    let x = Tensor::<Ours, 2>::random([1000, 1000], Distribution::Default, &device);
    let begun_ns = end_ns(&device);
    let y = x.clone().matmul(x.clone());
    assert_eq!(end_ns(&device) - begun_ns, 2_000_000_000);
    // Reading copies to the host, after the product.
    drop(y.into_data());
    assert_eq!(end_ns(&device) - begun_ns, 2_004_000_000);
    // Writing fetches beside the product that is under way.
    let before_ns = end_ns(&device);
    let product = x.clone().matmul(x.clone());
    let data = TensorData::new(vec![0.0f32; 1_000_000], [1000, 1000]);
    let fetched = Tensor::<Ours, 2>::from_data(data, &device).sin();
    assert_eq!(end_ns(&device) - before_ns, 2_008_000_000, "the sine takes 8 milliseconds after the product");
    drop((x, product, fetched));
}

/// A step of a stack of linear layers with 4 GiB of activations each.
fn step(device: &OvercommitDevice, layers: usize) -> Stats {
    type Training = Autodiff<Ours>;
    let weights: Vec<_> = (0..layers)
        .map(|_| Tensor::<Training, 2>::random([1024, 1024], Distribution::Default, device).require_grad())
        .collect();
    let x = Tensor::<Training, 2>::random([1 << 20, 1024], Distribution::Default, device);
    let y = weights.iter().fold(x, |x, weight| x.matmul(weight.clone()).tanh());
    let gradients = y.mean().backward();
    assert!(weights.iter().all(|weight| weight.grad(&gradients).is_some()));
    drop((weights, gradients));
    stats(device).unwrap()
}

#[test]
fn a_network_of_any_size_runs_without_its_memory() {
    let layers = 14;
    let run = |config: Config| step(&device(config), layers);
    let free = run(Config::new().budget("57 GiB"));
    assert!(free.counters.evictions > 0 && free.peak_allocated_bytes <= 57 * GIB);
    assert!(free.peak_host_bytes > 50 * GIB, "{free}");
    let again = run(Config::new().budget("57 GiB"));
    assert_eq!((free.times, free.counters), (again.times, again.counters), "two runs are one");
    let tight = run(Config::new().budget("16 GiB"));
    assert!(tight.times.unwrap().end_ns >= free.times.unwrap().end_ns, "less memory is not faster");
    let none = run(Config::new().budget("16 GiB").policy(Policy::EvictAll));
    assert!(none.counters.offloaded_bytes > tight.counters.offloaded_bytes);
}

#[test]
fn a_dry_run_tells_what_a_program_needs() {
    let profile = SimProfile::named("titan-x").and_then(SimProfile::get).expect("a vendor's device");
    let outcome = dry_run(&profile, Config::new(), |device, _| {
        step(device, 6);
    })
    .unwrap();
    let [first, .., last] = outcome.runs[..] else { panic!("{outcome}") };
    assert_eq!(
        (first.budget_bytes, first.time_ns, first.offloaded_bytes),
        (outcome.need_bytes, outcome.base_ns, 0)
    );
    assert_eq!(last.budget_bytes, outcome.smallest_budget_bytes);
    assert!(last.fetched_bytes + last.recomputed_bytes > 0 && last.time_ns > first.time_ns, "{outcome}");
    assert!(outcome.runs.windows(2).all(|pair| pair[0].budget_bytes > pair[1].budget_bytes), "{outcome}");
    let held = outcome.largest[0];
    assert_eq!((held.size_bytes, ["matmul", "tanh"].contains(&held.made_by)), (4 * GIB, true), "{outcome}");
    let usable = outcome.on_device().expect("an op needs 8 GiB");
    assert!(usable.budget_bytes < 12 * GIB && outcome.slowdown(usable) >= 1.0, "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("It fits by overcommitting") && text.contains(" this device"), "{text}");
}

/// Adam's moments are recipes over the first gradient until the second step, and take memory from then on.
#[test]
fn a_dry_run_answers_for_a_step_like_all_later_ones() {
    let profile = SimProfile::named("titan-x").and_then(SimProfile::get).expect("a vendor's device");
    let needs = std::cell::RefCell::new(Vec::new());
    let train = |device: &OvercommitDevice, steps: &mut Steps| {
        let mut layer = LinearConfig::new(512, 512).init::<Autodiff<Ours>>(device);
        let mut optimizer = AdamConfig::new().init();
        for step in steps {
            let x = Tensor::<Autodiff<Ours>, 2>::ones([4, 512], device);
            let gradients = GradientsParams::from_grads(layer.forward(x).sum().backward(), &layer);
            layer = optimizer.step(0.1, layer, gradients);
            needs.borrow_mut().push((step, stats(device).unwrap().peak_allocated_bytes));
        }
    };
    let outcome = dry_run(&profile, Config::new(), train).unwrap();
    let needs = needs.into_inner();
    let needs: Vec<usize> = needs.iter().take(outcome.steps).map(|&(_, bytes)| bytes).collect();
    let [.., before, last] = needs[..] else { panic!("{outcome}") };
    assert!(outcome.is_steady && outcome.steps > 2 && needs[0] < last && before == last, "{needs:?}");
    assert_eq!(outcome.need_bytes, last);
    // Weight and bias, two moments of each, and a gradient.
    assert!(last >= 4 * 512 * 513 * 4, "{last}");

    let grows = |device: &OvercommitDevice, steps: &mut Steps| {
        let random = |_| Tensor::<Ours, 1>::random([1 << 20], Distribution::Default, device).sort(0);
        drop(steps.map(random).collect::<Vec<_>>());
    };
    let outcome = dry_run(&profile, Config::new(), grows).unwrap();
    assert_eq!((outcome.steps, outcome.is_steady), (8, false));
    assert_eq!(SimProfile::named("titan-x").and_then(SimProfile::get), Some(profile), "it is as it was");
    assert!(outcome.to_string().contains("later ones may need more"), "{outcome}");
}

#[test]
fn a_dry_run_takes_the_density_of_masks() {
    let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
    let need = |density| {
        let program = |device: &OvercommitDevice, _: &mut Steps| {
            drop(Tensor::<Ours, 1>::ones([1 << 20], device).bool().argwhere())
        };
        dry_run(&profile, Config::new().density(density), program).unwrap().need_bytes
    };
    assert!(need(1.0) > need(0.1), "more indices take more memory");
}

#[test]
fn a_dry_run_of_a_program_that_keeps_tensors_is_refused() {
    let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
    let kept = std::cell::RefCell::new(Vec::new());
    let program = |device: &OvercommitDevice, _: &mut Steps| {
        kept.borrow_mut().push(Tensor::<Ours, 1>::ones([3], device))
    };
    let text = dry_run(&profile, Config::new(), program).unwrap_err().to_string();
    assert!(text.contains("cannot be configured while 1 of its tensors"), "{text}");
}

#[test]
fn the_vendors_devices_are_there_by_name() {
    let keys = "k40c titan-x titan-v v100 a100-40 a100-80 rtx3060 rtx4090 h100 h200 rtx3090 rtx4060ti rtx4070 rtx4080 rtx5070ti \
                rtx5080 rtx5090 t4 a10 l4 l40s a6000 b200 gh200 gb10";
    for key in keys.split_whitespace() {
        let device: OvercommitDevice = format!("sim:{key}").parse().unwrap();
        assert_eq!(device.to_string(), format!("sim:{key}"));
        let zeros = Tensor::<Ours, 1, Int>::zeros([4], &device);
        assert_eq!(zeros.into_data().to_vec::<i32>().unwrap(), [0; 4]);
        assert!(stats(&device).unwrap().times.unwrap().end_ns > 0);
    }
    let text = "sim:gtx".parse::<OvercommitDevice>().unwrap_err();
    assert!(text.contains("expected one of sim:k40c, sim:titan-x"), "{text}");
    // A profile that was added under a name that there is takes its place.
    SimProfile::add(SimProfile::named("h200").and_then(SimProfile::get).unwrap());
    let text = "sim:gtx".parse::<OvercommitDevice>().unwrap_err();
    assert_eq!(text.matches("sim:h200").count(), 1, "{text}");
}

#[test]
fn from_the_second_iteration_on_what_was_offloaded_is_back_in_time() {
    // A layer takes a millisecond, and a copy of what it makes about as long: what is fetched when it is asked for delays.
    let device = device(Config::new().budget("40 MB").recompute(false));
    let weight = Tensor::<Ours, 2>::ones([1000, 1000], &device);
    let step = || {
        let mut kept = vec![weight.clone() + 1.0];
        for layer in 0..24 {
            kept.push(kept[layer].clone().mul(weight.clone()));
        }
        while let Some(x) = kept.pop() {
            let _ = x.sum();
        }
    };
    let steps: Vec<_> = (0..4)
        .map(|_| {
            let (begin, before) = (end_ns(&device), stats(&device).unwrap().counters);
            step();
            let after = stats(&device).unwrap().counters;
            let ahead = after.prefetched_bytes - before.prefetched_bytes;
            (end_ns(&device) - begin, after.fetched_bytes - before.fetched_bytes, ahead)
        })
        .collect();
    let (first_ns, fetched, ahead) = steps[0];
    assert!(fetched > 10_000_000 && ahead == 0, "{fetched} {ahead}");
    let (last_ns, fetched, ahead) = steps[3];
    assert!(ahead * 10 > fetched * 9, "{ahead} of {fetched}");
    assert!(last_ns < first_ns, "{last_ns} {first_ns}");
}

/// A training step of three convolutions of 3x3 pixels within a budget, in nanoseconds, and its smallest budget.
fn convolutions(device: &OvercommitDevice) -> (u64, usize) {
    type Training = Autodiff<Ours>;
    let random = |dims: [usize; 4]| Tensor::<Training, 4>::random(dims, Distribution::Default, device);
    let weights = [(); 3].map(|()| random([256, 256, 3, 3]).require_grad());
    let image = random([4, 256, 32, 32]);
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let begun_ns = end_ns(device);
    let y = weights.iter().fold(image, |x, weight| conv2d(x, weight.clone(), None, options.clone()));
    let gradients = y.mean().backward();
    assert!(weights.iter().all(|weight| weight.grad(&gradients).is_some()));
    let step_ns = end_ns(device) - begun_ns;
    (step_ns, stats(device).unwrap().smallest_budget_bytes)
}

#[test]
fn the_fastest_algorithm_that_fits_is_taken_where_bits_may_differ() {
    let run = |exactness, budget_bytes: usize| {
        convolutions(&device(Config::new().exactness(exactness).budget_bytes(budget_bytes)))
    };
    let (exact_ns, exact_bytes) = run(Exactness::Exact, GIB);
    let (fast_ns, least_bytes) = run(Exactness::Fast, GIB);
    assert!(3 * fast_ns < exact_ns, "tiles take less than a third: {fast_ns} of {exact_ns}");
    // Without room for any workspace, there is none.
    assert!(least_bytes < exact_bytes);
    let (tight_ns, _) = run(Exactness::Fast, least_bytes);
    assert!(tight_ns > 2 * fast_ns, "no room for tiles: {tight_ns}");
    // Between, some have room.
    let (some_ns, _) = run(Exactness::Fast, 48 << 20);
    assert!(fast_ns < some_ns && some_ns < tight_ns, "{fast_ns} {some_ns} {tight_ns}");
    // Exact results have no choice.
    let (again_ns, _) = run(Exactness::Exact, 2 * GIB);
    assert_eq!(exact_ns, again_ns);
}

#[test]
fn what_is_recomputed_is_by_the_algorithm_that_made_it() {
    let config = Config::new().budget("96 MB").policy(Policy::Recompute).exactness(Exactness::Fast);
    let device = device(config.record());
    let random = |dims: [usize; 4]| Tensor::<Ours, 4>::random(dims, Distribution::Default, &device);
    let (image, weight) = (random([4, 256, 32, 32]), random([256, 256, 3, 3]));
    let made = conv2d(image.clone(), weight.clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1));
    // What fills the memory has the result dropped, and leaves less room than its workspace took.
    let kept: Vec<_> = (0..22).map(|_| random([4, 256, 32, 32])).collect();
    let _ = made.sum().into_data();
    let events = recording(&device).unwrap().events;
    let of = |name: &str, ran: &Ran| (name == "conv").then(|| ran.end_ns - ran.begin_ns);
    let times: Vec<u64> = (events.iter())
        .filter_map(|event| match event {
            Event::Op(op) => of(&op.name, &op.ran),
            Event::Recompute(again) => of(&again.name, &again.ran),
            _ => None,
        })
        .collect();
    let [first_ns, again_ns] = times[..] else { panic!("it is not recomputed once: {times:?}") };
    let direct_ns = 2 * 9 * 256 * 4 * 256 * 32 * 32;
    assert!(2 * first_ns < direct_ns, "{first_ns}");
    assert_eq!(first_ns, again_ns);
    drop((kept, image, weight));
}
