//! The kinds of steps a program is made of, and how often each is.

use burn_overcommit::op::{
    ArgReduce, Binary, Compare, Conv, Cumulative, Dtype, MAX_RANK, Norm, Op, Pool2d, Reduce, Scalar, Shape,
    Softmax, Unary, Update,
};
use rand::RngExt;

use crate::generate::{Chosen, Generator};

/// A kind of step, `None` if it would be too large.
type Kind = fn(&mut Generator) -> Option<()>;

/// The kinds, each with its weight.
const KINDS: [(u32, Kind); 24] = [
    (2, leaf),
    (3, unary),
    (4, chain),
    (5, binary),
    (2, binary_scalar),
    (2, compare),
    (2, choose),
    (3, reduce),
    (1, arg_reduce),
    (2, softmax),
    (2, norm),
    (2, copy),
    (2, slice_assign),
    (2, gather),
    (2, scatter),
    (2, cumulative),
    (2, sort),
    (3, matmul),
    (4, convolution),
    (2, max_pool),
    (1, average_pool),
    (3, alias),
    (4, drop_one),
    (2, read_one),
];

impl Generator {
    /// The types of numbers.
    fn numbers(&self) -> [Dtype; 3] {
        let [first, second] = self.palette.integers;
        [self.palette.float, first, second]
    }

    /// These and bools.
    fn all(&self) -> [Dtype; 4] {
        let [float, first, second] = self.numbers();
        [float, first, second, Dtype::Bool]
    }

    /// One more step, or a few that belong together.
    pub fn step(&mut self) {
        let total = KINDS.iter().map(|(weight, _)| weight).sum();
        let mut ticket = self.random.random_range(0..total);
        for (weight, kind) in KINDS {
            if ticket < weight {
                // One that is too large is left out.
                let _ = kind(self);
                return;
            }
            ticket -= weight;
        }
    }

    /// Operands of equal shape for an elementwise op: the first is any, through a view.
    fn pair(&mut self, dtypes: &[Dtype]) -> (Chosen, Chosen) {
        let first = self.any(dtypes);
        let second = self.shaped(first.0.view.dtype, *first.1.shape());
        (first, second)
    }

    fn scalar(&mut self, dtype: Dtype) -> Scalar {
        match dtype {
            _ if dtype.is_float() && self.palette.is_whole => {
                self.pick(&[-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0f64]).into()
            }
            _ if dtype.is_float() => self.random.random_range(-1.5..1.5f64).into(),
            // A scalar below zero is none of an unsigned type.
            _ if dtype.range().0 >= 0 => self.random.random_range(0..4i64).into(),
            _ => self.random.random_range(-3..4i64).into(),
        }
    }
}

fn leaf(generator: &mut Generator) -> Option<()> {
    let (dtype, sizes) = (generator.pick(&generator.all()), generator.sizes());
    match dtype {
        _ if dtype.is_integer() && generator.random.random_bool(0.5) => {
            let count = generator.random.random_range(0..if generator.palette.is_small { 60 } else { 500 });
            generator.arange(dtype, count);
        }
        _ => drop(generator.leaf(dtype, &sizes)),
    }
    Some(())
}

/// A function of one value that keeps it finite, and the bound of what it gives.
fn function(generator: &mut Generator, dtype: Dtype, bound: f64) -> (Unary, f64) {
    match dtype {
        _ if dtype.is_bool() => (Unary::Not, 1.0),
        _ if dtype.is_integer() => {
            match generator.pick(&[Unary::Neg, Unary::Abs, Unary::Relu, Unary::Square]) {
                Unary::Square => (Unary::Square, bound * bound),
                kind => (kind, bound),
            }
        }
        _ => {
            let smooth =
                [Unary::Sin, Unary::Cos, Unary::Tanh, Unary::Sigmoid, Unary::Erf, Unary::Atan, Unary::Asinh];
            let same = [Unary::Neg, Unary::Abs, Unary::Relu, Unary::Round, Unary::Sign];
            if generator.palette.is_whole && generator.random.random_bool(0.85) {
                return (generator.pick(&same), bound.max(1.0));
            }
            match generator.random.random_range(0..8) {
                0..=3 => (generator.pick(&smooth), bound.min(4.0)),
                4 | 5 => (generator.pick(&same), bound.max(1.0)),
                6 if bound <= 4.0 => (Unary::Exp, bound.exp()),
                _ => (Unary::Square, bound * bound),
            }
        }
    }
}

