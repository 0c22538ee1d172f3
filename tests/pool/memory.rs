//! What a program sees of the pool: budgets kept, nothing leaked, bookkeeping bounded, errors that say what to do.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, Relu};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::Backend;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Int, Tensor, TensorData};
use burn_overcommit::op::{Binary, Dtype, Norm, Op, Scalar, Shape, Unary};
use burn_overcommit::runtime;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, configure, reset_stats, stats};

type Inner = Overcommit;
type Training = Autodiff<Overcommit>;

#[derive(Module, Debug)]
struct Network<B: Backend> {
    layers: Vec<Linear<B>>,
    norms: Vec<BatchNorm<B>>,
    dropout: Dropout,
    relu: Relu,
}

const WIDTH: usize = 64;

impl<B: Backend> Network<B> {
    fn new(depth: usize, device: &B::Device) -> Self {
        Network {
            layers: (0..depth).map(|_| LinearConfig::new(WIDTH, WIDTH).init(device)).collect(),
            norms: (0..depth).map(|_| BatchNormConfig::new(WIDTH).init(device)).collect(),
            dropout: DropoutConfig::new(0.1).init(),
            relu: Relu::new(),
        }
    }

    fn forward(&self, mut x: Tensor<B, 2>) -> Tensor<B, 2> {
        for (layer, norm) in self.layers.iter().zip(&self.norms) {
            x = self.dropout.forward(self.relu.forward(norm.forward(layer.forward(x))));
        }
        x
    }
}

/// Trains for some steps; after each, hands its number to `after`.
fn train(device: &OvercommitDevice, steps: usize, mut after: impl FnMut(usize)) {
    Training::seed(device, 1);
    let mut network = Network::<Training>::new(4, device);
    let mut optimizer = AdamConfig::new().init();
    for step in 0..steps {
        let pixels = (0..32 * WIDTH).map(|pixel| (pixel * 31 + step * 7) as f32 % 17.0 / 16.0).collect();
        let x = Tensor::from_data(TensorData::new::<f32, _>(pixels, [32, WIDTH]), device);
        let gradients = network.forward(x).square().mean().backward();
        let gradients = GradientsParams::from_grads(gradients, &network);
        network = optimizer.step(1e-3, network, gradients);
        after(step);
    }
}

fn device(index: u16, config: Config) -> OvercommitDevice {
    let device = OvercommitDevice::Host(index);
    configure(&device, config).unwrap();
    device
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    *panic.downcast::<String>().expect("our panics carry a String")
}

#[test]
fn bookkeeping_after_a_thousand_iterations_is_that_after_two() {
    for (index, policy) in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()).enumerate() {
        let config = Config::new().budget_bytes(200 << 10).policy(policy);
        let device = device(200 + index as u16, config);
        let mut sizes = Vec::new();
        train(&device, 1000, |_| {
            let stats = stats(&device).unwrap();
            sizes.push((stats.storages, stats.recipes));
        });
        match policy {
            // Between two steps a weight may be in a dropped state, which holds the recipes that bring it back.
            Policy::Recompute => assert!(sizes[900..].iter().max() <= sizes[1..100].iter().max(), "{policy}"),
            _ => assert_eq!(sizes[1], sizes[999], "{policy}: storages and recipes"),
        }
        let stats = stats(&device).unwrap();
        assert!(stats.counters.evictions > 1000, "{policy}: the budget does not bind");
        assert_eq!((stats.allocated_bytes, stats.host_bytes), (0, 0), "{policy}");
        assert_eq!((stats.storages, stats.recipes), (0, 0), "{policy}");
        assert!(stats.peak_allocated_bytes <= stats.budget_bytes, "{policy}");
    }
}

