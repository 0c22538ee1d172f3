//! Workspace and predicted time of a GPU's algorithms for convolutions, by public descriptions of cuDNN's.
//!
//! - *Explicit GEMM*, the default: the windows of one image are laid out as columns of a matrix, which is multiplied
//!   with the weights.
//! - *Implicit GEMM*: the same product, whose matrix is never formed, so that it takes no workspace (Chetlur et al., *cuDNN:
//!   Efficient Primitives for Deep Learning*, arXiv:1410.0759, section 3). Its arithmetic and the tensors that it reads are
//!   the same, so the roofline gives it the same time.
//! - *Winograd, not fused*: F(4x4, 3x3) of Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*,
//!   arXiv:1509.09308. All images are cut in tiles of 6x6 that overlap by two, so that each 4x4 outputs take 36
//!   multiplications instead of 144. The transformed operands are the workspace. For the gradients the tiles are the
//!   same, and another of the three operands is transformed back.
//!
//! The model assumes that each algorithm runs at the roofline, like all ops here, and that the additions of the
//! transforms hide behind their memory traffic. On devices whose kernels are priced one by one, the default takes as long as
//! cuDNN's choice did on an H100 ([`Problem::reached`]).

use crate::engine::{Algorithm, Props};
use crate::op::{Conv, Op, Outputs, View, Work};

const IMPLICIT_GEMM: Algorithm = Algorithm(1);
const WINOGRAD: Algorithm = Algorithm(2);

/// The side of a tile in the outputs, and the number of its elements after the transform.
const TILE_SIDE: usize = 4;
const TILE_ELEMENTS: usize = 36;

/// A convolution or one of its gradients.
struct Problem<'a> {
    conv: Conv,
    image: &'a View,
    weight: &'a View,
    output: &'a View,
}

impl<'a> Problem<'a> {
    fn of(op: &Op, inputs: &'a [View], outputs: &'a Outputs) -> Option<Self> {
        let (conv, image, weight, output) = match *op {
            Op::Conv(conv) => (conv, &inputs[0], &inputs[1], &outputs[0]),
            Op::ConvBackwardInput { conv, .. } => (conv, &outputs[0], &inputs[0], &inputs[1]),
            Op::ConvBackwardWeight { conv, .. } => (conv, &inputs[0], &outputs[0], &inputs[1]),
            _ => return None,
        };
        Some(Problem { conv, image, weight, output })
    }

    /// Elements of the column matrix of one image and group: `[channels * taps, pixels]`.
    fn columns_bytes(&self) -> usize {
        let taps: usize = self.weight.shape().dims()[1..].iter().product();
        let pixels: usize = self.output.shape().dims()[2..].iter().product();
        taps * pixels * self.weight.dtype.size_bytes()
    }

    fn has_tiles(&self) -> bool {
        let Conv { stride, dilation, groups, .. } = self.conv;
        let (image, weight) = (self.image.shape().dims(), self.weight.shape().dims());
        (stride, dilation, groups, image[2]) == ([1; 3], [1; 3], 1, 1) && weight[2..] == [1, 3, 3]
    }

    /// The part of the rate of matrix products that cuDNN's choice reaches, which is above one where that is Winograd's: of
    /// 30 convolutions of ResNet-50 and U-Net on an H100 with cuDNN 9.14, and of traces of whole steps.
    fn reached(&self, op: &Op) -> f64 {
        if self.weight.dtype.size_bytes() == 2 {
            return 0.25;
        }
        let is_padded = self.conv.padding != [0; 3];
        match op {
            Op::ConvBackwardWeight { .. } if self.has_tiles() => 1.25,
            Op::ConvBackwardWeight { .. } => 0.35,
            _ if self.has_tiles() && is_padded => 1.4,
            Op::ConvBackwardInput { .. } if self.conv.stride != [1; 3] => 0.125,
            Op::ConvBackwardInput { .. } => 0.37,
            _ => 0.65,
        }
    }

