use super::super::testing::{Fixture, Float, assert_near, elements, floats, in_pools};
use super::*;
use crate::op::{Conv, Layout, Shape};

#[derive(Clone, Copy, Debug)]
struct Case {
    image: [usize; 5],
    filters: usize,
    kernel: [usize; 3],
    conv: Conv,
    bias: bool,
}

/// In depth, height and width.
fn volume(image: [usize; 5], filters: usize, kernel: [usize; 3]) -> Case {
    let conv = Conv { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 };
    Case { image, filters, kernel, conv, bias: true }
}

/// In height and width.
fn case([n, c, h, w]: [usize; 4], filters: usize, [y, x]: [usize; 2]) -> Case {
    volume([n, c, 1, h, w], filters, [1, y, x])
}

impl Case {
    fn stride(mut self, y: usize, x: usize) -> Self {
        self.conv.stride = [1, y, x];
        self
    }
    fn padding(mut self, y: usize, x: usize) -> Self {
        self.conv.padding = [0, y, x];
        self
    }
    fn dilation(mut self, y: usize, x: usize) -> Self {
        self.conv.dilation = [1, y, x];
        self
    }
    /// Stride, padding and dilation in depth.
    fn depth(mut self, stride: usize, padding: usize, dilation: usize) -> Self {
        (self.conv.stride[0], self.conv.padding[0], self.conv.dilation[0]) = (stride, padding, dilation);
        self
    }
    fn groups(mut self, groups: usize) -> Self {
        self.conv.groups = groups;
        self
    }
    fn no_bias(mut self) -> Self {
        self.bias = false;
        self
    }
    fn size(&self) -> [usize; 3] {
        [self.image[2], self.image[3], self.image[4]]
    }
    fn weight(&self) -> [usize; 5] {
        let [z, y, x] = self.kernel;
        [self.filters, self.image[1] / self.conv.groups, z, y, x]
    }
    fn output(&self) -> [usize; 5] {
        let [z, y, x] = self.conv.output_size(self.size(), self.kernel);
        [self.image[0], self.filters, z, y, x]
    }

    /// Calls `visit` with flat indices of image, weight and output for every multiply-add.
    fn each_product(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let ([n, c, size @ ..], [o, per_group, kernel @ ..], [_, _, out @ ..]) =
            (self.image, self.weight(), self.output());
        let Conv { stride, padding, dilation, groups } = self.conv;
        let (pixels, taps): (usize, usize) = (out.iter().product(), kernel.iter().product());
        let split =
            |flat: usize, of: [usize; 3]| [flat / (of[1] * of[2]), flat / of[2] % of[1], flat % of[2]];
        for (outer, pixel) in (0..n * o).flat_map(|outer| (0..pixels).map(move |pixel| (outer, pixel))) {
            let (image, filter, place) = (outer / o, outer % o, split(pixel, out));
            for (channel, tap) in (0..per_group).flat_map(|c| (0..taps).map(move |tap| (c, tap))) {
                let window = split(tap, kernel);
                let at: [usize; 3] = std::array::from_fn(|k| place[k] * stride[k] + window[k] * dilation[k]);
                if (0..3).any(|k| at[k] < padding[k] || at[k] - padding[k] >= size[k]) {
                    continue;
                }
                let from = filter / (o / groups) * per_group + channel;
                let flat = (0..3).fold(image * c + from, |flat, k| flat * size[k] + at[k] - padding[k]);
                visit(flat, (filter * per_group + channel) * taps + tap, outer * pixels + pixel);
            }
        }
    }
}