#[test]
fn an_op_too_large_for_the_budget_is_refused_and_a_smaller_step_works() {
    let device = device(110, Config::new().budget("64 KiB"));
    let kept = Tensor::<Inner, 1>::from_floats([1.0, 2.0, 3.0], &device);
    let refused = catch_unwind(AssertUnwindSafe(|| {
        let x = Tensor::<Inner, 2>::ones([64, 64], &device);
        x.clone().matmul(x.clone()) + Tensor::<Inner, 2>::ones([200, 200], &device).sum().unsqueeze()
    }));
    let text = message(refused.unwrap_err());
    for part in [
        "out of device memory: fill needs",
        "160000 bytes",
        "[200, 200]",
        "OVERCOMMIT_BUDGET",
        "smallest budget",
    ] {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
    let smaller = Tensor::<Inner, 2>::ones([32, 32], &device).matmul(Tensor::ones([32, 32], &device));
    assert_eq!(smaller.sum().into_scalar(), 32.0 * 32.0 * 32.0);
    assert_eq!(kept.into_data().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let stats = stats(&device).unwrap();
    assert_eq!((stats.allocated_bytes, stats.storages, stats.counters.out_of_memory), (0, 0, 1));
    assert!(stats.smallest_budget_bytes <= stats.budget_bytes, "only ops that ran count: {stats}");
}

/// Two products, after others took their place; to bring the second back takes all there is beside it, so the first has to leave
/// once more.
fn product_of_products(device: &OvercommitDevice) -> Vec<f32> {
    let values = (0..SIDE * SIDE).map(|place| (place * 31 % 17) as f32 / 16.0).collect();
    let x = Tensor::<Inner, 2>::from_data(TensorData::new::<f32, _>(values, [SIDE, SIDE]), device);
    let (forth, back) = (|| x.clone(), || x.clone().transpose());
    let first = forth().matmul(forth());
    let second = forth().matmul(back()).matmul(back().matmul(forth()));
    drop(back().matmul(back()).matmul(forth().matmul(forth())));
    first.matmul(second).into_data().to_vec().unwrap()
}

const SIDE: usize = 64;

#[test]
fn what_is_remade_for_an_op_may_leave_once_more_while_its_other_input_is_remade() {
    let unlimited = product_of_products(&device(140, Config::new()));
    let product_bytes = SIDE * SIDE * 4;
    let budget = |products: usize| Config::new().budget_bytes(products * product_bytes).offload(false);
    let limited = device(141, budget(4));
    assert_eq!(product_of_products(&limited), unlimited);
    // Nothing went to the host but what was read.
    assert_eq!(stats(&limited).unwrap().counters.offloaded_bytes, product_bytes as u64);
}

#[test]
fn where_nothing_can_leave_the_error_says_what_was_to_have_room() {
    let config = Config::new().budget("64 KiB").offload(false).recompute(false).fusion(false);
    let device = device(142, config);
    let kept = [1, 48].map(|kib| Tensor::<Inner, 1>::ones([kib * 256], &device).exp());
    let repeat = || drop(kept[0].clone().repeat_dim(0, 20).into_data());
    let text = message(catch_unwind(AssertUnwindSafe(repeat)).unwrap_err());
    assert!(
        text.contains("20.0 KiB more of device memory are needed, 49.0 KiB of 64.0 KiB are in use"),
        "{text}"
    );
}

/// One step of a convolution; only the forward if `backward` is not asked for.
fn convolve(device: &OvercommitDevice, batch: usize, backward: bool) -> Option<Vec<f32>> {
    let x = Tensor::<Training, 4>::full([batch, 4, 16, 16], 0.25, device).require_grad();
    let weight = Tensor::<Training, 4>::full([8, 4, 3, 3], 0.125, device).require_grad();
    let y = conv2d(x.clone(), weight.clone(), None, ConvOptions::new([2, 2], [1, 1], [1, 1], 1));
    // One row of many, which are views of one: the gradient has all.
    let row = weight.clone().reshape([1, 8 * 4 * 9]).expand([32 * batch, 8 * 4 * 9]).narrow(0, 0, 1);
    let loss = y.mean() + row.mean();
    backward.then(|| weight.grad(&loss.backward()).expect("tracked").into_data().to_vec().unwrap())
}

#[test]
fn a_backward_that_does_not_fit_leaves_burn_and_the_pool_usable() {
    let needs = |backward: bool| {
        let device = device(120, Config::new());
        convolve(&device, 32, backward);
        // Burn keeps an abandoned forward until the next backward.
        convolve(&device, 1, true);
        stats(&device).unwrap().smallest_budget_bytes
    };
    let (forward_bytes, both_bytes) = (needs(false), needs(true));
    assert!(
        forward_bytes < both_bytes,
        "the test needs a backward that needs more: {forward_bytes}, {both_bytes}"
    );
    let device = device(120, Config::new().budget_bytes(both_bytes - 256));
    let refused = catch_unwind(AssertUnwindSafe(|| convolve(&device, 32, true)));
    assert!(message(refused.unwrap_err()).contains("out of device memory: "));
    let smaller = convolve(&device, 16, true);
    assert_eq!(stats(&device).unwrap().allocated_bytes, 0);
    configure(&device, Config::new()).unwrap();
    assert_eq!(smaller, convolve(&device, 16, true));
}

#[test]
fn no_disk_is_advised_for_a_read_larger_than_the_host_tier() {
    let device = device(128, Config::new().budget("64 KiB").host_limit("16 KiB"));
    let large = Tensor::<Inner, 1, Int>::full([8192], 1, &device);
    let text = message(catch_unwind(AssertUnwindSafe(|| large.into_data())).unwrap_err());
    assert!(text.contains("read needs 32768 bytes of it") && !text.contains("give it a disk"), "{text}");
}

#[test]
fn a_full_host_tier_says_so_and_loses_nothing() {
    let config = Config::new().budget("64 KiB").host_limit("16 KiB").recompute(false);
    let device = device(111, config);
    let mut kept = Vec::new();
    let filled = catch_unwind(AssertUnwindSafe(|| {
        for value in 0..100 {
            kept.push(Tensor::<Inner, 1, Int>::full([1024], value, &device));
        }
    }));
    let text = message(filled.unwrap_err());
    for part in
        ["the host tier is full", "fill needs 4096 bytes of it", "OVERCOMMIT_HOST_LIMIT", "give it a disk"]
    {
        assert!(text.contains(part), "no \"{part}\" in: {text}");
    }
    assert_eq!(kept.len(), 20, "64 KiB and 16 KiB hold 20 tensors of 4 KiB");
    kept.truncate(19);
    for (value, tensor) in kept.into_iter().enumerate() {
        assert!(tensor.into_data().iter::<i32>().all(|element| element == value as i32));
    }
    assert_eq!(stats(&device).unwrap().storages, 0);
}

#[test]
fn where_host_and_device_are_full_results_are_dropped_before_an_op_is_refused() {
    let config = Config::new().budget("64 KiB").host_limit("16 KiB").policy(Policy::TensorCache);
    let device = device(133, config);
    let fill = |value| Tensor::<Inner, 1, Int>::full([1024], value, &device);
    let kept: Vec<_> = (0..100).map(fill).collect();
    assert!(stats(&device).unwrap().counters.drops > 0);
    for (value, tensor) in kept.into_iter().enumerate() {
        assert!(tensor.into_data().iter::<i32>().all(|element| element == value as i32));
    }
}

#[test]
fn uploads_that_the_host_tier_has_no_room_for_wait_in_device_memory() {
    let config = Config::new().budget("64 KiB").host_limit("16 KiB").policy(Policy::TensorCache);
    let device = device(129, config);
    let mut kept = Vec::new();
    let filled = catch_unwind(AssertUnwindSafe(|| {
        for value in 0..100 {
            let data = TensorData::new(vec![value; 1024], [1024]);
            kept.push(Tensor::<Inner, 1, Int>::from_data(data, &device));
        }
    }));
    assert!(message(filled.unwrap_err()).contains("write needs 4096 bytes"));
    assert_eq!(kept.len(), 20, "64 KiB and 16 KiB hold 20 tensors of 4 KiB");
    kept.truncate(19);
    for (value, tensor) in kept.into_iter().enumerate() {
        assert!(tensor.into_data().iter::<i32>().all(|element| element == value as i32));
    }
    assert_eq!(stats(&device).unwrap().storages, 0);
}

#[test]
fn reads_find_room_where_uploads_wait_and_other_threads_read() {
    const COUNT: usize = 64 << 10;
    let bytes = 4 * COUNT;
    let config = Config::new().budget_bytes(24 * bytes).host_limit_bytes(bytes).fusion(false);
    let device = device(130, config);
    let read_all = |tensors: &[Tensor<Inner, 1, Int>]| {
        std::thread::scope(|scope| {
            for (value, tensor) in tensors.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..50 {
                        let read = tensor.clone().into_data();
                        assert!(read.iter::<i32>().all(|element| element == value as i32));
                    }
                });
            }
        });
    };
    let computed: Vec<_> =
        (0..8).map(|value| Tensor::<Inner, 1, Int>::full([COUNT], value, &device)).collect();
    let uploaded = Tensor::<Inner, 1, Int>::from_data(TensorData::new(vec![7; COUNT], [COUNT]), &device);
    // The upload waits where the first read needs room.
    assert_eq!(computed[3].clone().into_data().to_vec::<i32>().unwrap(), vec![3; COUNT]);
    read_all(&computed);
    assert_eq!(uploaded.into_data().to_vec::<i32>().unwrap(), vec![7; COUNT]);
    assert_eq!(stats(&device).unwrap().counters.out_of_memory, 0);
}

