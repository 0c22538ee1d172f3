//! Products and convolutions by cuBLASLt and cuDNN, and without them.

use std::os::unix::fs::symlink;
use std::path::Path;

use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d, conv3d, linear};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn_overcommit::engine::cuda::CudaEngine;
use burn_overcommit::engine::{Algorithm, Engine, Instruction, Lane, Launch, Tier};
use burn_overcommit::op::{Conv, Dtype, Op, Shape, View};
use burn_overcommit::{Config, Exactness, Overcommit, OvercommitDevice, Policy, configure, stats};
use burn_overcommit_standin::{Driver, folder};
use serial_test::serial;

use crate::training::train;
use crate::{driver, engine};
use support::process::{child, is_child};

type T<const D: usize> = Tensor<Overcommit, D>;
const DEVICE: OvercommitDevice = OvercommitDevice::Cuda(5);
const HOST: OvercommitDevice = OvercommitDevice::Host(41);

fn config() -> Config {
    Config::new().cuda_libraries(folder()).budget("64 MiB").host_limit_bytes(64 << 20)
}

fn start(config: Config) -> Driver {
    let driver = driver();
    configure(&DEVICE, config).expect("it starts");
    configure(&HOST, Config::new().budget("64 MiB")).expect("it starts");
    driver
}

/// A program's results on a device.
type Program = fn(&OvercommitDevice) -> Vec<f32>;

/// The same tensor in every run.
fn tensor<const D: usize>(sizes: [usize; D], device: &OvercommitDevice) -> T<D> {
    let count: usize = sizes.iter().product();
    let values = Tensor::<Overcommit, 1, burn::tensor::Int>::arange(0..count as i64, device).float();
    ((values * 0.618).sin()).reshape(sizes)
}

fn floats<const D: usize>(tensor: T<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().to_vec().expect("floats")
}

/// Runs a program on both engines; how much of it the libraries were given.
fn agree(driver: &Driver, name: &str, program: Program) -> u64 {
    driver.library_work();
    let (made, expected) = (program(&DEVICE), program(&HOST));
    let given = driver.library_work().count;
    assert_eq!(made.len(), expected.len());
    for (made, expected) in made.iter().zip(&expected) {
        assert!((made - expected).abs() <= 1e-4 * (1.0 + expected.abs()), "{name}: {made}, not {expected}");
    }
    given
}

#[test]
#[serial]
fn products_are_the_librarys_however_their_operands_lie() {
    let driver = start(config());
    let programs: [(&str, u64, Program); 10] = [
        ("plain", 1, |d| floats(tensor([7, 20], d).matmul(tensor([20, 5], d)))),
        ("transposed", 1, |d| floats(tensor([20, 7], d).transpose().matmul(tensor([5, 20], d).transpose()))),
        ("part of a larger one", 1, |d| {
            floats(tensor([9, 30], d).slice([1..8, 3..23]).matmul(tensor([20, 5], d)))
        }),
        ("batches", 1, |d| floats(tensor([3, 7, 20], d).matmul(tensor([3, 20, 5], d)))),
        ("one right for all batches", 1, |d| floats(tensor([3, 7, 20], d).matmul(tensor([1, 20, 5], d)))),
        ("one left for all batches", 1, |d| floats(tensor([1, 7, 20], d).matmul(tensor([3, 20, 5], d)))),
        ("heads", 2, |d| {
            let heads = tensor([2, 6, 3, 20], d).swap_dims(1, 2);
            floats(heads.clone().matmul(heads.swap_dims(2, 3)))
        }),
        ("backwards", 1, |d| floats(tensor([7, 20], d).flip([1]).matmul(tensor([20, 5], d).flip([0])))),
        ("neither by rows nor by columns", 1, |d| {
            let left = tensor([20, 2, 7, 3], d).permute([1, 3, 2, 0]).slice([0..2, 0..3, 0..7, 0..20]);
            floats(left.matmul(tensor([2, 3, 20, 5], d)))
        }),
        ("bias", 1, |d| floats(linear(tensor([7, 20], d), tensor([20, 5], d), Some(tensor([5], d))))),
    ];
    for (name, products, program) in programs {
        assert_eq!(agree(&driver, name, program), products, "{name}");
    }
    // A bias that the library cannot read, and sums of nothing.
    agree(&driver, "every other bias", |d| {
        let bias = tensor([10], d).reshape([5, 2]).slice([0..5, 0..1]).reshape([5]);
        floats(linear(tensor([7, 20], d), tensor([20, 5], d), Some(bias)))
    });
    let nothing: Program = |d| floats(T::<2>::empty([3, 0], d).matmul(T::empty([0, 2], d)));
    assert_eq!(agree(&driver, "nothing to add up", nothing), 0);
}

