use super::super::testing::{Fixture, assert_near, elements, floats, in_pools};
use super::*;
use crate::op::{Layout, Shape};

#[derive(Clone, Copy, Debug)]
struct Case {
    image: [usize; 4],
    filters: usize,
    kernel: [usize; 2],
    conv: Conv2d,
    bias: bool,
}

fn case(image: [usize; 4], filters: usize, kernel: [usize; 2]) -> Case {
    let conv = Conv2d { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 };
    Case { image, filters, kernel, conv, bias: true }
}

impl Case {
    fn stride(mut self, y: usize, x: usize) -> Self {
        self.conv.stride = [y, x];
        self
    }
    fn padding(mut self, y: usize, x: usize) -> Self {
        self.conv.padding = [y, x];
        self
    }
    fn dilation(mut self, y: usize, x: usize) -> Self {
        self.conv.dilation = [y, x];
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
    fn weight(&self) -> [usize; 4] {
        let [kernel_y, kernel_x] = self.kernel;
        [self.filters, self.image[1] / self.conv.groups, kernel_y, kernel_x]
    }
    fn output(&self) -> [usize; 4] {
        let [y, x] = self.conv.output_size([self.image[2], self.image[3]], self.kernel);
        [self.image[0], self.filters, y, x]
    }

    /// Calls `visit` with flat indices of image, weight and output for every multiply-add.
    fn each_product(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let ([n, c, h, w], [o, per_group, kh, kw], [_, _, oh, ow]) =
            (self.image, self.weight(), self.output());
        let Conv2d { stride, padding, dilation, groups } = self.conv;
        for (image, filter) in (0..n).flat_map(|image| (0..o).map(move |filter| (image, filter))) {
            for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                let out = ((image * o + filter) * oh + y) * ow + x;
                for (channel, window) in (0..per_group).flat_map(|c| (0..kh * kw).map(move |k| (c, k))) {
                    let (ky, kx) = (window / kw, window % kw);
                    let (iy, ix) = (y * stride[0] + ky * dilation[0], x * stride[1] + kx * dilation[1]);
                    if iy < padding[0] || ix < padding[1] || iy - padding[0] >= h || ix - padding[1] >= w {
                        continue;
                    }
                    let from = filter / (o / groups) * per_group + channel;
                    let at = ((image * c + from) * h + iy - padding[0]) * w + ix - padding[1];
                    visit(at, (filter * per_group + channel) * kh * kw + window, out);
                }
            }
        }
    }
}

fn cases() -> Vec<Case> {
    vec![
        case([2, 3, 5, 6], 4, [3, 3]),
        case([3, 4, 8, 8], 8, [3, 3]).padding(1, 1),
        case([2, 4, 9, 7], 6, [3, 2]).padding(2, 1).stride(2, 3).groups(2),
        case([2, 6, 10, 9], 6, [3, 3]).padding(2, 2).dilation(2, 3).groups(6).no_bias(),
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
    ]
}

/// Ways to lay a tensor out: the values of the storage for it, and the view.
fn laid_out(shape: [usize; 4], seed: u64, way: usize) -> (Vec<f32>, View) {
    let view = |layout| View { dtype: Dtype::F32, layout };
    let [a, b, c, d] = shape;
    let layout = match way {
        0 => Layout::contiguous(Shape::new(&shape)),
        1 => Layout::contiguous(Shape::new(&[a, c, d, b])).permute(&[0, 3, 1, 2]),
        2 => Layout::contiguous(Shape::new(&[b, a, d, c])).permute(&[1, 0, 3, 2]).flip(3),
        3 => Layout::contiguous(Shape::new(&[a, b + 1, c + 2, 2 * d + 1]))
            .slice(1, 1, b, 1)
            .slice(2, 1, c, 1)
            .slice(3, 0, d, 2),
        _ => Layout::contiguous(Shape::new(&[b, 1, d])).expand(Shape::new(&shape)),
    };
    (floats((a + 1) * (b + 1) * (c + 2) * (2 * d + 2), seed), view(layout))
}