#[test]
fn data_of_the_wrong_size_is_refused() {
    let device = device(112, Config::new());
    let mut data = TensorData::from([1.0f32, 2.0, 3.0]);
    data.shape = [2, 2].into();
    let refused = catch_unwind(AssertUnwindSafe(|| Tensor::<Inner, 2>::from_data(data, &device)));
    let text = message(refused.unwrap_err());
    assert!(text.contains("data of the wrong size") && text.contains("16 bytes"), "{text}");
}

#[test]
fn an_index_out_of_range_is_reported_by_the_read_and_the_device_goes_on() {
    let device = device(118, Config::new());
    let x = Tensor::<Inner, 1>::from_floats([1.0, 2.0, 3.0], &device);
    let index = Tensor::<Inner, 1, Int>::from_ints([0, 9], &device);
    let refused = catch_unwind(AssertUnwindSafe(|| x.clone().select(0, index).into_data()));
    let panic = refused.unwrap_err();
    let text = panic.downcast_ref::<String>().expect("Burn's panic carries a String");
    assert!(text.contains("index 9 is out of range for 3 elements"), "{text}");
    assert_eq!(x.sum().into_scalar(), 6.0);
    assert_eq!(stats(&device).unwrap().storages, 0);
}

#[test]
fn a_device_in_use_is_not_configured() {
    let device = device(113, Config::new());
    let tensor = Tensor::<Inner, 1>::ones([4], &device);
    let text = configure(&device, Config::new()).unwrap_err().to_string();
    assert!(text.contains("host:113 cannot be configured while 1 of its tensors"), "{text}");
    drop(tensor);
    configure(&device, Config::new()).unwrap();
}

