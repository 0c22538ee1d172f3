//! The calls of cuDNN: descriptions of convolutions, and algorithms for each.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::cudnn::sys;
use cudarc::cudnn::sys::{
    cudnnConvolutionBwdDataAlgo_t as InputAlgorithm, cudnnConvolutionBwdFilterAlgo_t as WeightAlgorithm,
    cudnnConvolutionFwdAlgo_t as ForwardAlgorithm, cudnnDataType_t as DataType, cudnnMathType_t as Math,
};

use super::problem::{Pass, Problem, Tensor};
use crate::engine::cuda::driver::{Called, Context, Stream};
use crate::engine::cuda::factor::Factor;
use crate::engine::cuda::library::{Remembered, call, of_float, owned};
use crate::engine::{Algorithm, Span};
use crate::op::Dtype;

/// Workspace of the default algorithm beside the operands, in quarters of them: Winograd's transformed tiles take up to 3.1 times as
/// much, channels that are padded for tensor cores up to 2.7 times.
const WORKSPACE_QUARTERS: usize = 13;
/// Where that is more than the operands take themselves, it ends here.
const MAX_WORKSPACE_BYTES: usize = 1 << 30;
/// More algorithms than any pass has.
const MAX_WAYS: usize = 16;
owned! {
    Handle(sys::cudnnHandle_t), cudnnCreate(), cudnnDestroy;
    TensorDescription(sys::cudnnTensorDescriptor_t), cudnnCreateTensorDescriptor(), cudnnDestroyTensorDescriptor;
    FilterDescription(sys::cudnnFilterDescriptor_t), cudnnCreateFilterDescriptor(), cudnnDestroyFilterDescriptor;
    WindowDescription(sys::cudnnConvolutionDescriptor_t), cudnnCreateConvolutionDescriptor(),
        cudnnDestroyConvolutionDescriptor;
}

fn data_type(dtype: Dtype) -> DataType {
    use DataType::{CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF};
    of_float(dtype, [CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16])
}

/// Without the depth, where planes are convolved.
fn flattened(sizes: [i32; 5], is_flat: bool) -> ([i32; 5], i32) {
    let [images, channels, depth, height, width] = sizes;
    match is_flat {
        true => ([images, channels, height, width, 0], 4),
        false => ([images, channels, depth, height, width], 5),
    }
}

impl TensorDescription {
    fn new(problem: &Problem, tensor: &Tensor) -> Called<Self> {
        let description = TensorDescription::create()?;
        let (sizes, rank) = flattened(tensor.sizes, problem.is_flat());
        let (strides, _) = flattened(tensor.strides, problem.is_flat());
        let (dtype, sizes, strides) = (data_type(problem.dtype), sizes.as_ptr(), strides.as_ptr());
        // SAFETY: the description lives; there are as many sizes and strides as dimensions.
        unsafe { call!(cudnnSetTensorNdDescriptor(description.0, dtype, rank, sizes, strides)) }?;
        Ok(description)
    }
}

impl FilterDescription {
    fn new(problem: &Problem) -> Called<Self> {
        let description = FilterDescription::create()?;
        let (sizes, rank) = flattened(problem.weight, problem.is_flat());
        let (dtype, format) = (data_type(problem.dtype), sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW);
        // SAFETY: the description lives; there are as many sizes as dimensions.
        unsafe { call!(cudnnSetFilterNdDescriptor(description.0, dtype, format, rank, sizes.as_ptr())) }?;
        Ok(description)
    }
}

impl WindowDescription {
    fn new(problem: &Problem, math: Math) -> Called<Self> {
        let description = WindowDescription::create()?;
        let first = usize::from(problem.is_flat());
        let part = |sizes: &[i32; 3]| sizes[first..].as_ptr();
        let (padding, stride, dilation) =
            (part(&problem.padding), part(&problem.stride), part(&problem.dilation));
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let sums = match problem.dtype {
            Dtype::F64 => DataType::CUDNN_DATA_DOUBLE,
            _ => DataType::CUDNN_DATA_FLOAT,
        };
        // SAFETY: the description lives; there are as many numbers as dimensions that the window moves along.
        unsafe {
            let rank = 3 - first as i32;
            call!(cudnnSetConvolutionNdDescriptor(
                description.0,
                rank,
                padding,
                stride,
                dilation,
                mode,
                sums
            ))?;
            call!(cudnnSetConvolutionGroupCount(description.0, problem.groups))?;
        }
        description.set_math(math)?;
        Ok(description)
    }

    fn set_math(&self, math: Math) -> Called<()> {
        // SAFETY: the description lives.
        unsafe { call!(cudnnSetConvolutionMathType(self.0, math)) }
    }
}

