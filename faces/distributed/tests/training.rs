//! Data parallel training: several devices with parts of a batch learn what one learns from the whole.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use burn::backend::Autodiff;
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::Backend;
use burn::tensor::backend::distributed::{
    DistributedBackend, DistributedConfig, DistributedParamId, ReduceOperation,
};
use burn::tensor::{Tensor, TensorData, activation};
use burn_overcommit::op::{Dtype, Shape};
use burn_overcommit::runtime::{self, Patience, Reduction};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, configure, stats};
use serial_test::serial;

type B = Autodiff<Overcommit>;

const WIDTH: usize = 64;
const LAYERS: usize = 6;
/// Samples of the whole batch.
const BATCH: usize = 64;
const STEPS: usize = 30;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl Network<B> {
    fn new(device: &OvercommitDevice) -> Self {
        B::seed(device, 3);
        let layers: Vec<Linear<B>> =
            (0..LAYERS).map(|_| LinearConfig::new(WIDTH, WIDTH).init(device)).collect();
        // Burn draws weights where and when they are first looked at.
        layers.iter().for_each(|layer| drop((layer.weight.val(), layer.bias.as_ref().map(Param::val))));
        Network { layers }
    }

    /// The squared error of some rows of the batch.
    fn loss(&self, device: &OvercommitDevice, step: usize, rows: std::ops::Range<usize>) -> Tensor<B, 1> {
        let data = |salt: usize| {
            let values = (rows.start * WIDTH..rows.end * WIDTH)
                .map(|at| ((at * 31 + step * 17 + salt) % 23) as f32 / 23.0);
            let values: Vec<f32> = values.collect();
            Tensor::<B, 2>::from_data(TensorData::new(values, [rows.len(), WIDTH]), device)
        };
        let (inputs, targets) = (data(0), data(5));
        let outputs = self.layers.iter().fold(inputs, |x, layer| activation::tanh(layer.forward(x)));
        (outputs - targets).square().mean()
    }

    fn weights(&self) -> Vec<f32> {
        let weights = |layer: &Linear<B>| layer.weight.val().into_data().to_vec::<f32>().expect("floats");
        self.layers.iter().flat_map(weights).collect()
    }
}

/// Marks the parameters whose gradients are reduced.
struct Marked;

impl ModuleMapper<B> for Marked {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, tensor, mapper) = param.consume();
        Param::from_mapped_value(id, tensor.set_distributed(DistributedParamId::from(id.val())), mapper)
    }
}

/// Trains a network on a part of each batch.
fn train(
    mut network: Network<B>,
    device: &OvercommitDevice,
    rows: std::ops::Range<usize>,
    steps: usize,
) -> Vec<f32> {
    let mut optimizer = AdamConfig::new().init();
    for step in 0..steps {
        let gradients = network.loss(device, step, rows.clone()).backward();
        let gradients = GradientsParams::from_grads(gradients, &network);
        network = optimizer.step(1e-3, network, gradients);
    }
    network.weights()
}