#[test]
fn settings_that_cannot_be_understood_name_the_setting() {
    for (config, setting) in [
        (Config::new().budget("lots"), "Config::budget: \"lots\" was given; expected bytes such as"),
        (
            Config::new().budget("101%"),
            "Config::budget: \"101%\" was given; expected a share from 0% to 100%",
        ),
        (Config::new().budget("900 TiB"), "Config::budget: \"900 TiB\" was given; expected at most the "),
        (Config::new().budget("0"), "Config::budget: \"0\" was given; expected at least 256 bytes"),
        (
            Config::new().budget_bytes(255),
            "Config::budget_bytes: \"255 bytes\" was given; expected at least 256",
        ),
        (Config::new().host_limit("-1"), "Config::host_limit: \"-1\" was given; expected bytes such as"),
        (
            Config::new().host_limit_bytes(usize::MAX),
            "Config::host_limit_bytes: \"18446744073709551615 bytes\" was given; expected at most",
        ),
        (Config::new().density(1.5), "Config::density: \"1.5\" was given; expected a part, 0 to 1"),
        (Config::new().sparsity([0.5, -1.0]), "Config::sparsity: \"-1\" was given; expected a part, 0 to 1"),
        (Config::new().packed([f64::NAN]), "Config::packed: \"NaN\" was given; expected a part, 0 to 1"),
    ] {
        let text = configure(&OvercommitDevice::Host(114), config).unwrap_err().to_string();
        assert!(text.starts_with(setting), "{text}");
    }
    let text = "best".parse::<Policy>().unwrap_err();
    assert_eq!(
        text,
        "unknown policy \"best\": expected one of auto, tensor-cache, recompute, evict-all, dtr, \
         dtr-eq, vdnn-all, vdnn-conv, vdnn-dyn, superneurons, layrub, autoswap, autoswap-no-overhead, capuchin, \
         gist-lossless, gist"
    );
    let text = stats(&OvercommitDevice::Cuda(0)).unwrap_err().to_string();
    assert!(text.contains("is not available") && text.contains("use host:0"), "{text}");
}

