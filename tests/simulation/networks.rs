//! The papers' networks: as many parameters as published, and one training step of each family.

use std::collections::HashSet;
use std::path::Path;

use burn::backend::Autodiff;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams, SgdConfig};
use burn::tensor::Tensor;
use burn_overcommit::trace::{Event, How};
use burn_overcommit::{
    Config, Counters, Overcommit, OvercommitDevice, PlanCache, SimProfile, configure, recording, stats,
};
use burn_overcommit_networks::resnet::{ResNetConfig, Residual};
use burn_overcommit_networks::{
    Architecture, EXAMPLES, Spec, by_name, densenet, gpt, lstm, parameter_count, training_step,
};

type B = Autodiff<Overcommit>;

const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);

fn spec(name: &str) -> Spec {
    by_name(name).unwrap_or_else(|| panic!("there is no network {name}"))
}

fn count(name: &str) -> usize {
    parameter_count::<B>(&spec(name).network(&DEVICE))
}

/// Where each count is published is said at the network.
#[test]
fn parameters_are_as_published() {
    let published = [
        ("alexnet", 60_965_224),
        ("nin", 7_595_176),
        ("overfeat", 145_920_872),
        ("vgg-16", 138_357_544),
        ("vgg-19", 143_667_240),
        ("googlenet", 6_998_552),
        ("inception-v4", 42_679_816),
        ("resnet-18", 11_689_512),
        ("resnet-34", 21_797_672),
        ("resnet-50", 25_557_032),
        ("resnet-101", 44_549_160),
        ("resnet-152", 60_192_808),
        ("densenet-121", 7_978_856),
        ("densenet-169", 14_149_480),
        ("densenet-201", 20_013_928),
        ("unet", 31_030_658),
        ("gpt2-small", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ];
    for (name, parameters) in published {
        assert_eq!(count(name), parameters, "{name}");
    }
}

/// Burn's LSTM has a second bias for each of the four gates.
#[test]
fn recurrent_parameters_are_as_published_but_for_a_second_bias() {
    for (name, published, width) in [("lstm-medium", 19_775_200, 650), ("lstm-large", 66_022_000, 1500)] {
        assert_eq!(count(name), published + 2 * 4 * width, "{name}");
    }
}

/// A 3x3 convolution more in every stage of VGG, and a bottleneck block more in the third stage of a residual network.
#[test]
fn deeper_networks_are_repetitions() {
    let convolution: usize =
        [64, 128, 256, 512, 512].iter().map(|channels| 9 * channels * channels + channels).sum();
    for depth in [116, 216, 316, 416] {
        assert_eq!(
            count(&format!("vgg-{depth}")),
            138_357_544 + (depth - 16) / 5 * convolution,
            "vgg-{depth}"
        );
    }
    let block = 2 * 256 * 1024 + 9 * 256 * 256 + 2 * (256 + 256 + 1024);
    assert_eq!(count("resnet-2500") - count("resnet-1001"), (788 - 289) * block);
}

#[test]
fn depths_follow_their_rules() {
    let depth = |name: &str| match spec(name).architecture {
        Architecture::ResNet(config) => (config.depth(), config.blocks),
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(depth("resnet-50"), (50, [3, 4, 6, 3]));
    assert_eq!(depth("resnet-137"), (137, [6, 32, 1, 6]));
    assert_eq!(depth("resnet-1001"), (1001, [6, 32, 289, 6]));
    assert_eq!(depth("resnet-2500"), (2498, [6, 32, 788, 6]));
    assert_eq!(depth("resnet-basic-34"), (34, [3, 4, 6, 3]));
    assert_eq!(depth("resnet-basic-1000"), (1000, [3, 4, 489, 3]));
    let unknown = [
        "",
        "resnet",
        "resnet-51",
        "resnet-basic-23",
        "vgg-15",
        "vgg-17",
        "densenet-5",
        "gpt-2x65",
        "gpt2-2",
    ];
    for name in unknown {
        assert_eq!(by_name(name), None, "{name}");
    }
    for name in EXAMPLES {
        assert_eq!(spec(name).name, name);
    }
}

/// Counts parameters, and those that have a gradient; running statistics have neither.
struct Gradients<'a> {
    gradients: &'a GradientsParams,
    missing: usize,
    found: usize,
}

impl ModuleVisitor<B> for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<B, D>>) {
        if parameter.is_require_grad() {
            match self.gradients.get::<Overcommit, D>(parameter.id) {
                Some(gradient) => {
                    assert_eq!(gradient.dims(), parameter.dims());
                    self.found += 1;
                }
                None => self.missing += 1,
            }
        }
    }
}