/// Convolutions of tensors that lie in many ways, and a transposed one.
const CONVOLUTIONS: [(&str, Program); 8] = [
    ("plain", |d| {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        floats(conv2d(tensor([2, 3, 6, 5], d), tensor([4, 3, 3, 3], d), Some(tensor([4], d)), options))
    }),
    ("groups, strides and dilation", |d| {
        let options = ConvOptions::new([2, 1], [1, 2], [2, 1], 2);
        floats(conv2d(tensor([2, 4, 9, 7], d), tensor([6, 2, 3, 2], d), None, options))
    }),
    ("channels last", |d| {
        let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
        let image = tensor([2, 6, 5, 3], d).permute([0, 3, 1, 2]);
        floats(conv2d(image, tensor([4, 3, 3, 3], d), None, options))
    }),
    ("part of the channels", |d| {
        let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
        let image = tensor([2, 8, 6, 6], d).slice([0..2, 4..7, 0..6, 0..6]);
        floats(conv2d(image, tensor([4, 3, 3, 3], d), None, options))
    }),
    ("backwards", |d| {
        let options = ConvOptions::new([1, 1], [1, 0], [1, 1], 1);
        let (image, weight) = (tensor([2, 3, 6, 5], d).flip([2]), tensor([4, 3, 3, 3], d).flip([0]));
        floats(conv2d(image, weight, None, options))
    }),
    ("turned weights", |d| {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        floats(conv2d(tensor([2, 3, 6, 5], d), tensor([3, 4, 3, 3], d).swap_dims(0, 1), None, options))
    }),
    ("space", |d| {
        let options = ConvOptions::new([1, 2, 1], [1, 0, 1], [1, 1, 1], 1);
        floats(conv3d(tensor([1, 2, 4, 5, 6], d), tensor([3, 2, 2, 3, 3], d), Some(tensor([3], d)), options))
    }),
    ("transposed", |d| {
        let options = ConvTransposeOptions::new([2, 2], [1, 1], [1, 0], [1, 1], 1);
        floats(conv_transpose2d(
            tensor([2, 3, 5, 5], d),
            tensor([3, 4, 3, 3], d),
            Some(tensor([4], d)),
            options,
        ))
    }),
];

#[test]
#[serial]
fn convolutions_are_the_librarys_however_their_operands_lie() {
    let driver = start(config());
    for (name, program) in CONVOLUTIONS {
        assert!(agree(&driver, name, program) > 0, "{name}");
    }
}

#[test]
#[serial]
fn workspace_is_asked_for_by_shapes_and_is_no_more_than_the_operands() {
    let driver = driver();
    let engine = engine();
    let view = |sizes: &[usize]| View::contiguous(Dtype::F32, Shape::new(sizes));
    let inputs = [view(&[64, 32]), view(&[32, 48])];
    let instruction = || Instruction::new(&engine, Op::Matmul, Algorithm::default(), &inputs);
    let bytes = instruction().scratch_bytes;
    assert!(bytes > 0 && bytes <= (64 * 32 + 32 * 48 + 64 * 48) * 4, "{bytes}");
    assert_eq!(instruction().scratch_bytes, bytes);
    // Asked when it fails, it is not asked again: what was said of a shape stays.
    let others = [view(&[64, 40]), view(&[40, 48])];
    let of_others = || Instruction::new(&engine, Op::Matmul, Algorithm::default(), &others).scratch_bytes;
    driver.fail(2);
    assert_eq!(of_others(), 0);
    driver.fail(0);
    assert_eq!(of_others(), 0);
}

const CONV: Op = Op::Conv(Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 });

/// The operands of a 3x3 convolution of so many images, their channels and their side.
fn operands(dtype: Dtype, [images, channels, side]: [usize; 3], filters: usize) -> [View; 2] {
    let view = |sizes: &[usize]| View::contiguous(dtype, Shape::new(sizes));
    [view(&[images, channels, 1, side, side]), view(&[filters, channels, 1, 3, 3])]
}

/// Workspace of such a convolution.
fn workspace_bytes(engine: &CudaEngine, dtype: Dtype, image: [usize; 3], filters: usize) -> usize {
    let views = operands(dtype, image, filters);
    Instruction::new(engine, CONV, Algorithm::default(), &views).scratch_bytes
}

