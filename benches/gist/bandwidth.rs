//! How fast the host engine encodes and decodes, overflow a plain copy of the values in the same run.

use std::time::Instant;

use burn_overcommit::op::{
    Binary, Compare, Distribution, Dtype, Encoding, FloatFormat, Op, Planes, Pool2d, ROW, Shape, Sparse,
    Taps, Unary, View,
};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure};
use serde_json::{Value, json};

const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);
/// Images, channels, height and width of what is encoded: more than any cache holds.
const SIZES: [usize; 4] = [64, 64, 112, 112];
/// The least time of so many counts: what else the machine does only adds.
const ROUNDS: usize = 9;

/// Seconds that an op takes on tensors.
fn seconds<const N: usize>(op: Op, inputs: [&Tensor; N]) -> f64 {
    let time = || {
        runtime::sync(&DEVICE).expect("the host engine");
        let begin = Instant::now();
        let made = runtime::run(op, inputs.map(Tensor::clone)).expect("enough memory");
        runtime::sync(&DEVICE).expect("the op runs");
        drop(made);
        begin.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

fn run(op: Op, x: &Tensor) -> Tensor {
    runtime::run(op, [x.clone()]).expect("enough memory")
}

fn flat(x: Tensor) -> Tensor {
    let count = x.shape().count();
    let layout = View::contiguous(x.dtype(), Shape::new(&[count])).layout;
    x.with_layout(layout)
}

/// Prints a row, and gives it for `--json`.
fn row(name: &str, encoding: Encoding, x: &Tensor) -> Value {
    let (dtype, count) = (x.dtype(), x.shape().count());
    let copy = seconds(Op::Copy { dtype }, [x]);
    let bytes = (count * dtype.size_bytes()) as f64;
    let (to, from) = (Op::Encode(encoding), Op::Decode { encoding, dtype, count });
    let (encode, decode) = match encoding.overflow(dtype, count) {
        // Not in the host tier, which is the same memory here.
        Some(View { dtype, layout }) => {
            let unset = Op::Unset { shape: *layout.shape(), dtype };
            let overflow = runtime::create(&DEVICE, unset).expect("enough memory");
            let form = runtime::run(to, [x.clone(), overflow.clone()]).expect("enough memory");
            (seconds(to, [x, &overflow]), Some(seconds(from, [&form, &overflow])))
        }
        // They are read as they are.
        None if encoding == Encoding::Signs => (seconds(to, [x]), None),
        None => (seconds(to, [x]), Some(seconds(from, [&run(to, x)]))),
    };
    let gbps = |seconds: f64| bytes / seconds / 1e9;
    let speed = |seconds: f64| format!("{:.1} GB/s | {:.2}", gbps(seconds), copy / seconds);
    let decoded = decode.map_or("read as they are |".to_string(), speed);
    println!("| {name} | {:.1} GB/s | {} | {decoded} |", gbps(copy), speed(encode));
    json!({
        "table": "Bandwidth",
        "values": name,
        "copy_gbps": gbps(copy),
        "encode_gbps": gbps(encode),
        "encode_to_copy_ratio": copy / encode,
        "decode_gbps": decode.map(gbps),
        "decode_to_copy_ratio": decode.map(|decode| copy / decode),
    })
}

/// Prints a row for each codec.
pub fn print() -> Vec<Value> {
    configure(&DEVICE, Config::new()).expect("a valid configuration");
    println!("\n| values | copy | encode | of a copy | decode | of a copy |");
    println!("|---|---:|---:|---:|---:|---:|");
    let distribution = Distribution::Normal { mean: 0.0.into(), deviation: 1.0.into() };
    let random = Op::Random { shape: Shape::new(&SIZES), dtype: Dtype::F32, distribution, seed: 1 };
    let image = runtime::create(&DEVICE, random).expect("enough memory");
    let x = flat(run(Op::Unary(Unary::Relu), &image));
    let mut cells = vec![row("signs", Encoding::Signs, &x)];
    // Half of these are zero, and nine of ten, and as good as all.
    let above = |least: f64| {
        run(Op::Unary(Unary::Relu), &run(Op::BinaryScalar(Binary::Add, (-least).into()), &image))
    };
    for (zeros, least) in [(0.5, 0.0), (0.9, 1.2816), (0.99, 2.3263)] {
        let (x, width) = (flat(above(least)), Dtype::F32.size_bytes());
        let count = x.shape().count();
        let room = Sparse::with_room_for(((1.0 - zeros) * count as f64) as usize, count, width);
        cells.push(row(&format!("sparse, {:.0} % zeros", 100.0 * zeros), Encoding::Sparse(room), &x));
    }
    let mask = run(Op::CompareScalar(Compare::Lower, 0.5.into()), &x);
    cells.push(row("bools", Encoding::Bools, &mask));
    let (kernel, stride) = ([3, 3], [2, 2]);
    let pool = Pool2d {
        kernel,
        stride,
        padding: [0, 0],
        dilation: [1, 1],
        ceil_mode: false,
        count_include_pad: false,
    };
    let op = Op::MaxPool2d { pool, indices: Some(Dtype::I32) };
    let [_, indices] = runtime::run_pair(op, [image.clone()]).expect("enough memory");
    let indices = flat(indices);
    let pooled = pool.output_size([SIZES[2], SIZES[3]]);
    let taps = Encoding::Taps(Taps { pool, width: SIZES[3], pooled });
    cells.push(row("places of maxima", taps, &indices));
    cells.push(row("integers of 16 bits", Encoding::Integers { bits: 16 }, &indices));
    // Normal numbers, and indices below 2 to the 14th: of 32 units, so many are taken.
    for (name, x, units) in [("planes, floats", &flat(image), 29), ("planes, integers", &indices, 15)] {
        let (count, width) = (x.shape().count(), x.dtype().size_bytes());
        let planes = Planes::with_room_for(count.div_ceil(ROW) * units, count, width);
        cells.push(row(name, Encoding::Planes(planes), x));
    }
    for &format in FloatFormat::ALL {
        cells.push(row(format.name(), Encoding::Reduced(format), &x));
    }
    cells
}