/// One of the library's algorithms.
#[derive(Clone, Copy, Debug)]
struct Way {
    algorithm: PassAlgorithm,
    math: Math,
    workspace_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum PassAlgorithm {
    Forward(ForwardAlgorithm),
    Input(InputAlgorithm),
    Weight(WeightAlgorithm),
}

impl PassAlgorithm {
    /// Whether it is Winograd's, with transformed tiles in memory. Where it fits, others took up to 2.8 times as long on an H100, and
    /// the library put them first (cuDNN 9.14, `benches/results/gpu`).
    fn is_winograd_in_memory(self) -> bool {
        matches!(
            self,
            PassAlgorithm::Forward(ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED)
                | PassAlgorithm::Input(InputAlgorithm::CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED)
                | PassAlgorithm::Weight(WeightAlgorithm::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED)
        )
    }
}

/// How a convolution is done.
#[derive(Debug)]
struct Plan {
    image: TensorDescription,
    weight: FilterDescription,
    result: TensorDescription,
    window: WindowDescription,
    /// The fastest first, as far as the library knows. Not empty.
    ways: Vec<Way>,
    /// Which of them is the default.
    default: usize,
}

impl Plan {
    /// The place of an algorithm: 0 is the default, then come the library's in order.
    fn place(&self, algorithm: Algorithm) -> Option<usize> {
        let place = usize::from(algorithm.0).checked_sub(1).unwrap_or(self.default);
        (place < self.ways.len()).then_some(place)
    }
}

/// Where the operands of a convolution are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    /// In the op's order.
    pub inputs: [u64; 2],
    pub out: u64,
    /// Whether the result is added to what the output is.
    pub is_added: bool,
    pub workspace: Span,
}

/// The library, and what it said so far.
#[derive(Debug)]
pub(super) struct Cudnn {
    tf32: bool,
    remembered: Remembered<Handle, Problem, Plan>,
}

/// The algorithms of a pass that give the same bits every time.
macro_rules! ways {
    ($get:ident, $size:ident, $kind:path, $handle:expr, $window:expr, $exact:expr, $first:expr, $second:expr, $made:expr) => {{
        let (mut found, mut count) = (Vec::with_capacity(MAX_WAYS), 0);
        let (window, most) = ($window.0, MAX_WAYS as i32);
        // SAFETY: all descriptions live, there is room for `most` results, and `count` of them are written.
        unsafe {
            call!($get($handle, $first, $second, window, $made, most, &mut count, found.as_mut_ptr()))?;
            found.set_len(usize::try_from(count).unwrap_or(0).min(MAX_WAYS));
        }
        let mut ways = Vec::new();
        for result in found {
            let is_repeatable = result.determinism == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC;
            if result.status != sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS || !is_repeatable {
                continue;
            }
            // Where sums are to be of whole operands, the library's wish for another arithmetic is not followed.
            let math = $exact.unwrap_or(result.mathType);
            $window.set_math(math)?;
            let (mut workspace_bytes, algorithm) = (0, result.algo);
            // SAFETY: all descriptions live, and the size is one.
            let size = unsafe {
                call!($size($handle, $first, $second, window, $made, algorithm, &mut workspace_bytes))
            };
            if size.is_ok() {
                ways.push(Way { algorithm: $kind(algorithm), math, workspace_bytes });
            }
        }
        ways
    }};
}

impl Cudnn {
    /// With the library open.
    pub fn new(context: &Arc<Context>, tf32: bool) -> Called<Self> {
        context.enter()?;
        Ok(Cudnn { tf32, remembered: Remembered::new("cuDNN", context, Handle::create()?) })
    }

    fn with_plan<R>(&self, problem: &Problem, use_plan: impl FnOnce(&Handle, &Plan) -> R) -> Option<R> {
        self.remembered.with(problem, |handle| self.plan(handle, problem), use_plan)
    }

    /// How many algorithms there are.
    pub fn ways(&self, problem: &Problem) -> usize {
        self.with_plan(problem, |_, plan| plan.ways.len()).unwrap_or(0)
    }

    pub fn workspace_bytes(&self, problem: &Problem, algorithm: Algorithm) -> Option<usize> {
        let bytes = |plan: &Plan| plan.place(algorithm).map(|place| plan.ways[place].workspace_bytes);
        self.with_plan(problem, |_, plan| bytes(plan)).flatten()
    }

    /// How many algorithms the library puts before this one.
    pub fn rank(&self, problem: &Problem, algorithm: Algorithm) -> Option<usize> {
        self.with_plan(problem, |_, plan| plan.place(algorithm)).flatten()
    }

    /// All but the default.
    pub fn alternatives(&self, problem: &Problem) -> Vec<Algorithm> {
        let others = |plan: &Plan| {
            let places = (0..plan.ways.len()).filter(|&place| place != plan.default);
            places.map(|place| Algorithm(place as u8 + 1)).collect()
        };
        self.with_plan(problem, |_, plan| others(plan)).unwrap_or_default()
    }

    /// The arithmetic that is asked for, and whether no other will do.
    fn math(&self, dtype: Dtype) -> (Math, bool) {
        match dtype {
            Dtype::F16 | Dtype::BF16 => (Math::CUDNN_TENSOR_OP_MATH, false),
            Dtype::F32 if self.tf32 => (Math::CUDNN_DEFAULT_MATH, false),
            _ => (Math::CUDNN_FMA_MATH, true),
        }
    }