fn unary(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.all());
    let (kind, bound) = function(generator, x.0.view.dtype, x.0.bound);
    generator.run(Op::Unary(kind), &[x], bound).map(drop)
}

/// Pointwise ops, each on what the one before made, mostly in place.
fn chain(generator: &mut Generator) -> Option<()> {
    let float = generator.palette.float;
    let mut x = generator.any(&[float]);
    for _ in 0..generator.random.random_range(2..6) {
        let (kind, bound) = function(generator, float, x.0.bound);
        let made = generator.run_with(Op::Unary(kind), &[x], bound, 0.9)?;
        x = (made, made.view.layout);
        if generator.random.random_bool(0.3) {
            let other = generator.shaped(float, *made.view.shape());
            let bound = made.bound + other.0.bound;
            let made = generator.run_with(Op::Binary(Binary::Add), &[x, other], bound, 0.9)?;
            x = (made, made.view.layout);
        }
    }
    Some(())
}

fn binary_kind(generator: &mut Generator, dtype: Dtype) -> Binary {
    let always = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min, Binary::ReverseSub];
    match dtype {
        Dtype::Bool => generator.pick(&[Binary::And, Binary::Or, Binary::Xor]),
        _ if dtype.is_float() && generator.random.random_bool(0.2) => {
            generator.pick(&[Binary::ReluBackward, Binary::Atan2])
        }
        _ if dtype.is_integer() && generator.random.random_bool(0.2) => {
            generator.pick(&[Binary::Div, Binary::Remainder])
        }
        _ => generator.pick(&always),
    }
}

fn binary(generator: &mut Generator) -> Option<()> {
    let (a, b) = generator.pair(&generator.all());
    let kind = binary_kind(generator, a.0.view.dtype);
    let bound = if kind == Binary::Mul { a.0.bound * b.0.bound } else { a.0.bound + b.0.bound };
    generator.run(Op::Binary(kind), &[a, b], bound).map(drop)
}

fn binary_scalar(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let scalar = generator.scalar(x.0.view.dtype);
    let kind = generator.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::ReverseSub]);
    generator.run(Op::BinaryScalar(kind, scalar), &[x], 3.0 * x.0.bound + 3.0).map(drop)
}

fn compare(generator: &mut Generator) -> Option<()> {
    let kind = generator.pick(Compare::ALL);
    if generator.random.random_bool(0.5) {
        let x = generator.any(&generator.numbers());
        let scalar = generator.scalar(x.0.view.dtype);
        return generator.run(Op::CompareScalar(kind, scalar), &[x], 1.0).map(drop);
    }
    let (a, b) = generator.pair(&generator.numbers());
    generator.run(Op::Compare(kind), &[a, b], 1.0).map(drop)
}

/// By a mask.
fn choose(generator: &mut Generator) -> Option<()> {
    let (a, b) = generator.pair(&generator.numbers());
    let mask = generator.shaped(Dtype::Bool, *a.1.shape());
    let bound = a.0.bound.max(b.0.bound).max(4.0);
    if generator.random.random_bool(0.5) {
        return generator.run(Op::Where, &[mask, a, b], bound).map(drop);
    }
    let scalar = generator.scalar(a.0.view.dtype);
    generator.run(Op::MaskFill(scalar), &[a, mask], bound).map(drop)
}

/// An axis that has elements.
fn axis(generator: &mut Generator, shape: &Shape) -> Option<usize> {
    let axes: Vec<usize> = (0..shape.rank()).filter(|&axis| shape[axis] > 0).collect();
    (!axes.is_empty()).then(|| generator.pick(&axes))
}

fn reduce(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let axis = axis(generator, x.1.shape())?;
    let floats = x.0.view.dtype.is_float();
    let mut kind =
        generator.pick(&[Reduce::Sum, Reduce::Sum, Reduce::Mean, Reduce::Max, Reduce::Min, Reduce::MaxAbs]);
    if kind == Reduce::Mean && !floats {
        kind = Reduce::Sum;
    }
    let bound = if kind == Reduce::Sum { x.0.bound * x.1.shape()[axis] as f64 } else { x.0.bound };
    generator.run(Op::Reduce { kind, axis }, &[x], bound).map(drop)
}