fn cases() -> Vec<Case> {
    vec![
        case([2, 3, 5, 6], 4, [3, 3]),
        case([3, 4, 8, 8], 8, [3, 3]).padding(1, 1),
        case([2, 4, 9, 7], 6, [3, 2]).padding(2, 1).stride(2, 3).groups(2),
        case([5, 8, 4, 4], 16, [1, 1]),
        case([2, 8, 7, 7], 4, [1, 1]).stride(2, 2).no_bias(),
        case([2, 3, 4, 4], 5, [1, 1]).padding(1, 1),
        case([1, 2, 3, 3], 2, [5, 5]).padding(2, 2),
        case([1, 2, 3, 3], 2, [2, 2]).padding(3, 4),
        case([2, 2, 2, 2], 3, [5, 5]),
        case([0, 3, 5, 5], 4, [3, 3]),
        case([2, 3, 5, 5], 0, [3, 3]),
        case([2, 0, 5, 5], 3, [3, 3]),
        case([1, 16, 40, 72], 8, [3, 3]).padding(1, 1).stride(1, 2),
        case([2, 16, 34, 70], 16, [3, 3]).padding(1, 1),
        case([67, 16, 4, 4], 32, [3, 3]).padding(1, 1),
        case([9, 24, 16, 16], 20, [3, 3]).padding(1, 1).stride(2, 2),
        case([2, 3, 18, 18], 16, [3, 3]).padding(1, 1),
        // Of one dimension.
        case([2, 8, 1, 150], 12, [1, 5]).padding(0, 2),
        case([2, 8, 1, 150], 12, [1, 5]).padding(0, 4).stride(1, 3).dilation(1, 2),
        // With depth.
        volume([2, 3, 4, 5, 6], 5, [2, 3, 3]).padding(1, 1),
        volume([2, 3, 6, 5, 7], 5, [3, 2, 3]).depth(1, 1, 1).padding(1, 0),
        volume([2, 4, 7, 6, 5], 6, [3, 3, 2]).depth(2, 2, 2).stride(2, 1).padding(1, 1).groups(2),
        volume([1, 8, 9, 12, 40], 16, [3, 3, 3]).depth(1, 1, 1).padding(1, 1),
        volume([2, 4, 3, 4, 5], 6, [1, 1, 1]),
        volume([2, 4, 3, 4, 5], 6, [1, 1, 1]).depth(2, 1, 1),
        volume([1, 2, 2, 3, 3], 3, [4, 2, 2]).depth(1, 5, 1),
        volume([2, 2, 2, 3, 3], 3, [3, 2, 2]),
        volume([2, 0, 2, 3, 3], 3, [1, 2, 2]),
        volume([0, 2, 2, 3, 3], 3, [1, 2, 2]),
    ]
}

/// Groups of few channels and filters.
fn depthwise_cases() -> Vec<Case> {
    vec![
        case([2, 6, 10, 9], 6, [3, 3]).padding(2, 2).dilation(2, 3).groups(6).no_bias(),
        case([2, 6, 9, 50], 12, [3, 3]).padding(1, 1).groups(6),
        case([2, 6, 9, 50], 6, [3, 5]).padding(1, 2).stride(2, 2).groups(3),
        case([1, 2, 70, 140], 2, [3, 3]).padding(1, 1).groups(2),
        case([2, 3, 11, 13], 3, [2, 3]).stride(3, 3).groups(3),
        case([2, 3, 6, 6], 3, [2, 2]).padding(3, 4).groups(3),
        case([2, 8, 1, 150], 8, [1, 5]).padding(0, 2).groups(8),
        case([2, 3, 2, 2], 3, [5, 5]).groups(3),
        case([0, 3, 5, 5], 3, [3, 3]).groups(3),
        case([3, 1, 9, 9], 1, [3, 3]),
        volume([2, 4, 5, 6, 7], 4, [3, 3, 3]).depth(1, 1, 1).padding(1, 1).groups(4),
        volume([2, 4, 5, 6, 19], 8, [2, 3, 1]).depth(2, 1, 2).padding(1, 0).stride(1, 2).groups(4),
    ]
}

/// Ways to lay a tensor out: the values of the storage for it, and the view.
fn laid_out<T: Float>(shape: [usize; 5], seed: u64, way: usize) -> (Vec<T>, View) {
    let [a, b, c, d, e] = shape;
    let layout = match way {
        0 => Layout::contiguous(Shape::new(&shape)),
        1 => Layout::contiguous(Shape::new(&[a, c, d, e, b])).permute(&[0, 4, 1, 2, 3]),
        2 => Layout::contiguous(Shape::new(&[b, a, e, c, d])).permute(&[1, 0, 3, 4, 2]).flip(4),
        3 => Layout::contiguous(Shape::new(&[a, b + 1, c + 1, d + 2, 2 * e + 1]))
            .slice(1, 1, b, 1)
            .slice(2, 1, c, 1)
            .slice(3, 1, d, 1)
            .slice(4, 0, e, 2),
        _ => Layout::contiguous(Shape::new(&[b, c, 1, e])).expand(Shape::new(&shape)),
    };
    let values = floats((a + 1) * (b + 1) * (c + 1) * (d + 2) * (2 * e + 2), seed);
    (values.into_iter().map(Float::from).collect(), View { dtype: T::DTYPE, layout })
}

fn product(case: &Case, a: (&[f64], usize), b: (&[f64], usize), to: usize, count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count];
    case.each_product(|image, weight, out| {
        let index = [image, weight, out];
        sums[index[to]] += a.0[index[a.1]] * b.0[index[b.1]];
    });
    sums
}