#[test]
fn tiles_of_winograd_come_first_where_they_fit() {
    if !is_child() {
        // Searches of earlier runs are in the user's cache.
        let cache = tempfile::tempdir().unwrap();
        let child = child(module_path!(), "tiles_of_winograd_come_first_where_they_fit")
            .env("XDG_CACHE_HOME", cache.path())
            .output()
            .unwrap();
        return assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    }
    let _driver = driver();
    let engine = engine();
    let bytes = |dtype: Dtype, side: usize| workspace_bytes(&engine, dtype, [2, 16, side], 32);
    let tiles = |side: usize| 2 * side.div_ceil(4) * side.div_ceil(4);
    let tiles_bytes = |side: usize| 4 * 36 * (tiles(side) * (16 + 32) + 16 * 32);
    assert_eq!(bytes(Dtype::F32, 32), tiles_bytes(32));
    // The tiles of a few pixels are larger than all operands together.
    assert!(bytes(Dtype::F32, 4) < tiles_bytes(4));
    assert!(bytes(Dtype::BF16, 32) < tiles_bytes(32) / 2);
    // The columns of all images, by an engine that comes before Winograd's, take 231,211,008.
    assert_eq!(workspace_bytes(&engine, Dtype::F32, LIKE_COLUMNS, 96), LIKE_COLUMNS_BYTES);
}

/// Images whose columns, with 96 filters, take nearly what Winograd's tiles do.
const LIKE_COLUMNS: [usize; 3] = [64, 32, 56];
/// The tiles' bytes.
const LIKE_COLUMNS_BYTES: usize = 231_653_376;

#[test]
#[serial]
fn plans_are_made_before_a_launch() {
    let driver = driver();
    let engine = engine();
    for side in [20, 21] {
        driver.fail(0);
        engine.prepare(&CONV, &mut operands(Dtype::F32, [2, 3, side], 4).iter());
        let calls = driver.calls();
        assert!(calls > 0, "a plan was made");
        workspace_bytes(&engine, Dtype::F32, [2, 3, side], 4);
        assert_eq!(driver.calls(), calls, "the plan is there");
    }
}