fn arg_reduce(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let axis = axis(generator, x.1.shape())?;
    let (kind, dtype) = (generator.pick(ArgReduce::ALL), generator.pick(&[Dtype::I32, Dtype::I64]));
    generator
        .run(Op::ArgReduce { kind, axis, dtype, values: false }, &[x], x.1.shape()[axis] as f64)
        .map(drop)
}

fn softmax(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&[generator.palette.float]);
    let axis = axis(generator, x.1.shape())?;
    let y = generator.run(Op::Softmax { kind: Softmax::Plain, axis }, &[x], 1.0)?;
    let gradient = generator.shaped(generator.palette.float, *y.view.shape());
    let op = Op::SoftmaxBackward { kind: Softmax::Plain, axis, scale: 0.5.into() };
    generator.run(op, &[(y, y.view.layout), gradient], gradient.0.bound).map(drop)
}

/// A norm of rows and its gradient. With an epsilon of one, no row is divided by less than that.
fn norm(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&[generator.palette.float]);
    let shape = *x.1.shape();
    let width = *shape.dims().last()?;
    let gamma = generator.shaped(generator.palette.float, Shape::new(&[width]));
    let (kind, epsilon) = (generator.pick(Norm::ALL), Scalar::from(1.0));
    let (root, bound) = ((width as f64).sqrt(), gamma.0.bound);
    generator.run_with(Op::Norm { kind, epsilon }, &[x, gamma], root * bound, 0.0)?;
    if shape.rank() != 2 {
        return Some(());
    }
    let (gradient, weights) =
        (generator.shaped(generator.palette.float, shape), generator.random.random_bool(0.7));
    let op = Op::NormBackward { kind, epsilon, weights };
    let bound = root * gradient.0.bound * (3.0 * bound).max(shape[0] as f64);
    generator.run(op, &[x, gamma, gradient], bound).map(drop)
}

fn copy(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.all());
    let dtype =
        if generator.random.random_bool(0.5) { x.0.view.dtype } else { generator.pick(&generator.all()) };
    generator.run(Op::Copy { dtype }, &[x], x.0.bound).map(drop)
}

fn slice_assign(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.all());
    let shape = *x.1.shape();
    let (mut starts, mut steps, mut sizes) = ([0; MAX_RANK], [1; MAX_RANK], Vec::new());
    for axis in 0..shape.rank() {
        let size = generator.random.random_range(0..=shape[axis]);
        starts[axis] = generator.random.random_range(0..=shape[axis] - size);
        if size > 0 && generator.random.random_bool(0.2) {
            (starts[axis], steps[axis]) = (starts[axis] + size - 1, -1);
        }
        sizes.push(size);
    }
    let value = generator.shaped(x.0.view.dtype, Shape::new(&sizes));
    let bound = x.0.bound.max(value.0.bound);
    generator.run(Op::SliceAssign { starts, steps }, &[x, value], bound).map(drop)
}

fn gather(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let shape = *x.1.shape();
    let axis = axis(generator, &shape)?;
    let count = generator.random.random_range(1..20);
    let select = generator.random.random_bool(0.5);
    let indices = if select { Shape::new(&[count]) } else { shape.with(axis, count) };
    if indices.count() > 4096 {
        return None;
    }
    let index = generator.indices(shape[axis], indices);
    let op = if select { Op::Select { axis } } else { Op::Gather { axis } };
    generator.run(op, &[x, (index, index.view.layout)], x.0.bound).map(drop)
}

fn scatter(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&[generator.palette.float]);
    let shape = *x.1.shape();
    let axis = axis(generator, &shape)?;
    let count = generator.random.random_range(1..20);
    let values = shape.with(axis, count);
    if values.count() > 4096 {
        return None;
    }
    let select = generator.random.random_bool(0.5);
    let index = generator.indices(shape[axis], if select { Shape::new(&[count]) } else { values });
    let value = generator.shaped(generator.palette.float, values);
    let update = generator.pick(&[Update::Assign, Update::Add, Update::Add, Update::Min, Update::Max]);
    let op = if select { Op::SelectUpdate { axis, update } } else { Op::Scatter { axis, update } };
    let bound = x.0.bound + value.0.bound * count as f64;
    generator.run(op, &[x, (index, index.view.layout), value], bound).map(drop)
}