    fn plan(&self, handle: &Handle, problem: &Problem) -> Called<Plan> {
        let (math, is_exact) = self.math(problem.dtype);
        let exact = is_exact.then_some(math);
        let image = TensorDescription::new(problem, &problem.image)?;
        let weight = FilterDescription::new(problem)?;
        let result = TensorDescription::new(problem, &problem.result)?;
        let window = WindowDescription::new(problem, math)?;
        let mut ways = match problem.pass {
            Pass::Forward => ways!(
                cudnnGetConvolutionForwardAlgorithm_v7,
                cudnnGetConvolutionForwardWorkspaceSize,
                PassAlgorithm::Forward,
                handle.0,
                window,
                exact,
                image.0,
                weight.0,
                result.0
            ),
            Pass::Input => ways!(
                cudnnGetConvolutionBackwardDataAlgorithm_v7,
                cudnnGetConvolutionBackwardDataWorkspaceSize,
                PassAlgorithm::Input,
                handle.0,
                window,
                exact,
                weight.0,
                result.0,
                image.0
            ),
            Pass::Weight => ways!(
                cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                cudnnGetConvolutionBackwardFilterWorkspaceSize,
                PassAlgorithm::Weight,
                handle.0,
                window,
                exact,
                image.0,
                result.0,
                weight.0
            ),
        };
        if is_exact {
            // Elsewhere the library has better than these.
            ways.sort_by_key(|way| !way.algorithm.is_winograd_in_memory());
        }
        let default = default_way(&ways, problem).ok_or("no algorithm gives the same bits every time")?;
        Ok(Plan { image, weight, result, window, ways, default })
    }

    /// Puts a convolution into a stream.
    ///
    /// # Safety
    /// The tensors of the problem are at these addresses, the workspace is as large as
    /// [`workspace_bytes`](Cudnn::workspace_bytes) says, and all is as
    /// [`Engine::launch`](crate::engine::Engine::launch) asks.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        problem: &Problem,
        algorithm: Algorithm,
        at: &Addresses,
    ) -> Called<()> {
        let pointer = |address: u64| ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let [first, second] = at.inputs.map(pointer);
        let (out, workspace) = (pointer(at.out), pointer(at.workspace.address));
        let one = Factor::new(problem.dtype, 1.0);
        let kept = Factor::new(problem.dtype, f64::from(u8::from(at.is_added)));
        let (one, kept) = (one.start(), kept.start());
        let run = |handle: &Handle, plan: &Plan| {
            let way = plan.ways[plan.place(algorithm).ok_or("cuDNN has no such algorithm")?];
            let (image, weight, result) = (plan.image.0, plan.weight.0, plan.result.0);
            let (handle, window, bytes) = (handle.0, plan.window.0, way.workspace_bytes);
            plan.window.set_math(way.math)?;
            // SAFETY: the caller's; factors are read before the call returns, and all else lives as long as the library.
            unsafe {
                call!(cudnnSetStream(handle, stream.raw().cast()))?;
                match way.algorithm {
                    PassAlgorithm::Forward(way) => call!(cudnnConvolutionForward(
                        handle, one, image, first, weight, second, window, way, workspace, bytes, kept,
                        result, out
                    )),
                    PassAlgorithm::Input(way) => call!(cudnnConvolutionBackwardData(
                        handle, one, weight, first, result, second, window, way, workspace, bytes, kept,
                        image, out
                    )),
                    PassAlgorithm::Weight(way) => call!(cudnnConvolutionBackwardFilter(
                        handle, one, image, first, result, second, window, way, workspace, bytes, kept,
                        weight, out
                    )),
                }
            }
        };
        self.with_plan(problem, run).ok_or("cuDNN cannot do this convolution")?
    }
}

/// The first, by the library's order, that takes no more workspace than it may; else that of the smallest. It follows from the shape
/// alone.
fn default_way(ways: &[Way], problem: &Problem) -> Option<usize> {
    let limit_bytes = workspace_limit(problem.operands_bytes());
    let fits = ways.iter().position(|way| way.workspace_bytes <= limit_bytes);
    fits.or_else(|| (0..ways.len()).min_by_key(|&place| ways[place].workspace_bytes))
}

/// Workspace that an op with so large operands may take. As much as they do is always in order: then an op's need doubles at most.
fn workspace_limit(operands_bytes: usize) -> usize {
    operands_bytes.max((WORKSPACE_QUARTERS * operands_bytes / 4).min(MAX_WORKSPACE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_bounded_by_the_operands() {
        let mib = |count: usize| count << 20;
        assert_eq!(workspace_limit(mib(16)), mib(52));
        assert_eq!(workspace_limit(mib(500)), mib(1024));
        assert_eq!(workspace_limit(mib(3000)), mib(3000));
    }
}