    /// Bytes of the transformed image, weights and output.
    fn tiles_bytes(&self) -> [usize; 3] {
        let (output, weight) = (self.output.shape().dims(), self.weight.shape().dims());
        let tiles = output[0] * output[3].div_ceil(TILE_SIDE) * output[4].div_ceil(TILE_SIDE);
        let (filters, channels) = (weight[0], weight[1]);
        [tiles * channels, filters * channels, tiles * filters]
            .map(|count| count * TILE_ELEMENTS * self.weight.dtype.size_bytes())
    }

    /// Predicted time by tiles: two operands are transformed and multiplied, and the third is transformed back.
    fn tiles_ns(&self, op: &Op, props: &Props) -> u64 {
        let [image, weight, output] = self.tiles_bytes();
        let size = |view: &View| view.size_bytes();
        let image = (size(self.image), image);
        let weight = (size(self.weight), weight);
        let output = (size(self.output), output);
        let (read, made) = match op {
            Op::ConvBackwardInput { .. } => ([weight, output], image),
            Op::ConvBackwardWeight { .. } => ([image, output], weight),
            _ => ([image, weight], output),
        };
        let dtype = self.weight.dtype;
        let stage = |flops: usize, read_bytes: usize, written_bytes: usize| {
            let [flops, read_bytes, written_bytes] =
                [flops, read_bytes, written_bytes].map(|count| count as u64);
            props.launch_ns(&Work { flops, read_bytes, written_bytes, dtype, measured_ns: None })
        };
        let filters = self.weight.shape().dims()[0];
        let multiplications = image.1 / dtype.size_bytes() * filters;
        let product_ns = stage(2 * multiplications, read[0].1 + read[1].1, made.1);
        read.map(|(plain, tiles)| stage(0, plain, tiles)).iter().sum::<u64>()
            + product_ns
            + stage(0, made.1, made.0)
    }
}

/// Algorithms that may be chosen instead of the first.
pub(super) fn alternatives(op: &Op, inputs: &[View]) -> Vec<Algorithm> {
    match Problem::of(op, inputs, &op.outputs(inputs)) {
        Some(problem) if problem.has_tiles() => vec![IMPLICIT_GEMM, WINOGRAD],
        Some(_) => vec![IMPLICIT_GEMM],
        None => Vec::new(),
    }
}

/// Workspace of a convolution; zero for other ops. Encoded images are decoded one at a time, when their columns are
/// laid out, so that the products and their bits are those of images that are not encoded.
pub(super) fn scratch_bytes(
    op: &Op,
    algorithm: Algorithm,
    inputs: &[View],
    outputs: &Outputs,
) -> Option<usize> {
    if let Some((_, images, of_images)) = op.in_two(inputs) {
        let columns_bytes = scratch_bytes(&of_images, algorithm, &[images, inputs[1]], outputs)?;
        return Some(columns_bytes + images.size_bytes() / images.shape()[0].max(1));
    }
    let problem = Problem::of(op, inputs, outputs)?;
    Some(match algorithm {
        IMPLICIT_GEMM => 0,
        WINOGRAD => problem.tiles_bytes().iter().sum(),
        _ => problem.columns_bytes(),
    })
}

