//! What is encoded, decoded and computed from encoded forms, beside the host engine. As in `training`, the device stays in
//! use.

use burn_overcommit::op::{
    ArgReduce, Binary, Compare, Conv, Distribution, Dtype, Encoding, FloatFormat, Op, Planes, Pool2d, Reduce,
    Shape, Sparse, Taps, Unary, View,
};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure, stats};
use burn_overcommit_standin::folder;
use serial_test::serial;

use crate::driver;

const SIZES: [usize; 4] = [2, 3, 21, 18];
const POOL: Pool2d = Pool2d {
    kernel: [3, 3],
    stride: [2, 1],
    padding: [1, 1],
    dilation: [1, 2],
    ceil_mode: true,
    count_include_pad: false,
};

fn run(op: Op, inputs: &[&Tensor]) -> Tensor {
    runtime::run(op, inputs.iter().map(|&input| input.clone())).expect("enough memory")
}

fn in_a_row(x: &Tensor) -> Tensor {
    let view = View::contiguous(x.dtype(), Shape::new(&[x.shape().count()]));
    x.clone().with_layout(view.layout)
}

/// All that comes of some floats, as bytes.
fn answers(device: &OvercommitDevice) -> Vec<Vec<u8>> {
    let shape = Shape::new(&SIZES);
    let value = |i: usize| ((i * 7919 + 104_729) % 1009) as f32 / 50.0 - 10.0;
    let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| value(i).to_ne_bytes()).collect();
    let image = runtime::write(device, &bytes, Dtype::F32, shape).expect("enough memory");
    let x = in_a_row(&image);
    let mut made = Vec::new();
    let encoded = |made: &mut Vec<Tensor>, encoding: Encoding, x: &Tensor| {
        let form = run(Op::Encode(encoding), &[x]);
        if encoding != Encoding::Signs {
            let (dtype, count) = (x.dtype(), x.shape().count());
            made.push(run(Op::Decode { encoding, dtype, count }, &[&form]));
        }
        made.push(form.clone());
        form
    };
    for &format in FloatFormat::ALL {
        encoded(&mut made, Encoding::Reduced(format), &x);
    }
    let signs = encoded(&mut made, Encoding::Signs, &x);
    let rectified = run(Op::Unary(Unary::Relu), &[&x]);
    // Columns and bits, and planes, with too little room for most rows and with enough.
    let sparse = [3, 20, 60, 200].map(|per_row| Encoding::Sparse(Sparse { per_row, width: 4 }));
    let planes = [400, 2000, 4096].map(|per_piece| Encoding::Planes(Planes { per_piece, width: 4 }));
    for encoding in sparse.into_iter().chain(planes) {
        let (dtype, count) = (x.dtype(), x.shape().count());
        let View { dtype: of_rest, layout } = encoding.overflow(dtype, count).expect("there may be");
        let unset = Op::Unset { shape: *layout.shape(), dtype: of_rest };
        let beside = runtime::create(device, unset).expect("enough memory");
        let form = run(Op::Encode(encoding), &[&rectified, &beside]);
        made.push(run(Op::Decode { encoding, dtype, count }, &[&form, &beside]));
    }
    encoded(&mut made, Encoding::Bools, &run(Op::CompareScalar(Compare::Lower, 1.5.into()), &[&x]));
    let places = Op::ArgReduce { kind: ArgReduce::Max, axis: 3, dtype: Dtype::I64, values: false };
    encoded(&mut made, Encoding::Integers { bits: 8 }, &in_a_row(&run(places, &[&image])));
    let op = Op::MaxPool2d { pool: POOL, indices: Some(Dtype::I32) };
    let [gradient, indices] = runtime::run_pair(op, [image]).expect("enough memory");
    let size = [SIZES[2], SIZES[3]];
    let taps = Taps { pool: POOL, width: size[1], pooled: POOL.output_size(size) };
    let places = encoded(&mut made, Encoding::Taps(taps), &in_a_row(&indices));
    made.push(run(Op::ReluBackwardSigns, &[&signs, &x]));
    made.push(run(Op::Binary(Binary::ReluBackward), &[&x, &x]));
    made.push(run(Op::MaxPool2dBackwardTaps { taps, size }, &[&gradient, &places]));
    made.push(run(Op::MaxPool2dBackward { pool: POOL, size }, &[&gradient, &indices]));
    made.into_iter().map(|tensor| runtime::read(tensor).expect("the ops run")).collect()
}

#[test]
#[serial]
fn encoded_forms_are_the_host_engines() {
    let _driver = driver();
    let device = OvercommitDevice::Cuda(3);
    configure(&device, Config::new().cuda_libraries(folder()).budget("8 MiB").host_limit("8 MiB")).unwrap();
    let (made, expected) = (answers(&device), answers(&OvercommitDevice::Host(41)));
    for (number, (made, expected)) in made.iter().zip(&expected).enumerate() {
        assert!(made == expected, "answer {number}");
    }
    let [.., by_signs, by_values, by_places, by_indices] = &made[..] else { unreachable!("there are more") };
    assert!(by_signs == by_values && by_places == by_indices);
}