/// Workspace of a convolution whose engine no heuristic names, in a process with a cache of its own, where a plan takes so long; and how
/// many calls it took to find that.
fn in_process(cache: &Path, plan_ms: u32) -> (usize, u64) {
    let child = child(module_path!(), "searches_are_short_and_kept_on_disk")
        .env("XDG_CACHE_HOME", cache)
        .env("STANDIN_PLAN_MS", plan_ms.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let numbers = text.split("found: ").nth(1).and_then(|rest| rest.lines().next()?.split_once(' '));
    let (bytes, calls) = numbers.unwrap_or_else(|| panic!("{text}"));
    (bytes.parse().unwrap(), calls.parse().unwrap())
}

#[test]
fn searches_are_short_and_kept_on_disk() {
    if is_child() {
        let driver = driver();
        let engine = engine();
        driver.fail(0);
        let bytes = workspace_bytes(&engine, Dtype::F32, LIKE_COLUMNS, 96);
        return println!("found: {bytes} {}", driver.calls());
    }
    let caches = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (bytes, calls) = in_process(caches[0].path(), 0);
    assert_eq!(bytes, LIKE_COLUMNS_BYTES);
    let (again_bytes, again_calls) = in_process(caches[0].path(), 0);
    assert_eq!(again_bytes, bytes);
    assert!(again_calls < calls, "{again_calls} after {calls}");
    // The first plan that the search makes is not Winograd's, and takes all of its time.
    let (bytes, _) = in_process(caches[1].path(), 600);
    assert!(bytes < LIKE_COLUMNS_BYTES, "{bytes}");
    assert_eq!(in_process(caches[1].path(), 0).0, bytes, "an op keeps its workspace");
}

#[test]
#[serial]
fn plans_are_kept_until_their_work_is_done() {
    let _driver = driver();
    let engine = engine();
    let view = |width: usize| View::contiguous(Dtype::F32, Shape::new(&[1, 1, 1, 1, width]));
    let op = Op::Conv(Conv { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 });
    let instruction =
        |width: usize| Instruction::new(&engine, op, Algorithm::default(), &[view(width), view(1)]);
    let [host, device] = [Tier::Host, Tier::Device].map(|tier| engine.map(tier, 1 << 20).unwrap());
    let floats = engine.bytes(host).unwrap().cast::<f32>();
    let instruction_of_one = instruction(1);
    let launch = Launch {
        inputs: [device.slice(0, 4), device.slice(256, 4)].into_iter().collect(),
        outputs: [device.slice(512, 4)].into_iter().collect(),
        scratch: device.slice(1024, instruction_of_one.scratch_bytes),
        instruction: instruction_of_one.into(),
    };
    // SAFETY: both spans are larger than all that is read and written, and the waits are those that it takes.
    unsafe {
        floats.write(3.0);
        floats.add(64).write(7.0);
        engine.copy(Lane::Fetch, host, device).unwrap();
        engine.wait(Lane::Compute, engine.mark(Lane::Fetch)).unwrap();
        engine.launch(Lane::Compute, &launch).unwrap();
        // More than are kept.
        (2..8200).for_each(|width| drop(instruction(width)));
        engine.wait(Lane::Offload, engine.mark(Lane::Compute)).unwrap();
        engine.copy(Lane::Offload, device, host).unwrap();
        engine.sync(engine.mark(Lane::Offload)).unwrap();
        assert_eq!(floats.add(128).read(), 21.0);
    }
}

#[test]
#[serial]
fn fewer_bits_are_used_only_where_asked_for() {
    for (tf32, config) in [(false, config()), (true, config().tf32(true))] {
        let driver = start(config);
        driver.library_work();
        train(&DEVICE);
        let work = driver.library_work();
        assert!(work.count > 20, "{work:?}");
        assert_eq!(work.reduced, if tf32 { work.count } else { 0 }, "{work:?}");
    }
}

#[test]
#[serial]
fn convolutions_may_take_the_workspace_that_is_free() {
    let driver = start(config());
    let expected = train(&DEVICE);
    let exact = driver.library_work();
    let needed_bytes = stats(&DEVICE).unwrap().peak_allocated_bytes;
    configure(&DEVICE, config().exactness(Exactness::Fast).policy(Policy::EvictAll)).unwrap();
    let losses = train(&DEVICE);
    assert_eq!(driver.library_work().workspace_bytes, exact.workspace_bytes, "there is room for all");
    configure(&DEVICE, config().exactness(Exactness::Fast).budget_bytes(needed_bytes / 4)).unwrap();
    let short = train(&DEVICE);
    for (loss, expected) in losses.iter().chain(&short).zip(expected.iter().cycle()) {
        assert!((loss - expected).abs() < 1e-4 * expected.abs(), "{losses:?}, {short:?}, not {expected:?}");
    }
}

#[test]
#[serial]
fn nothing_is_taken_beside_what_the_pool_has() {
    let driver = start(config());
    let x = tensor([64, 64], &DEVICE);
    let of_slabs = |driver: &Driver| driver.used_bytes();
    let before = of_slabs(&driver);
    floats(x.clone().matmul(x.clone()));
    floats(conv2d(
        x.clone().reshape([1, 1, 64, 64]),
        x.slice([0..3, 0..3]).reshape([1, 1, 3, 3]),
        None,
        ConvOptions::new([1, 1], [0, 0], [1, 1], 1),
    ));
    assert!(driver.library_work().workspace_bytes > 0);
    assert_eq!(of_slabs(&driver), before);
}

/// Computes with the libraries that this process finds, and says how much they were given.
fn say_fallbacks() {
    let driver = start(Config::new().budget("64 MiB").host_limit_bytes(64 << 20));
    for (name, program) in CONVOLUTIONS {
        agree(&driver, name, program);
    }
    let (losses, expected) = (train(&DEVICE), train(&HOST));
    for (loss, expected) in losses.iter().zip(&expected) {
        assert!((loss - expected).abs() < 1e-4 * expected.abs(), "{losses:?}, on the host {expected:?}");
    }
    println!("given to libraries: {}", driver.library_work().count);
    for fallback in stats(&DEVICE).unwrap().fallbacks {
        println!("{}: {}", fallback.op, fallback.reason);
    }
}

/// The output of [`say_fallbacks`] with these libraries alone.
fn with_libraries(names: &[&str]) -> String {
    let some = tempfile::tempdir().unwrap();
    for library in names {
        symlink(folder().join(library), some.path().join(library)).unwrap();
    }
    let child = child(module_path!(), "kernels_take_the_place_of_missing_libraries")
        .env("OVERCOMMIT_CUDA_LIBRARIES", some.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    text.into_owned()
}

#[test]
fn kernels_take_the_place_of_missing_libraries() {
    if is_child() {
        return say_fallbacks();
    }
    let kernels = with_libraries(&["libcuda.so", "libnvrtc.so"]);
    assert!(kernels.contains("given to libraries: 0\n"), "{kernels}");
    assert!(kernels.contains("matmul: cuBLASLt was not found\n"), "{kernels}");
    assert!(kernels.contains("conv: cuDNN was not found\n"), "{kernels}");
    // Convolutions are products with columns.
    let products = with_libraries(&["libcuda.so", "libnvrtc.so", "libcublasLt.so"]);
    assert!(!products.contains("cuBLASLt was not found") && products.contains("conv: cuDNN was not found\n"));
    let count = products.split("given to libraries: ").nth(1).and_then(|rest| rest.lines().next());
    let count: usize = count.expect("it says how many").parse().unwrap();
    // A step has eight convolutions and gradients, of sixteen images each.
    assert!(count > 4 * 8 * 16, "{products}");
}