fn cumulative(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let axis = axis(generator, x.1.shape())?;
    let kind = generator.pick(&[Cumulative::Sum, Cumulative::Sum, Cumulative::Max, Cumulative::Min]);
    let bound = if kind == Cumulative::Sum { x.0.bound * x.1.shape()[axis] as f64 } else { x.0.bound };
    generator.run(Op::Cumulative { kind, axis }, &[x], bound).map(drop)
}

/// All elements in order or the first of them, or where they are.
fn sort(generator: &mut Generator) -> Option<()> {
    let x = generator.any(&generator.numbers());
    let axis = axis(generator, x.1.shape())?;
    let size = x.1.shape()[axis];
    let (count, descending) =
        (generator.pick(&[size, size, size.div_ceil(9)]), generator.random.random_bool(0.5));
    if generator.random.random_bool(0.5) {
        return generator.run(Op::Sort { axis, descending, count }, &[x], x.0.bound).map(drop);
    }
    let dtype = generator.pick(&[Dtype::I32, Dtype::I64]);
    generator.run(Op::ArgSort { axis, descending, count, dtype }, &[x], size as f64).map(drop)
}

fn matmul(generator: &mut Generator) -> Option<()> {
    let rank = generator.pick(&[2, 2, 3]);
    let float = generator.palette.float;
    let found = generator.find(|value| {
        let shape = value.view.shape();
        value.view.dtype == float && shape.rank() == rank && shape.count() > 0
    });
    let a = match found {
        Some(value) => (value, value.view.layout),
        None => {
            let sizes = if generator.palette.is_small { [2, 5, 8] } else { [3, 16, 33] };
            let value = generator.leaf(generator.palette.float, &sizes[3 - rank..]);
            (value, value.view.layout)
        }
    };
    let shape = *a.1.shape();
    let columns = generator.pick(if generator.palette.is_small { &[1, 3, 8, 16] } else { &[1, 8, 16, 40] });
    let b = generator
        .shaped(generator.palette.float, shape.with(rank - 2, shape[rank - 1]).with(rank - 1, columns));
    let bound = a.0.bound * b.0.bound * (shape[rank - 1] as f64).sqrt();
    if generator.random.random_bool(0.3) {
        let bias = generator.shaped(generator.palette.float, Shape::new(&[columns]));
        return generator.run(Op::Matmul, &[a, b, bias], bound + bias.0.bound).map(drop);
    }
    generator.run(Op::Matmul, &[a, b], bound).map(drop)
}

/// A batch of images `[n, c, h, w]`, a found one or a new one.
fn images(generator: &mut Generator) -> Chosen {
    let float = generator.palette.float;
    let found = generator.find(|value| {
        let shape = value.view.shape();
        let flat = shape.rank() == 4 || (shape.rank() == 5 && shape[2] == 1);
        let sides = shape.dims().iter().rev().take(2).min();
        value.view.dtype == float && flat && shape.count() > 0 && sides.is_some_and(|&side| side >= 4)
    });
    let value = found.unwrap_or_else(|| {
        let sizes = generator.images();
        generator.leaf(generator.palette.float, &sizes)
    });
    let dims = value.view.shape().dims();
    let flat = Shape::new(&[dims[0], dims[1], dims[dims.len() - 2], dims[dims.len() - 1]]);
    (value, value.view.layout.reshape(flat).expect("a dimension of size one can go"))
}

/// A batch of images with depth, mostly of one.
fn volumes(generator: &mut Generator) -> Chosen {
    if generator.random.random_bool(0.2) {
        let sizes = [2, generator.pick(&[2, 4]), 4, 5, 6];
        let value = generator.leaf(generator.palette.float, &sizes);
        return (value, value.view.layout);
    }
    let (value, layout) = images(generator);
    let dims = layout.shape().dims();
    let deep = Shape::new(&[dims[0], dims[1], 1, dims[2], dims[3]]);
    (value, layout.reshape(deep).expect("a dimension of size one can come"))
}