fn product(case: &Case, a: (&[f64], usize), b: (&[f64], usize), to: usize, count: usize) -> Vec<f64> {
    let mut sums = vec![0.0; count];
    case.each_product(|image, weight, out| {
        let index = [image, weight, out];
        sums[index[to]] += a.0[index[a.1]] * b.0[index[b.1]];
    });
    sums
}

fn as_f64(input: &(Vec<f32>, View)) -> Vec<f64> {
    elements(&input.0, &input.1.layout).into_iter().map(f64::from).collect()
}

fn run_op(op: Op, algorithm: Algorithm, inputs: &[(Vec<f32>, View)]) -> Vec<f32> {
    in_pools(|| {
        let workers = rayon::current_num_threads();
        let scratch = |views: &[View]| scratch_bytes(&op, algorithm, views, workers);
        // SAFETY: the fixture's memory is as large as its views need.
        Fixture::new(op, algorithm, inputs, scratch).run(|call| unsafe { run(call, workers) })
    })
}

#[test]
fn forward_matches_loops() {
    for (index, case) in cases().into_iter().enumerate() {
        for way in 0..5 {
            let image = laid_out(case.image, 1, way);
            let weight = laid_out(case.weight(), 2, (way + index) % 4);
            let mut inputs = vec![image, weight];
            let count = case.output().iter().product();
            let (a, b) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
            let mut wanted = product(&case, (&a, 0), (&b, 1), 2, count);
            if case.bias {
                let bias = Layout::contiguous(Shape::new(&[case.filters])).flip(0);
                let view = View { dtype: Dtype::F32, layout: bias };
                inputs.push((floats(case.filters, 3), view));
                let (bias, pixels) = (as_f64(&inputs[2]), case.output()[2] * case.output()[3]);
                for (out, sum) in wanted.iter_mut().enumerate() {
                    *sum += bias[out / pixels % case.filters];
                }
            }
            let got = run_op(Op::Conv2d(case.conv), Algorithm(0), &inputs);
            assert_near(&got, &wanted, 1e-5, &format!("{case:?}, layout {way}"));
        }
    }
}

#[test]
fn backward_of_input_matches_loops() {
    for (index, case) in cases().into_iter().enumerate() {
        for way in 0..5 {
            let inputs = [laid_out(case.weight(), 4, (way + index) % 4), laid_out(case.output(), 5, way)];
            let (weight, gradient) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
            let count = case.image.iter().product();
            let wanted = product(&case, (&weight, 1), (&gradient, 2), 0, count);
            let op = Op::Conv2dBackwardInput { conv: case.conv, size: [case.image[2], case.image[3]] };
            let got = run_op(op, Algorithm(0), &inputs);
            assert_near(&got, &wanted, 1e-5, &format!("{case:?}, layout {way}"));
        }
    }
}

#[test]
fn backward_of_weights_matches_loops() {
    for (index, case) in cases().into_iter().enumerate() {
        for way in 0..5 {
            let inputs = [laid_out(case.image, 6, way), laid_out(case.output(), 7, (way + index) % 5)];
            let (image, gradient) = (as_f64(&inputs[0]), as_f64(&inputs[1]));
            let count = case.weight().iter().product();
            let wanted = product(&case, (&image, 0), (&gradient, 2), 1, count);
            let op = Op::Conv2dBackwardWeight { conv: case.conv, kernel: case.kernel };
            for algorithm in [Algorithm(0), WHOLE_BATCH] {
                let got = run_op(op, algorithm, &inputs);
                assert_near(&got, &wanted, 3e-5, &format!("{case:?}, layout {way}, {algorithm:?}"));
            }
        }
    }
}

#[test]
fn too_little_scratch_is_an_error() {
    let case = case([2, 3, 5, 6], 4, [3, 3]);
    let inputs = [laid_out(case.image, 1, 0), laid_out(case.weight(), 2, 0)];
    let fixture = Fixture::new(Op::Conv2d(case.conv), Algorithm(0), &inputs, |_| 16);
    // SAFETY: the spans are as large as the views need, and too little scratch is refused.
    let error = unsafe { run(&fixture.call, 1) }.expect_err("16 bytes do not do");
    assert!(error.to_string().contains("scratch"), "{error}");
}
