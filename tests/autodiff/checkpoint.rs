//! Scopes whose contents are recomputed first.

use std::collections::HashSet;

use burn::backend::Autodiff;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, PaddingConfig2d};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Distribution, Tensor, TensorData, activation};
use burn_overcommit::autodiff::{MemorySaving, SavesLess, checkpoint};
use burn_overcommit::trace::{Event, How, Recording};
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Planning, PlantedFault, Policy, SimProfile, Stats, configure,
    recording, reset_stats, runtime, stats,
};

use super::gradients::numbers;

/// What is checkpointed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scopes {
    None,
    Blocks,
    /// Blocks in pairs of blocks.
    Nested,
}

/// A block of a network: a convolution and what goes with it, twice, and the input.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    norms: Vec<BatchNorm<B>>,
    dropout: Dropout,
}

impl<B: Backend> Block<B> {
    fn new(channels: usize, device: &B::Device) -> Self {
        let convolution = || {
            let config = Conv2dConfig::new([channels; 2], [3, 3]).with_padding(PaddingConfig2d::Same);
            config.with_bias(false).init(device)
        };
        Block {
            convolutions: (0..2).map(|_| convolution()).collect(),
            norms: (0..2).map(|_| BatchNormConfig::new(channels).init(device)).collect(),
            dropout: DropoutConfig::new(0.2).init(),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let layers = self.convolutions.iter().zip(&self.norms);
        let y = layers.fold(x.clone(), |y, (convolution, norm)| {
            self.dropout.forward(activation::gelu(norm.forward(convolution.forward(y))))
        });
        x + y
    }
}

#[derive(Module, Debug)]
struct Network<B: Backend> {
    blocks: Vec<Block<B>>,
}

impl<B: SavesLess<Device = OvercommitDevice>> Network<B> {
    fn new(blocks: usize, channels: usize, device: &B::Device) -> Self {
        Network { blocks: (0..blocks).map(|_| Block::new(channels, device)).collect() }
    }

    fn forward(&self, x: Tensor<B, 4>, scopes: Scopes) -> Tensor<B, 4> {
        let through = |blocks: &[Block<B>], x: Tensor<B, 4>| {
            blocks.iter().fold(x, |x, block| match scopes {
                Scopes::None => block.forward(x),
                _ => noted(|x| block.forward(x), x),
            })
        };
        match scopes {
            Scopes::Nested => self.blocks.chunks(2).fold(x, |x, blocks| noted(|x| through(blocks, x), x)),
            _ => through(&self.blocks, x),
        }
    }
}

/// `checkpoint`, with the scope's begin and end in the recording.
fn noted<B: SavesLess<Device = OvercommitDevice>>(
    f: impl FnOnce(Tensor<B, 4>) -> Tensor<B, 4>,
    x: Tensor<B, 4>,
) -> Tensor<B, 4> {
    let device = x.device();
    runtime::note(&device, "in").unwrap();
    let y = checkpoint(f, x);
    runtime::note(&device, "out").unwrap();
    y
}

/// Bits of all parameters' gradients, or of what else a module has.
struct Bits<'a, B: AutodiffBackend> {
    gradients: Option<&'a B::Gradients>,
    found: Vec<Vec<u32>>,
}

fn bits(data: TensorData) -> Vec<u32> {
    data.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Bits<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let value = param.val();
        let data = match self.gradients {
            Some(gradients) => value.grad(gradients).map(Tensor::into_data),
            None => Some(value.into_data()),
        };
        self.found.extend(data.map(bits));
    }
}

/// Two steps' outputs and gradients, and the norms' moments after them.
fn train<B>(device: &OvercommitDevice, scopes: Scopes) -> Vec<Vec<u32>>
where
    B: AutodiffBackend<Device = OvercommitDevice> + SavesLess,
{
    B::seed(device, 11);
    let network = Network::<B>::new(5, 6, device);
    let mut found = Vec::new();
    for step in 0..2 {
        let x = Tensor::from_data(TensorData::new(numbers(3 * 6 * 49, step), [3, 6, 7, 7]), device);
        let y = network.forward(x, scopes);
        let gradients = y.clone().square().mean().backward();
        let mut visitor = Bits { gradients: Some(&gradients), found: Vec::new() };
        network.visit(&mut visitor);
        assert_eq!(visitor.found.len(), 30);
        found.extend(visitor.found);
        found.push(bits(y.into_data()));
    }
    let moments = network.blocks.iter().flat_map(|block| &block.norms);
    found.extend(moments.flat_map(|norm| {
        [norm.running_mean.value_sync(), norm.running_var.value_sync()].map(|moment| bits(moment.into_data()))
    }));
    found
}