/// One forward and backward pass and one step of a batch of two.
fn learn(spec: Spec) {
    let network = spec.network::<B>(&DEVICE);
    let sample = spec.sample::<B>(2, &DEVICE);
    assert_eq!(network.forward(sample.input.clone()).dims(), [spec.rows(2), spec.classes], "{}", spec.name);
    assert_eq!(sample.targets.dims(), [spec.rows(2)], "{}", spec.name);

    let gradients = network.loss(sample.clone()).backward();
    let gradients = GradientsParams::from_grads(gradients, &network);
    let mut visitor = Gradients { gradients: &gradients, missing: 0, found: 0 };
    network.visit(&mut visitor);
    assert!(
        visitor.found > 0 && visitor.missing == 0,
        "{}: {} without a gradient",
        spec.name,
        visitor.missing
    );

    let parameters = parameter_count::<B>(&network);
    let (network, loss) = training_step(network, &mut SgdConfig::new().init(), 0.01, sample);
    assert!(loss.into_scalar().is_finite(), "{}", spec.name);
    assert_eq!(parameter_count::<B>(&network), parameters, "{}: a step changes no shape", spec.name);
}

/// Each convolutional family for the smallest images that it takes, at a fraction of its width where it has one.
fn small_convolutional() -> Vec<Spec> {
    let basic = ResNetConfig { residual: Residual::Basic, blocks: [1, 1, 1, 1], width: 8 };
    let bottleneck = ResNetConfig { residual: Residual::Bottleneck, ..basic };
    let dense = densenet::DenseNetConfig { layers: [2, 2, 2, 2], growth: 4 };
    let small = |name: &str, side| spec(name).with_side(side).with_classes(10);
    vec![
        small("alexnet", 67),
        small("overfeat", 71),
        small("vgg-16", 32),
        small("googlenet", 32),
        small("inception-v4", 75),
        Spec { architecture: Architecture::ResNet(basic), ..small("resnet-18", 32) },
        Spec { architecture: Architecture::ResNet(bottleneck), ..small("resnet-50", 32) },
        Spec { architecture: Architecture::DenseNet(dense), ..small("densenet-121", 32) },
        Spec { architecture: Architecture::UNet { width: 2 }, ..spec("unet").with_side(188) },
    ]
}

fn small_language_models() -> Vec<Spec> {
    let recurrent = lstm::RecurrentConfig { layers: 2, width: 16, dropout: 0.5 };
    let small = |name: &str| spec(name).with_length(5).with_classes(50);
    let heads = gpt::GptConfig { layers: 1, width: 32, heads: 4 };
    vec![
        Spec { architecture: Architecture::Recurrent(recurrent), ..small("lstm-medium") },
        small("gpt-2x64"),
        Spec { architecture: Architecture::Gpt(heads), ..small("gpt2-small") },
    ]
}

#[test]
fn every_convolutional_family_learns() {
    small_convolutional().into_iter().for_each(learn);
}

#[test]
fn every_language_model_learns() {
    small_language_models().into_iter().for_each(learn);
}

/// Peaks, the largest need of an op and all totals of one training step.
fn usage(device: &OvercommitDevice, spec: &Spec, config: Config) -> ([usize; 3], Counters) {
    configure(device, config).unwrap();
    let network = spec.network::<B>(device);
    training_step(network, &mut AdamConfig::new().init(), 0.01, spec.sample::<B>(2, device));
    let stats = stats(device).unwrap();
    ([stats.peak_allocated_bytes, stats.peak_host_bytes, stats.smallest_budget_bytes], stats.counters)
}