/// Forward, and often both backwards.
fn convolution(generator: &mut Generator) -> Option<()> {
    let x = volumes(generator);
    let shape = *x.1.shape();
    let groups = if shape[1].is_multiple_of(2) {
        generator.pick(&[1, 1, 2, if shape[1].is_multiple_of(4) { 4 } else { 2 }])
    } else {
        1
    };
    let depth = if shape[2] > 1 { generator.pick(&[1, 2, 3]) } else { 1 };
    let [height, width] = generator.pick(&[[1, 1], [3, 3], [2, 2], [1, 3]]);
    let kernel = [depth, height, width];
    let step = generator.pick(&[1, 1, 2]);
    let padding = [depth / 2, generator.pick(&[0, height / 2]), width / 2];
    let conv = Conv { stride: [1, step, 1], padding, dilation: [1; 3], groups };
    let filters = generator.pick(&[2, 4]).max(groups);
    let filters = Shape::new(&[filters, shape[1] / groups, depth, height, width]);
    let weight = generator.shaped(generator.palette.float, filters);
    let reach = ((filters.count() / filters[0]) as f64).sqrt();
    let bound = x.0.bound * weight.0.bound * reach + 2.0;
    let y = if generator.random.random_bool(0.5) {
        let bias = generator.shaped(generator.palette.float, Shape::new(&[filters[0]]));
        generator.run_with(Op::Conv(conv), &[x, weight, bias], bound, 0.0)?
    } else {
        generator.run_with(Op::Conv(conv), &[x, weight], bound, 0.0)?
    };
    let gradient = generator.shaped(generator.palette.float, *y.view.shape());
    let bound = |value: f64| value * gradient.0.bound * reach * 8.0;
    if generator.random.random_bool(0.5) {
        let op = Op::ConvBackwardInput { conv, size: [shape[2], shape[3], shape[4]] };
        generator.run_with(op, &[weight, gradient], bound(weight.0.bound), 0.0)?;
    }
    if generator.random.random_bool(0.7) {
        let op = Op::ConvBackwardWeight { conv, kernel };
        generator.run(op, &[x, gradient], bound(x.0.bound))?;
    }
    Some(())
}

fn window(generator: &mut Generator) -> Pool2d {
    let stride = generator.pick(&[1, 2]);
    Pool2d {
        kernel: generator.pick(&[[2, 2], [3, 3]]),
        stride: [stride, 2],
        padding: generator.pick(&[[0, 0], [1, 1]]),
        dilation: [1, 1],
        ceil_mode: generator.random.random_bool(0.3),
        count_include_pad: generator.random.random_bool(0.5),
    }
}

/// Forward with indices, and often the backward: two outputs that are dropped and remade together.
fn max_pool(generator: &mut Generator) -> Option<()> {
    let (x, pool) = (images(generator), window(generator));
    let size = [x.1.shape()[2], x.1.shape()[3]];
    let indices = generator.random.random_bool(0.8).then(|| generator.pick(&[Dtype::I32, Dtype::I64]));
    let values = generator.run(Op::MaxPool2d { pool, indices }, &[x], x.0.bound)?;
    let (Some(_), Some(indices)) = (indices, generator.live.last().copied()) else {
        return Some(());
    };
    if indices.slot == values.slot + 1 && generator.random.random_bool(0.7) {
        let gradient = generator.shaped(generator.palette.float, *values.view.shape());
        let inputs = [gradient, (indices, indices.view.layout)];
        generator.run(Op::MaxPool2dBackward { pool, size }, &inputs, 9.0 * gradient.0.bound)?;
    }
    Some(())
}

fn average_pool(generator: &mut Generator) -> Option<()> {
    let x = images(generator);
    let shape = *x.1.shape();
    let size = [shape[2], shape[3]];
    if generator.random.random_bool(0.5) {
        let small = generator.pick(&[[1, 1], [3, 2]]);
        let y = generator.run(Op::AdaptiveAvgPool2d { size: small }, &[x], x.0.bound)?;
        let gradient = generator.shaped(generator.palette.float, *y.view.shape());
        return generator
            .run(Op::AdaptiveAvgPool2dBackward { size }, &[gradient], gradient.0.bound)
            .map(drop);
    }
    let pool = window(generator);
    let y = generator.run(Op::AvgPool2d(pool), &[x], x.0.bound)?;
    let gradient = generator.shaped(generator.palette.float, *y.view.shape());
    generator.run(Op::AvgPool2dBackward { pool, size }, &[gradient], 9.0 * gradient.0.bound).map(drop)
}

fn alias(generator: &mut Generator) -> Option<()> {
    generator.alias();
    Some(())
}

fn drop_one(generator: &mut Generator) -> Option<()> {
    generator.drop_one();
    Some(())
}

fn read_one(generator: &mut Generator) -> Option<()> {
    generator.read_one();
    Some(())
}