/// What some devices learn together, each in a budget of its own.
fn trained_by(devices: &[OvercommitDevice], steps: usize, config: &Config) -> Vec<Vec<f32>> {
    devices.iter().for_each(|device| configure(device, config.clone()).expect("a host device"));
    let network = Network::new(&devices[0]);
    let reduced = DistributedConfig { all_reduce_op: ReduceOperation::Mean };
    B::start_communication_server(devices, reduced);
    let share = BATCH / devices.len();
    let learned = thread::scope(|scope| {
        let workers: Vec<_> = (devices.iter().enumerate())
            .map(|(index, device)| {
                let network = network.clone().fork(device).map(&mut Marked);
                scope.spawn(move || train(network, device, index * share..(index + 1) * share, steps))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    B::close_communication_server(&devices[0]);
    learned
}

fn devices(first: u16, count: u16) -> Vec<OvercommitDevice> {
    (first..first + count).map(OvercommitDevice::Host).collect()
}

#[test]
#[serial]
fn devices_together_learn_what_one_learns() {
    let alone = OvercommitDevice::Host(200);
    configure(&alone, Config::new()).expect("a host device");
    let expected = train(Network::new(&alone), &alone, 0..BATCH, STEPS);
    let needed_bytes = stats(&alone).expect("a device that ran").peak_allocated_bytes;
    let small = Config::new().budget_bytes(needed_bytes / 2).host_limit_bytes(1 << 30);
    for count in [2, 4] {
        let learned = trained_by(&devices(210 + 10 * count, count), STEPS, &small);
        let again = trained_by(&devices(260 + 10 * count, count), STEPS, &small);
        for weights in &learned {
            assert!(weights == &learned[0], "all devices have the same weights");
            let furthest = weights.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            println!("{count} devices: within {furthest} of one");
            assert!(furthest < 1e-4, "{count} devices: {furthest}");
        }
        assert!(learned == again, "the order of additions does not depend on who comes first");
        let seen = stats(&OvercommitDevice::Host(210 + 10 * count)).expect("a device that ran");
        assert!(seen.peak_allocated_bytes <= needed_bytes / 2 && seen.counters.evictions > 0, "{seen}");
    }
}

#[test]
#[serial]
fn many_short_runs_never_wait_for_ever() {
    let config = Config::new().budget("300 KiB").host_limit_bytes(1 << 28).planning(Planning::Background);
    for run in 0..200 {
        trained_by(&devices(300 + 2 * (run % 8), 2), 3, &config);
    }
}

#[test]
fn tensors_are_added_in_the_order_of_the_devices() {
    let devices = devices(320, 3);
    let values = [1e8f32, 1.0, -1e8];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let brought = order.map(|at| {
            let bytes = values[at].to_ne_bytes();
            let tensor = runtime::write(&devices[at], &bytes, Dtype::F32, Shape::new(&[1])).expect("room");
            runtime::all_reduce(tensor, Reduction::Sum, 1, &devices).expect("floats")
        });
        for (tensor, at) in brought.into_iter().zip(order) {
            runtime::sync_collective(&devices[at]).expect("reduced");
            assert_eq!(runtime::read(tensor).expect("room"), ((1e8f32 + 1.0) - 1e8).to_ne_bytes());
        }
    }
    let whole = runtime::write(&devices[0], &[0; 4], Dtype::I32, Shape::new(&[1])).expect("room");
    let error = runtime::all_reduce(whole, Reduction::Sum, 1, &devices).expect_err("integers");
    assert!(error.to_string().starts_with("all_reduce: it does not work on inputs of i32"), "{error}");
}

/// Brings a number of a device, to be added to those of the others.
fn bring(device: &OvercommitDevice, value: f32, devices: &[OvercommitDevice]) -> runtime::Tensor {
    let tensor = runtime::write(device, &value.to_ne_bytes(), Dtype::F32, Shape::new(&[1])).expect("room");
    runtime::all_reduce(tensor, Reduction::Sum, 2, devices).expect("floats")
}

#[test]
fn a_device_whose_thread_has_ended_is_not_waited_for_for_ever() {
    let devices = devices(330, 3);
    let patience = Patience { ended: Duration::from_millis(200), ..Patience::default() };
    let wait = |device: &OvercommitDevice| runtime::sync_collective_within(device, patience);
    thread::scope(|scope| scope.spawn(|| drop(bring(&devices[2], 1.0, &devices))).join()).expect("it ends");
    devices[..2].iter().for_each(|device| drop(bring(device, 1.0, &devices)));
    devices.iter().for_each(|device| wait(device).expect("all have brought theirs"));

    let begun = Instant::now();
    devices[..2].iter().for_each(|device| drop(bring(device, 1.0, &devices)));
    for device in &devices[..2] {
        let error = wait(device).expect_err("the third brings nothing");
        assert!(error.to_string().starts_with("host:332 no longer takes part"), "{error}");
    }
    assert!(begun.elapsed() >= patience.ended);
    devices.iter().for_each(|device| wait(device).expect("nothing is waited for any more"));
    let brought = [0, 1, 2].map(|at| bring(&devices[at], 2.0, &devices));
    devices.iter().for_each(|device| wait(device).expect("all have brought theirs"));
    for tensor in brought {
        assert_eq!(runtime::read(tensor).expect("room"), 6f32.to_ne_bytes());
    }
}

#[test]
fn a_device_that_hangs_is_not_waited_for_for_ever() {
    let devices = devices(360, 2);
    let patience = Patience { silent: Duration::from_millis(200), ..Patience::default() };
    let (end, ended) = mpsc::channel();
    thread::scope(|scope| {
        let hung = &devices[1];
        scope.spawn(move || {
            drop(runtime::write(hung, &[0; 4], Dtype::F32, Shape::new(&[1])).expect("room"));
            ended.recv().expect("it is told");
        });
        drop(bring(&devices[0], 1.0, &devices));
        let error = runtime::sync_collective_within(&devices[0], patience).expect_err("it hangs");
        assert!(error.to_string().starts_with("host:361 has run no op for"), "{error}");
        end.send(()).expect("it waits");
    });
}

#[test]
fn a_device_whose_thread_lives_is_waited_for() {
    let devices = devices(340, 2);
    let patience = Patience { ended: Duration::from_millis(50), ..Patience::default() };
    thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let first = bring(&devices[1], 1.0, &devices);
            thread::sleep(10 * patience.ended);
            drop((first, bring(&devices[1], 1.0, &devices)));
        });
        for _ in 0..2 {
            drop(bring(&devices[0], 1.0, &devices));
            runtime::sync_collective_within(&devices[0], patience).expect("the other lives");
        }
        slow.join().expect("it ends");
    });
}

#[test]
#[serial]
fn what_a_training_left_behind_is_no_part_of_the_next() {
    let devices = devices(350, 2);
    devices.iter().for_each(|device| configure(device, Config::new()).expect("a host device"));
    drop(bring(&devices[0], 1e3, &devices));
    let reduced = DistributedConfig { all_reduce_op: ReduceOperation::Sum };
    B::start_communication_server(&devices, reduced);
    let brought = [0, 1].map(|at| bring(&devices[at], 1.0, &devices));
    for (tensor, device) in brought.into_iter().zip(&devices).rev() {
        runtime::sync_collective(device).expect("all have brought theirs");
        assert_eq!(runtime::read(tensor).expect("room"), 2f32.to_ne_bytes());
    }
    B::close_communication_server(&devices[0]);
}