#[test]
fn every_family_is_simulated_to_the_byte() {
    let profile = SimProfile::named("host").and_then(SimProfile::get).expect("a profile of this machine");
    let (host, simulated) = (OvercommitDevice::Host(50), OvercommitDevice::Sim(SimProfile::add(profile)));
    for spec in small_convolutional().into_iter().chain(small_language_models()) {
        let ([peak, _, smallest], _) = usage(&simulated, &spec, Config::new());
        let mut evictions = 0;
        for budget in [peak, (peak / 3).max(smallest), smallest] {
            // A simulation cannot count zeros, so neither does.
            let config = || Config::new().budget_bytes(budget).host_limit("4 GiB").sparsity([0.5]);
            let expected = usage(&host, &spec, config());
            assert_eq!(usage(&simulated, &spec, config()), expected, "{} in {budget} bytes", spec.name);
            evictions += expected.1.evictions;
        }
        assert!(evictions > 0, "{}: no budget binds", spec.name);
    }
}

/// The ops that made what the last of some training steps offloads, in a third of the memory that they need.
fn offloaded(restrict: impl Fn(Config) -> Config) -> HashSet<String> {
    let spec = spec("nin");
    let steps = |config: Config| {
        let mut profile = SimProfile::named("k40c").and_then(SimProfile::get).expect("a vendor's device");
        // So fast that moving is cheaper than any op.
        profile.props = profile.props.with_link(1e12);
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, config.record()).unwrap();
        let (mut network, mut optimizer) = (spec.network::<B>(&device), SgdConfig::new().init());
        for _ in 0..5 {
            network = training_step(network, &mut optimizer, 0.01, spec.sample(64, &device)).0;
        }
        recording(&device).unwrap();
        training_step(network, &mut optimizer, 0.01, spec.sample(64, &device));
        (recording(&device).unwrap(), stats(&device).unwrap())
    };
    let (_, unlimited) = steps(Config::new());
    let config = Config::new().fusion(false).budget_bytes(unlimited.peak_allocated_bytes / 3);
    let (last, stats) = steps(restrict(config));
    assert!(stats.counters.plans > 0);
    let evicted = last.events.into_iter().filter_map(|event| match event {
        Event::Evict(evicted) if evicted.how != How::Drop => Some(evicted.made_by.into_owned()),
        _ => None,
    });
    evicted.collect()
}

#[test]
fn checkpoints_alone_are_offloaded_where_that_is_said() {
    let is_checkpoint = |name: &String| name != "relu" && !name.contains("pool");
    let all = offloaded(|config| config);
    assert!(!all.iter().all(is_checkpoint), "{all:?}");
    let restricted = offloaded(Config::offload_checkpoints_only);
    assert!(!restricted.is_empty() && restricted.iter().all(is_checkpoint), "{restricted:?}");
}

/// The time of a step of a network in each of these parts of the memory that it needs. Plans are kept, so that the search for a
/// larger budget begins with those of the smaller ones.
fn step_times((spec, batch): (&Spec, usize), folder: &Path, parts: &[f64]) -> Vec<u64> {
    const STEPS: usize = 8;
    let run = |config: Config| {
        let profile = SimProfile::named("rtx4090").and_then(SimProfile::get).unwrap();
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, config).unwrap();
        let mut model = spec.network::<B>(&device);
        let mut optimizer = AdamConfig::new().init();
        let mut ends_ns = Vec::new();
        for _ in 0..STEPS {
            let (next, loss) = training_step(model, &mut optimizer, 1e-3, spec.sample(batch, &device));
            model = next;
            let _ = loss.into_data();
            ends_ns.push(stats(&device).unwrap().times.unwrap().end_ns);
        }
        (ends_ns[STEPS - 1] - ends_ns[STEPS - 2], stats(&device).unwrap().peak_allocated_bytes)
    };
    let (_, need_bytes) = run(Config::new());
    let within = |part: &f64| {
        let cache = PlanCache::Folder(folder.into());
        run(Config::new().budget_bytes((need_bytes as f64 * part) as usize).plan_cache(cache)).0
    };
    parts.iter().map(within).collect()
}