fn same_bits<B>(first_device: u16)
where
    B: AutodiffBackend<Device = OvercommitDevice> + SavesLess,
{
    let free = OvercommitDevice::Host(first_device);
    let expected = train::<B>(&free, Scopes::None);
    let needed = stats(&free).unwrap();
    assert!(train::<B>(&free, Scopes::Nested) == expected);
    assert_eq!(stats(&free).unwrap().counters.evictions, 0, "memory suffices");
    let budget = needed.smallest_budget_bytes.max(needed.peak_allocated_bytes / 4);
    let mut device = first_device;
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        for scopes in [Scopes::Blocks, Scopes::Nested] {
            for budget in [budget, needed.smallest_budget_bytes] {
                for pages in [false, true] {
                    device += 1;
                    let device = OvercommitDevice::Host(device);
                    let config = Config::new().budget_bytes(budget.next_multiple_of(4 << 10)).policy(policy);
                    configure(&device, config.page_mapping(pages).page_bytes(4 << 10)).unwrap();
                    let found = train::<B>(&device, scopes);
                    assert!(found == expected, "{policy}, {scopes:?}, {budget} bytes, pages: {pages}");
                    assert!(stats(&device).unwrap().counters.evictions > 10, "{policy}: {budget} bytes");
                }
            }
        }
    }
}

#[test]
fn the_same_bits_with_scopes_and_without() {
    same_bits::<Autodiff<Overcommit>>(2000);
    same_bits::<MemorySaving<Overcommit>>(3000);
}

/// A forward and a backward pass on a simulated device, where to convolve again takes longer than to copy.
fn simulated(scopes: Scopes, share: f64, config: Config) -> (Recording, Stats) {
    type B = Autodiff<Overcommit>;
    let step = |scopes, config| {
        let mut profile = SimProfile::named("k40c").and_then(SimProfile::get).unwrap();
        profile.props.device_bytes = 1 << 40;
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, config).unwrap();
        let network = Network::<B>::new(8, 320, &device);
        let y = network.forward(Tensor::ones([8, 320, 56, 56], &device), scopes);
        runtime::note(&device, "backward").unwrap();
        drop(y.mean().backward());
        (recording(&device).unwrap(), stats(&device).unwrap())
    };
    let config = config.planning(Planning::Off).record();
    let (_, free) = step(Scopes::None, config.clone().budget_bytes(1 << 40));
    assert_eq!(free.counters.evictions, 0);
    step(scopes, config.budget_bytes((free.peak_allocated_bytes as f64 * share) as usize))
}

/// What was made in a scope that has it not as its result, and what was evicted in the forward pass, and how.
fn forward(recording: &Recording) -> (HashSet<u64>, Vec<(u64, How)>) {
    let (mut marked, mut evicted) = (HashSet::new(), Vec::new());
    let mut made: Vec<Vec<u64>> = Vec::new();
    for event in &recording.events {
        match event {
            Event::Note(text) if text == "in" => made.push(Vec::new()),
            Event::Note(text) if text == "out" => {
                let mut made_inside = made.pop().unwrap();
                let result = made_inside.pop().unwrap();
                marked.extend(made_inside);
                made.iter_mut().for_each(|outer| outer.push(result));
            }
            Event::Op(op) => {
                if let Some(scope) = made.last_mut() {
                    scope.extend(op.outputs.iter().map(|made| made.storage));
                }
            }
            Event::Evict(eviction) => evicted.push((eviction.storage, eviction.how)),
            Event::Note(text) if text == "backward" => break,
            _ => {}
        }
    }
    (marked, evicted)
}

/// What was evicted in the forward pass that was not marked, or that was not dropped.
fn unruly(recording: &Recording) -> Vec<(u64, How)> {
    let (marked, mut evicted) = forward(recording);
    assert!(evicted.len() > 20);
    evicted.retain(|(storage, how)| !marked.contains(storage) || *how != How::Drop);
    evicted
}

#[test]
fn marks_that_are_lost_or_too_many_are_noticed() {
    for fault in [PlantedFault::LostMarks, PlantedFault::MarkedResults] {
        let (recording, _) = simulated(Scopes::Blocks, 0.5, Config::new().plant_fault(fault));
        assert!(!unruly(&recording).is_empty(), "{fault:?}");
    }
}

#[test]
fn what_is_marked_is_dropped_and_nothing_else_leaves() {
    // So that all results are stored, with scopes and without.
    let config = Config::new().fusion(false);
    let (recording, without) = simulated(Scopes::None, 0.5, config.clone());
    let (_, evicted) = forward(&recording);
    assert!(evicted.iter().any(|&(_, how)| how == How::Offload), "the test shows nothing: {evicted:?}");
    let (recording, with) = simulated(Scopes::Blocks, 0.5, config);
    assert_eq!(unruly(&recording), []);
    println!("without scopes {without}\nwith {with}");
    assert!(4 * with.counters.offloaded_bytes < without.counters.offloaded_bytes);
    assert!(4 * with.peak_host_bytes < without.peak_host_bytes);
    assert!(with.counters.recomputed_ops > 0);
}

