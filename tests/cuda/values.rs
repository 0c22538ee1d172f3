//! What is encoded, decoded and computed from encoded forms, beside the host engine. As in `training`, the device stays in
//! use.

use burn_overcommit::op::{
    Binary, Compare, Dtype, Encoding, FloatFormat, Op, Pool2d, Shape, Sparse, Taps, Unary, View,
};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure};
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
    for per_row in [3, 20, 60, 200] {
        // Columns and bits, with too little room for most rows and with enough.
        let (dtype, count) = (x.dtype(), x.shape().count());
        let encoding = Encoding::Sparse(Sparse { per_row, width: 4 });
        let View { dtype: of_rest, layout } = encoding.beside(dtype, count).expect("there may be");
        let unset = Op::Unset { shape: *layout.shape(), dtype: of_rest };
        let beside = runtime::create(device, unset).expect("enough memory");
        let form = run(Op::Encode(encoding), &[&rectified, &beside]);
        made.push(run(Op::Decode { encoding, dtype, count }, &[&form, &beside]));
    }
    encoded(&mut made, Encoding::Bools, &run(Op::CompareScalar(Compare::Lower, 1.5.into()), &[&x]));
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