/// Predicted time of an op.
pub(super) fn launch_ns(
    props: &Props,
    op: &Op,
    algorithm: Algorithm,
    inputs: &[View],
    outputs: &Outputs,
) -> u64 {
    match Problem::of(op, inputs, outputs) {
        Some(problem) if algorithm == WINOGRAD => problem.tiles_ns(op, props),
        Some(problem) if props.kernels.is_some() => {
            let work = op.work(inputs, outputs);
            let flops = (work.flops as f64 / problem.reached(op)) as u64;
            props.launch_ns(&Work { flops, ..work })
        }
        _ => props.op_ns(op, inputs, outputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Flops, HostTimes};
    use crate::op::{Dtype, Shape};

    /// A billion operations and bytes a second: one each a nanosecond.
    fn props() -> Props {
        Props {
            name: "test".into(),
            device_bytes: 0,
            host_bytes: 0,
            shares_memory: false,
            flops: Flops::all(1e9),
            memory_bytes_per_second: 1e9,
            offload_bytes_per_second: 1e9,
            fetch_bytes_per_second: 1e9,
            peer_bytes_per_second: None,
            overhead_ns: 0,
            page_bytes: None,
            view_bytes: None,
            host: HostTimes::default(),
            kernels: None,
        }
    }

    fn view(dims: &[usize]) -> View {
        View::contiguous(Dtype::F32, Shape::new(dims))
    }

    const CONV: Conv = Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 };

    /// The convolution of two images of 64 channels and 8x8 pixels to 32 channels, and its gradients, with the inputs
    /// of each.
    fn problems() -> [(Op, [View; 2]); 3] {
        let (image, weight) = (view(&[2, 64, 1, 8, 8]), view(&[32, 64, 1, 3, 3]));
        let output = view(&[2, 32, 1, 8, 8]);
        [
            (Op::Conv(CONV), [image, weight]),
            (Op::ConvBackwardInput { conv: CONV, size: [1, 8, 8] }, [weight, output]),
            (Op::ConvBackwardWeight { conv: CONV, kernel: [1, 3, 3] }, [image, output]),
        ]
    }

    #[test]
    fn each_algorithm_takes_its_workspace() {
        for (op, inputs) in problems() {
            let bytes = |algorithm| scratch_bytes(&op, algorithm, &inputs, &op.outputs(&inputs)).unwrap();
            assert_eq!(bytes(Algorithm::default()), 4 * 64 * 9 * 64);
            assert_eq!(bytes(IMPLICIT_GEMM), 0);
            // Two images of 2x2 tiles.
            assert_eq!(bytes(WINOGRAD), 4 * 36 * (8 * 64 + 32 * 64 + 8 * 32));
        }
    }

    #[test]
    fn tiles_take_a_quarter_of_the_multiplications_and_more_traffic() {
        for (op, inputs) in problems() {
            let outputs = op.outputs(&inputs);
            let direct_ns = launch_ns(&props(), &op, Algorithm::default(), &inputs, &outputs);
            assert_eq!(direct_ns, 2 * 9 * 2 * 64 * 64 * 32);
            assert_eq!(launch_ns(&props(), &op, IMPLICIT_GEMM, &inputs, &outputs), direct_ns);
            let plain: usize = inputs.iter().chain(&outputs).map(View::size_bytes).sum();
            let tiles = scratch_bytes(&op, WINOGRAD, &inputs, &outputs).unwrap();
            let expected_ns = direct_ns / 4 + (plain + tiles) as u64;
            assert_eq!(launch_ns(&props(), &op, WINOGRAD, &inputs, &outputs), expected_ns);
        }
    }

    #[test]
    fn tiles_are_for_windows_of_three_by_three_at_every_pixel() {
        let image = view(&[2, 64, 1, 8, 8]);
        let of = |conv, weight| alternatives(&Op::Conv(conv), &[image, weight]);
        let three = view(&[32, 64, 1, 3, 3]);
        assert_eq!(of(CONV, three), [IMPLICIT_GEMM, WINOGRAD]);
        assert_eq!(of(CONV, view(&[32, 64, 1, 5, 5])), [IMPLICIT_GEMM]);
        assert_eq!(of(Conv { stride: [1, 2, 2], ..CONV }, three), [IMPLICIT_GEMM]);
        assert_eq!(of(Conv { dilation: [1, 2, 2], ..CONV }, three), [IMPLICIT_GEMM]);
        assert_eq!(of(Conv { groups: 2, ..CONV }, view(&[32, 32, 1, 3, 3])), [IMPLICIT_GEMM]);
        assert_eq!(alternatives(&Op::Matmul, &[view(&[2, 2]), view(&[2, 2])]), []);
    }
}