#[test]
fn tensors_of_two_devices_do_not_mix_and_move_when_asked() {
    let (a, b) = (device(115, Config::new()), device(116, Config::new()));
    let fill = Op::Fill { shape: Shape::new(&[4]), dtype: Dtype::F32, value: 1.0.into() };
    let inputs = [a, b].map(|device| runtime::create(&device, fill).unwrap());
    let text = runtime::run(Op::Binary(Binary::Add), inputs).unwrap_err().to_string();
    assert!(text.contains("live on host:115 and host:116"), "{text}");
    let (x, y) = (Tensor::<Inner, 1>::ones([4], &a), Tensor::<Inner, 1>::ones([4], &b));
    assert_eq!((x.to_device(&b) + y).into_data().to_vec::<f32>().unwrap(), [2.0; 4]);
}

#[test]
fn peaks_are_of_live_bytes_and_can_be_counted_anew() {
    let device = device(117, Config::new());
    let x = Tensor::<Inner, 1>::ones([1024], &device);
    // Each result takes the memory of the one before it.
    let y = (x + 1.0) * 2.0;
    assert_eq!(stats(&device).unwrap().peak_allocated_bytes, 4096);
    let z = y.clone() + 1.0;
    assert_eq!(stats(&device).unwrap().peak_allocated_bytes, 8192);
    drop(y);
    reset_stats(&device).unwrap();
    let stats = stats(&device).unwrap();
    assert_eq!((stats.allocated_bytes, stats.peak_allocated_bytes), (4096, 4096));
    assert!(stats.entries().contains(&("allocated_bytes.all.peak", 4096)));
    assert!(stats.to_string().contains("device memory"), "{stats}");
    drop(z);
    Inner::memory_cleanup(&device);
    let cleaned = burn_overcommit::stats(&device).unwrap();
    assert_eq!((cleaned.reserved_bytes, cleaned.peak_reserved_bytes), (0, stats.reserved_bytes));
}