/// What a dropout makes of some numbers, and its sums along each axis, also of a copy in another order.
fn dropped(device: &OvercommitDevice) -> Vec<Vec<u8>> {
    let mut read = Vec::new();
    let mut answer = |tensor: Tensor| read.push(runtime::read(tensor).expect("the ops run"));
    for (dtype, sizes) in [Dtype::F64, Dtype::F32, Dtype::BF16]
        .into_iter()
        .flat_map(|dtype| [[6, 40, 32], [5, 7, 9], [2, 2, 600]].map(|sizes| (dtype, sizes)))
    {
        let shape = Shape::new(&sizes);
        let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| (i as f32 / 64.0 + 1.0).to_ne_bytes()).collect();
        let single = runtime::write(device, &bytes, Dtype::F32, shape).expect("enough memory");
        let x = run(Op::Copy { dtype }, &[&single]);
        let product = |seed| {
            let distribution = Distribution::Bernoulli { probability: 0.7.into() };
            let numbers = runtime::create(device, Op::Random { shape, dtype, distribution, seed });
            run(Op::Binary(Binary::Mul), &[&x, &numbers.expect("enough memory")])
        };
        answer(product(1 << 40));
        for axis in 0..3 {
            let sum = |of: &Tensor| run(Op::Reduce { kind: Reduce::Sum, axis }, &[of]);
            answer(sum(&product(axis as u64)));
            let kept = product(3 + axis as u64);
            answer(sum(&kept));
            answer(kept);
            let turned = product(6 + axis as u64);
            let layout = turned.layout().permute(&[1, 2, 0]);
            answer(sum(&run(Op::Copy { dtype }, &[&turned.with_layout(layout)])));
        }
    }
    read
}

/// With draws in generated kernels, as by ops one by one.
#[test]
#[serial]
fn a_dropout_in_a_program_has_the_bits_of_its_ops() {
    let _driver = driver();
    let [fused, alone] = [(7, true), (8, false)].map(|(index, fusion)| {
        let device = OvercommitDevice::Cuda(index);
        let config = Config::new().cuda_libraries(folder()).budget("8 MiB").host_limit("8 MiB");
        configure(&device, config.fusion(fusion)).unwrap();
        let read = dropped(&device);
        assert_eq!(stats(&device).unwrap().fallbacks, [], "no program was interpreted");
        read
    });
    for (number, (fused, alone)) in fused.iter().zip(&alone).enumerate() {
        assert!(fused == alone, "answer {number}");
    }
}

/// The gradient of a convolution's weights of encoded images, which are decoded into workspace here, beside that of decoded ones.
#[test]
#[serial]
fn gradients_of_weights_read_encoded_images() {
    let _driver = driver();
    let device = &OvercommitDevice::Cuda(4);
    configure(device, Config::new().cuda_libraries(folder()).budget("8 MiB").host_limit("8 MiB")).unwrap();
    let dtype = Dtype::F32;
    let write = |shape: Shape| {
        let value = |i: usize| (((i * 7919 + 104_729) % 1009) as f32 / 50.0 - 10.0).max(0.0);
        let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| value(i).to_ne_bytes()).collect();
        runtime::write(device, &bytes, dtype, shape).expect("enough memory")
    };
    let images = write(Shape::new(&[2, 3, 1, 21, 18]));
    let gradient = write(Shape::new(&[2, 4, 1, 21, 18]));
    let view = View::contiguous(dtype, *images.shape());
    let count = images.shape().count();
    let conv = Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 };
    let plain = Op::ConvBackwardWeight { conv, kernel: [1, 3, 3] };
    let sparse = [3, 60, 200].map(|per_row| Encoding::Sparse(Sparse { per_row, width: 4 }));
    let planes = Encoding::Planes(Planes { per_piece: 2000, width: 4 });
    for encoding in sparse.into_iter().chain([planes, Encoding::Reduced(FloatFormat::Fp10)]) {
        let overflow = encoding.overflow(dtype, count).map(|view| {
            let unset = Op::Unset { shape: *view.shape(), dtype };
            runtime::create(device, unset).expect("enough memory")
        });
        let with = |first| [first].into_iter().chain(&overflow).collect::<Vec<_>>();
        let row = in_a_row(&images);
        let form = run(Op::Encode(encoding), &with(&row));
        let decoded = run(Op::Decode { encoding, dtype, count }, &with(&form)).with_layout(view.layout);
        let mut inputs = with(&form);
        inputs.insert(1, &gradient);
        let found = run(plain.on_encoded(0, &encoding, &view).expect("there is one"), &inputs);
        let expected = run(plain, &[&decoded, &gradient]);
        let [found, expected] = [found, expected].map(|made| runtime::read(made).expect("the ops run"));
        assert!(found == expected, "{encoding:?}");
    }
}