#[test]
fn a_larger_budget_is_not_slower() {
    let gpt = spec("gpt-4x128").with_classes(256).with_length(256);
    for (spec, batch) in [(spec("resnet-18"), 32), (spec("unet"), 2), (gpt, 16), (spec("googlenet"), 32)] {
        let folder = tempfile::tempdir().unwrap();
        let times_ns = step_times((&spec, batch), folder.path(), &[0.5, 0.6, 0.7]);
        // Without planned addresses, steps differ a little.
        let is_not_slower = |&before: &u64, &after: &u64| after as f64 <= before as f64 * 1.003;
        assert!(times_ns.is_sorted_by(is_not_slower), "{}: {times_ns:?}", spec.name);
    }
}

/// What follows a token has no part in its score.
#[test]
fn attention_is_causal() {
    let spec = spec("gpt-1x64").with_length(4).with_classes(50);
    let network = spec.network::<Overcommit>(&DEVICE);
    let scores = |tokens: [i32; 4]| {
        let tokens = Tensor::from_data([tokens], &DEVICE);
        network
            .forward(burn_overcommit_networks::SampleInput::Tokens(tokens))
            .into_data()
            .to_vec::<f32>()
            .unwrap()
    };
    let (one, other) = (scores([1, 2, 3, 4]), scores([1, 2, 30, 40]));
    assert_eq!(one[..2 * 50], other[..2 * 50]);
    assert_ne!(one[2 * 50..], other[2 * 50..]);
}

/// The narrowest residual network of about so many layers, by SuperNeurons' rule.
fn deep(depth: usize) -> Spec {
    let config = ResNetConfig { width: 2, ..ResNetConfig::superneurons(depth).unwrap() };
    assert!(depth - config.depth() < 3);
    let deep = Spec { architecture: Architecture::ResNet(config), ..spec("resnet-2500") };
    deep.with_side(32).with_classes(10)
}

fn on_a_stack_of(size_bytes: usize, run: fn()) {
    std::thread::Builder::new().stack_size(size_bytes).spawn(run).unwrap().join().unwrap();
}

/// Building, running and dropping a network does not recurse by its depth.
#[test]
fn ten_thousand_layers_are_a_loop() {
    on_a_stack_of(256 << 10, || {
        let spec = deep(10_000);
        let network = spec.network::<Overcommit>(&DEVICE);
        let scores = network.forward(spec.sample(1, &DEVICE).input);
        assert_eq!(scores.dims(), [1, 10]);
    });
}

/// Nor does training it. A thousand layers, because Burn's autodiff takes time quadratic in the layers: each parameter
/// opens a graph of its own, and merging it with the rest may move the rest.
#[test]
fn a_thousand_layers_learn_on_a_small_stack() {
    on_a_stack_of(256 << 10, || {
        let spec = deep(1000);
        let network = spec.network::<B>(&DEVICE);
        let (_, loss) = training_step(network, &mut SgdConfig::new().init(), 0.01, spec.sample(1, &DEVICE));
        assert!(loss.into_scalar().is_finite());
    });
}

/// The network that SuperNeurons counts as 10,000 layers: each convolution, norm, activation and join is one.
#[test]
#[ignore = "a minute, most of it Burn's own"]
fn ten_thousand_basic_layers_learn_on_a_simulated_gpu() {
    let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    let ([peak, ..], counters) = usage(&device, &spec("resnet-3002"), Config::new().budget("5 GiB"));
    assert!(peak <= 5 << 30 && counters.evictions > 1000, "{counters:?}");
    println!("{}", stats(&device).unwrap());
}
