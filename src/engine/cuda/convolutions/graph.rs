//! A convolution as a graph of one operation, and the engines that can compute it.

use cudarc::cudnn::sys;
use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnDataType_t as DataType;

use super::descriptor::{Descriptor, Note};
use super::problem::{MIN_ALIGN_BYTES, Pass, Problem, Tensor};
use crate::engine::cuda::driver::Called;
use crate::engine::cuda::library::of_float;
use crate::op::Dtype;

/// How tensors are named where they get their addresses.
pub(super) const IMAGE: i64 = 0;
pub(super) const WEIGHT: i64 = 1;
pub(super) const RESULT: i64 = 2;
/// More notes than an engine has.
const MAX_NOTES: usize = 32;

/// An operation, with all that it is made of: the library may read that again.
#[derive(Debug)]
pub(super) struct Graph {
    graph: Descriptor,
    _parts: [Descriptor; 5],
}

/// An engine with its parameters.
#[derive(Debug)]
pub(super) struct Configuration {
    pub descriptor: Descriptor,
    _engine: Descriptor,
    /// The engine's number: others with the same have other parameters.
    pub engine: i64,
    notes: Vec<Note>,
}

fn data_type(dtype: Dtype) -> DataType {
    use DataType::{CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF};
    of_float(dtype, [CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16])
}

/// Numbers of `[n, c, d, h, w]`, without the depth where planes are convolved.
fn flattened(numbers: [i32; 5], is_flat: bool) -> Vec<i64> {
    let kept = (0..5).filter(|&axis| !(is_flat && axis == 2));
    kept.map(|axis| i64::from(numbers[axis])).collect()
}

fn tensor(problem: &Problem, name: i64, tensor: &Tensor) -> Called<Descriptor> {
    let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    let is_flat = problem.is_flat();
    descriptor.set_data_type(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(problem.dtype))?;
    descriptor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &flattened(tensor.sizes, is_flat))?;
    descriptor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, &flattened(tensor.strides, is_flat))?;
    descriptor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[name])?;
    descriptor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[MIN_ALIGN_BYTES as i64])?;
    descriptor.finalize()
}

/// How the window moves.
fn window(problem: &Problem) -> Called<Descriptor> {
    let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    let first = usize::from(problem.is_flat());
    let part =
        |numbers: [i32; 3]| numbers[first..].iter().map(|&number| i64::from(number)).collect::<Vec<_>>();
    let sums = match problem.dtype {
        Dtype::F64 => DataType::CUDNN_DATA_DOUBLE,
        _ => DataType::CUDNN_DATA_FLOAT,
    };
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    descriptor.set_data_type(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sums)?;
    descriptor.set_convolution_mode(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, mode)?;
    descriptor.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[3 - first as i64])?;
    descriptor.set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &part(problem.dilation))?;
    descriptor.set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &part(problem.stride))?;
    descriptor.set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &part(problem.padding))?;
    descriptor.set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &part(problem.padding))?;
    descriptor.finalize()
}

/// The operation of a pass, and its names for window, image, weight, result, and the factors of what is made and of what was there.
fn operation_of(pass: Pass) -> (Kind, [Name; 6]) {
    match pass {
        Pass::Forward => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Pass::Input => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        Pass::Weight => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    }
}

impl Graph {
    pub fn new(handle: sys::cudnnHandle_t, problem: &Problem) -> Called<Self> {
        let (kind, [window_name, image_name, weight_name, result_name, made, kept]) =
            operation_of(problem.pass);
        let window = window(problem)?;
        let image = tensor(problem, IMAGE, &problem.image)?;
        let weight = tensor(problem, WEIGHT, &Tensor::row_major(problem.weight))?;
        let result = tensor(problem, RESULT, &problem.result)?;
        let operation = Descriptor::new(kind)?;
        let parts =
            [(window_name, &window), (image_name, &image), (weight_name, &weight), (result_name, &result)];
        for (name, part) in parts {
            operation.set_descriptor(name, part)?;
        }
        let factors = [(made, 1.0), (kept, f32::from(u8::from(problem.is_added)))];
        for (name, factor) in factors {
            match problem.dtype {
                Dtype::F64 => operation.set(name, &[f64::from(factor)])?,
                _ => operation.set(name, &[factor])?,
            }
        }
        let operation = operation.finalize()?;
        let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle])?;
        graph.set_descriptor(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operation)?;
        Ok(Graph { graph: graph.finalize()?, _parts: [window, image, weight, result, operation] })
    }

    /// Engines that can compute it, the fastest first as far as the library knows.
    pub fn configurations(&self, mode: sys::cudnnBackendHeurMode_t) -> Called<Vec<Configuration>> {
        let heuristic = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        heuristic.set_descriptor(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &self.graph)?;
        heuristic.set_heuristic_mode(Name::CUDNN_ATTR_ENGINEHEUR_MODE, mode)?;
        let heuristic = heuristic.finalize()?;
        let count = heuristic.count(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS)?;
        let new = |_| Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        let mut found = (0..count).map(new).collect::<Called<Vec<_>>>()?;
        let count = heuristic.get_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, &found)?;
        found.truncate(count);
        found.into_iter().map(Configuration::new).collect()
    }

    /// All engines that the library has for it, whether its heuristics name them or not, with the parameters that they have by
    /// themselves.
    pub fn engines(&self) -> Called<impl Iterator<Item = Configuration>> {
        let count: Vec<i64> = self.graph.get(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, 1)?;
        let numbers = 0..count.first().copied().unwrap_or(0);
        // Most cannot compute it.
        Ok(numbers.filter_map(|number| self.engine(number).ok()))
    }

    /// The engine of this number, with the parameters that it has by itself.
    pub fn engine(&self, number: i64) -> Called<Configuration> {
        let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        engine.set_descriptor(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &self.graph)?;
        engine.set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[number])?;
        let engine = engine.finalize()?;
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        descriptor.set_descriptor(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &engine)?;
        Configuration::of(descriptor.finalize()?, engine)
    }
}

impl Configuration {
    fn new(descriptor: Descriptor) -> Called<Self> {
        let engine = [Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?];
        descriptor.get_descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &engine)?;
        let [engine] = engine;
        Self::of(descriptor, engine)
    }

    fn of(descriptor: Descriptor, engine: Descriptor) -> Called<Self> {
        let notes = engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, MAX_NOTES)?;
        let numbers: Vec<i64> = engine.get(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1)?;
        let number = numbers.first().copied().ok_or("an engine has no number")?;
        Ok(Configuration { descriptor, _engine: engine, engine: number, notes })
    }

    pub fn has(&self, note: Note) -> bool {
        self.notes.contains(&note)
    }
}