/// The time of the last of several steps in scopes in two fifths of what they need, on a simulated device, and what it evicted.
fn last_step(planning: Planning) -> (u64, Stats) {
    type B = Autodiff<Overcommit>;
    let train = |budget_bytes, steps| {
        let mut profile = SimProfile::named("k40c").and_then(SimProfile::get).unwrap();
        profile.props.device_bytes = 1 << 40;
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, Config::new().budget_bytes(budget_bytes).planning(planning)).unwrap();
        let end_ns = || stats(&device).unwrap().times.unwrap().end_ns;
        let network = Network::<B>::new(5, 320, &device);
        let mut begin_ns = 0;
        for _ in 0..steps {
            begin_ns = end_ns();
            reset_stats(&device).unwrap();
            let x = network.forward(Tensor::ones([8, 320, 56, 56], &device), Scopes::Blocks);
            drop(x.mean().backward());
        }
        (end_ns() - begin_ns, stats(&device).unwrap())
    };
    let (_, free) = train(1 << 40, 2);
    train(2 * free.peak_allocated_bytes / 5, 10)
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_plan_is_not_slower_than_marks_without_one() {
    let (marked_ns, marked) = last_step(Planning::Off);
    let (planned_ns, planned) = last_step(Planning::AtOnce);
    println!("marks {marked_ns} ns, planned {planned_ns}\n{marked}\n{planned}");
    assert!(marked.counters.drops > 0 && planned_ns <= marked_ns, "{planned_ns} ns, marks {marked_ns}");
}

#[test]
fn marks_mean_nothing_where_nothing_may_be_dropped() {
    let stores = || Config::new().fusion(false);
    for config in [stores().policy(Policy::TensorCache), stores().recompute(false)] {
        let counters =
            [Scopes::None, Scopes::Nested].map(|scopes| simulated(scopes, 0.1, config.clone()).1.counters);
        assert!(counters[0] == counters[1] && counters[0].offloaded_bytes > 0 && counters[0].drops == 0);
    }
}

/// The storage that is evicted first of what `make` made and others; the first of all is not marked, and was used before them.
fn first_evicted(index: u16, make: impl Fn(&OvercommitDevice) -> Tensor<Overcommit, 1>) -> u64 {
    let device = OvercommitDevice::Host(index);
    let config = Config::new().budget_bytes(8 << 20).policy(Policy::Auto).planning(Planning::Off);
    configure(&device, config.record()).unwrap();
    let before = made_of(1 << 18, &device);
    let made = make(&device);
    let other = made_of(7 << 18, &device);
    drop((before, made, other));
    let first = recording(&device).unwrap().events.into_iter().find_map(|event| match event {
        Event::Evict(eviction) => Some(eviction.storage),
        _ => None,
    });
    first.expect("the budget binds")
}

#[test]
fn an_outer_scope_marks_the_results_of_inner_ones() {
    let block = |x: Tensor<Overcommit, 1>| checkpoint(|x: Tensor<Overcommit, 1>| x + 1.0, x);
    let result = |device: &OvercommitDevice| block(made_of(1 << 18, device));
    assert_eq!(first_evicted(523, result), 0, "a result is not marked");
    let inner_result = |device: &OvercommitDevice| {
        let mut made = None;
        checkpoint(|x| made.insert(block(x)).clone() * 2.0, made_of(1 << 18, device));
        made.unwrap()
    };
    assert_eq!(first_evicted(524, inner_result), 2, "but by the outer scope");
}

#[test]
fn scopes_are_of_one_thread_and_end_with_a_panic() {
    let inside = |device: &OvercommitDevice| {
        let mut made = None;
        checkpoint(
            |x: Tensor<Overcommit, 1>| made.insert(x.clone() + 1.0).clone() * 2.0,
            made_of(1 << 18, device),
        );
        made.unwrap()
    };
    assert_eq!(first_evicted(520, inside), 2, "what a scope made goes first");
    let by_another_thread = |device: &OvercommitDevice| {
        let mut made = None;
        let device = *device;
        checkpoint(
            |x| (made = std::thread::spawn(move || made_of(1 << 18, &device) + 1.0).join().ok(), x).1,
            made_of(1 << 18, &device),
        );
        made.unwrap()
    };
    assert_eq!(first_evicted(521, by_another_thread), 0, "the least recently used goes first");
    let after_a_panic = |device: &OvercommitDevice| {
        let panics =
            || checkpoint(|_| -> Tensor<Overcommit, 1> { std::panic::resume_unwind(Box::new(())) }, ());
        assert!(std::panic::catch_unwind(panics).is_err());
        made_of(1 << 18, device) + 1.0
    };
    assert_eq!(first_evicted(522, after_a_panic), 0, "the least recently used goes first");
}

/// As many elements, which an op makes at once.
fn made_of(count: usize, device: &OvercommitDevice) -> Tensor<Overcommit, 1> {
    Tensor::random([count], Distribution::Default, device)
}