fn as_f64<T: Float>(input: &(Vec<T>, View)) -> Vec<f64> {
    elements(&input.0, &input.1.layout).into_iter().map(Into::into).collect()
}

fn run_op<T: Float>(op: Op, algorithm: Algorithm, inputs: &[(Vec<T>, View)]) -> Vec<T> {
    in_pools(|| {
        let workers = rayon::current_num_threads();
        let scratch = |views: &[View]| scratch_bytes(&op, algorithm, views, workers);
        // SAFETY: the fixture's memory is as large as its views need.
        Fixture::new(op, algorithm, inputs, scratch).run(|call| unsafe { run(call, workers) })
    })
}

fn check_forward<T: Float>(case: &Case, way: usize, weight_way: usize) {
    let mut inputs = vec![laid_out::<T>(case.image, 1, way), laid_out(case.weight(), 2, weight_way)];
    let count = case.output().iter().product();
    let (a, b) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
    let mut wanted = product(case, (&a, 0), (&b, 1), 2, count);
    if case.bias {
        let view = View { dtype: T::DTYPE, layout: Layout::contiguous(Shape::new(&[case.filters])).flip(0) };
        inputs.push((floats(case.filters, 3).into_iter().map(Float::from).collect(), view));
        let (bias, pixels) = (as_f64(&inputs[2]), case.output()[2..].iter().product::<usize>());
        for (out, sum) in wanted.iter_mut().enumerate() {
            *sum += bias[out / pixels % case.filters];
        }
    }
    let got = run_op(Op::Conv(case.conv), Algorithm(0), &inputs);
    assert_near(&got, &wanted, T::TOLERANCE, &format!("{case:?}, layout {way}"));
}

fn check_input<T: Float>(case: &Case, way: usize, weight_way: usize) {
    let inputs = [laid_out::<T>(case.weight(), 4, weight_way), laid_out(case.output(), 5, way)];
    let (weight, gradient) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
    let count = case.image.iter().product();
    let wanted = product(case, (&weight, 1), (&gradient, 2), 0, count);
    let op = Op::ConvBackwardInput { conv: case.conv, size: case.size() };
    let got = run_op(op, Algorithm(0), &inputs);
    assert_near(&got, &wanted, T::TOLERANCE, &format!("{case:?}, layout {way}"));
}

fn check_weight<T: Float>(case: &Case, way: usize, gradient_way: usize) {
    let inputs = [laid_out::<T>(case.image, 6, way), laid_out(case.output(), 7, gradient_way)];
    let (image, gradient) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
    let count = case.weight().iter().product();
    let wanted = product(case, (&image, 0), (&gradient, 2), 1, count);
    let op = Op::ConvBackwardWeight { conv: case.conv, kernel: case.kernel };
    for algorithm in [Algorithm(0), WHOLE_BATCH] {
        let got = run_op(op, algorithm, &inputs);
        assert_near(&got, &wanted, T::TOLERANCE, &format!("{case:?}, layout {way}, {algorithm:?}"));
    }
}

/// Every case in every layout of 32-bit floats, and in one of 64 bits.
fn check_all(narrow: fn(&Case, usize, usize), wide: fn(&Case, usize, usize)) {
    for (index, case) in cases().iter().chain(&depthwise_cases()).enumerate() {
        for way in 0..5 {
            narrow(case, way, (way + index) % 4);
        }
        wide(case, index % 4, index / 4 % 4);
    }
}

#[test]
fn forward_matches_loops() {
    check_all(check_forward::<f32>, check_forward::<f64>);
}

#[test]
fn backward_of_input_matches_loops() {
    check_all(check_input::<f32>, check_input::<f64>);
}

#[test]
fn backward_of_weights_matches_loops() {
    check_all(check_weight::<f32>, check_weight::<f64>);
}

#[test]
fn too_little_scratch_is_an_error() {
    let case = case([2, 3, 5, 6], 4, [3, 3]);
    let inputs = [laid_out::<f32>(case.image, 1, 0), laid_out(case.weight(), 2, 0)];
    let fixture = Fixture::new(Op::Conv(case.conv), Algorithm(0), &inputs, |_| 16);
    // SAFETY: the spans are as large as the views need, and too little scratch is refused.
    let error = unsafe { run(&fixture.call, 1) }.expect_err("16 bytes do not do");
    assert!(error.to_string().contains("scratch"), "{error}");
}