#[test]
fn threads_share_a_device_and_its_budget() {
    let device = device(119, Config::new().budget("48 KiB"));
    let chain = |thread: usize| {
        let mut x = Tensor::<Inner, 2>::full([32, 32], 1.0 + thread as f32 / 8.0, &device);
        let mut kept = Vec::new();
        for step in 0..200 {
            kept.push(x.clone());
            x = (x.clone().matmul(x) * 0.03).tanh() + step as f32 / 100.0;
            if kept.len() == 20 {
                x = kept.drain(..).fold(x, |sum, one| sum + one) / 21.0;
            }
        }
        x.into_data().to_vec::<f32>().unwrap()
    };
    let alone: Vec<_> = (0..4).map(chain).collect();
    let together: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || chain(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
    let stats = stats(&device).unwrap();
    assert!(stats.counters.evictions > 100);
    assert_eq!((stats.allocated_bytes, stats.host_bytes, stats.storages), (0, 0, 0));
}

#[test]
fn free_memory_in_pieces_is_joined_before_anything_leaves() {
    const COUNT: usize = 1024;
    let device = device(123, Config::new().budget_bytes(8 * 4 * COUNT).page_mapping(false).fusion(false));
    let filled =
        |value: usize, units: usize| Tensor::<Inner, 1>::full([units * COUNT], value as f32, &device);
    let mut tensors: Vec<Option<Tensor<Inner, 1>>> = (0..8).map(|value| Some(filled(value, 1))).collect();
    [1, 3, 5, 7].into_iter().for_each(|index| drop(tensors[index].take()));
    let large = filled(8, 3);
    let counters = stats(&device).unwrap().counters;
    assert_eq!((counters.relocated_bytes, counters.evictions), (4 * COUNT as u64, 0));
    let rest = tensors.into_iter().flatten().chain([large]);
    let sums: Vec<f32> = rest.map(|tensor| tensor.sum().into_scalar()).collect();
    let expected = [0, 2, 4, 6, 3 * 8].map(|value| (value * COUNT) as f32);
    assert_eq!(sums, expected);
}

/// A norm's gradient in the place of its last input, and what was made of that and another input before.
fn in_place_beside_others(device: &OvercommitDevice) -> Vec<Vec<u8>> {
    const SIZES: [usize; 2] = [64, 16];
    let upload = |shape: &[usize], seed: usize| {
        let count = shape.iter().product();
        let values: Vec<u8> =
            (0..count).flat_map(|at: usize| (((at * 31 + seed) % 17) as f32 - 8.0).to_ne_bytes()).collect();
        runtime::write(device, &values, Dtype::F32, Shape::new(shape)).unwrap()
    };
    let [x, gradient, gamma] = [upload(&SIZES, 1), upload(&SIZES, 2), upload(&SIZES[1..], 3)];
    let made = [gradient.clone(), x.clone()].map(|x| runtime::run(Op::Unary(Unary::Neg), [x]).unwrap());
    let op = Op::NormBackward { kind: Norm::Layer, epsilon: Scalar::from(1e-5), weights: true };
    let gradients = runtime::run_pair(op, [x.clone(), gamma, gradient]).unwrap();
    drop(x);
    gradients.into_iter().chain(made).map(|tensor| runtime::read(tensor).unwrap()).collect()
}

#[test]
fn what_is_dropped_while_an_op_is_placed_keeps_the_input_that_the_op_overwrites() {
    let run = |config: Config| {
        let device = device(121, config.fusion(false).policy(Policy::Dtr));
        let read = in_place_beside_others(&device);
        let stats = stats(&device).unwrap();
        assert_eq!((stats.storages, stats.allocated_bytes), (0, 0));
        (read, stats.counters.drops)
    };
    let (expected, drops) = run(Config::new());
    assert_eq!(drops, 0);
    for offload in [true, false] {
        // Room for the inputs and what was made of them, but not for the op's second output and workspace.
        let (read, drops) = run(Config::new().budget_bytes(4 * 4096 + 512).offload(offload));
        assert!(drops > 0, "the test needs a budget under which something is dropped");
        assert_eq!(read, expected, "offload: {offload}");
    }
}
