//! The calls of cuBLASLt: descriptions of products, and an algorithm for each.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::cublaslt::sys;
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as DescriptionAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasStatus_t as Status, cudaDataType as DataType,
};

use super::problem::{Bias, Matrix, Problem};
use crate::engine::cuda::driver::{Called, Context, Stream};
use crate::engine::cuda::factor::Factor;
use crate::engine::cuda::library::{Remembered, call, of_float, owned};
use crate::engine::{ALIGN_BYTES, Span};
use crate::op::Dtype;

/// Workspace that an algorithm may take, by architecture: what NVIDIA's own default is.
const MAX_WORKSPACE_BYTES: [(u32, usize); 2] = [(90, 32 << 20), (0, 4 << 20)];
owned! {
    Handle(sys::cublasLtHandle_t), cublasLtCreate(), cublasLtDestroy;
    Description(sys::cublasLtMatmulDesc_t), cublasLtMatmulDescCreate(compute: Compute, scale: DataType),
        cublasLtMatmulDescDestroy;
    MatrixLayout(sys::cublasLtMatrixLayout_t),
        cublasLtMatrixLayoutCreate(dtype: DataType, rows: u64, columns: u64, leading: i64), cublasLtMatrixLayoutDestroy;
    Preference(sys::cublasLtMatmulPreference_t), cublasLtMatmulPreferenceCreate(), cublasLtMatmulPreferenceDestroy;
}

impl Description {
    fn set<T>(&self, attribute: DescriptionAttribute, value: T) -> Called<()> {
        let start = (&raw const value).cast();
        // SAFETY: the description lives; each caller gives the attribute's type.
        unsafe { call!(cublasLtMatmulDescSetAttribute(self.0, attribute, start, size_of::<T>())) }
    }
}

impl MatrixLayout {
    /// `rows` by `columns`, column by column.
    fn new(dtype: Dtype, [rows, columns]: [usize; 2], leading: usize) -> Called<Self> {
        MatrixLayout::create(data_type(dtype), rows as u64, columns as u64, leading as i64)
    }

    fn set<T>(&self, attribute: LayoutAttribute, value: T) -> Called<()> {
        let start = (&raw const value).cast();
        // SAFETY: the layout lives; each caller gives the attribute's type.
        unsafe { call!(cublasLtMatrixLayoutSetAttribute(self.0, attribute, start, size_of::<T>())) }
    }

    fn batched(self, batches: usize, stride: usize) -> Called<Self> {
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches as i32)?;
        self.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride as i64)?;
        Ok(self)
    }

    /// Of an operand of ours, which to the library is the transpose of itself.
    fn of(problem: &Problem, matrix: &Matrix, [rows, columns]: [usize; 2]) -> Called<Self> {
        let sizes = if matrix.transposed { [rows, columns] } else { [columns, rows] };
        MatrixLayout::new(problem.dtype, sizes, matrix.leading)?.batched(problem.batches, matrix.batch_stride)
    }
}

impl Preference {
    fn new(problem: &Problem, most_workspace_bytes: usize) -> Called<Self> {
        use PreferenceAttribute as Attribute;
        let preference = Preference::create()?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes as u64)?;
        // Parts of a sum are added in the type that they were added up in, so that halves are rounded once.
        let scheme = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme)?;
        let out = problem.out_align_bytes;
        for (attribute, align_bytes) in [
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.right.align_bytes),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.left.align_bytes),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out),
        ] {
            preference.set(attribute, align_bytes)?;
        }
        Ok(preference)
    }

    fn set<T>(&self, attribute: PreferenceAttribute, value: T) -> Called<()> {
        let start = (&raw const value).cast();
        // SAFETY: the preference lives; each caller gives the attribute's type.
        unsafe { call!(cublasLtMatmulPreferenceSetAttribute(self.0, attribute, start, size_of::<T>())) }
    }
}

fn data_type(dtype: Dtype) -> DataType {
    use DataType::{CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_64F};
    of_float(dtype, [CUDA_R_64F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF])
}

/// How a product is made.
#[derive(Debug)]
struct Plan {
    description: Description,
    left: MatrixLayout,
    right: MatrixLayout,
    out: MatrixLayout,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace_bytes: usize,
}

/// Where the operands of a product are.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub left: u64,
    pub right: u64,
    pub bias: u64,
    pub out: u64,
    pub workspace: Span,
}

/// The library, and what it said so far.
#[derive(Debug)]
pub struct CublasLt {
    tf32: bool,
    most_workspace_bytes: usize,
    remembered: Remembered<Handle, Problem, Plan>,
}

impl CublasLt {
    /// With the library open.
    pub fn new(context: &Arc<Context>, architecture: u32, tf32: bool) -> Called<Self> {
        context.enter()?;
        let most = MAX_WORKSPACE_BYTES.iter().find(|(least, _)| architecture >= *least);
        Ok(CublasLt {
            tf32,
            most_workspace_bytes: most.map_or(0, |(_, bytes)| *bytes),
            remembered: Remembered::new("cuBLASLt", context, Handle::create()?),
        })
    }

    fn with_plan<R>(&self, problem: &Problem, use_plan: impl FnOnce(&Handle, &Plan) -> R) -> Option<R> {
        self.remembered.with(problem, |handle| self.plan(handle, problem), use_plan)
    }

    /// Workspace of a product; nothing if the library cannot make it.
    pub fn workspace_bytes(&self, problem: &Problem) -> Option<usize> {
        self.with_plan(problem, |_, plan| plan.workspace_bytes)
    }

    /// An algorithm takes no more workspace than the operands take themselves, so that what an op needs at most doubles.
    fn workspace_limit(&self, problem: &Problem) -> usize {
        let [rows, inner, columns] = problem.sizes;
        let elements = problem.batches * (rows * inner + inner * columns + rows * columns);
        (elements * problem.dtype.size_bytes()).next_multiple_of(ALIGN_BYTES).min(self.most_workspace_bytes)
    }

    fn plan(&self, handle: &Handle, problem: &Problem) -> Called<Plan> {
        let (compute, scale) = match problem.dtype {
            Dtype::F64 => (Compute::CUBLAS_COMPUTE_64F, DataType::CUDA_R_64F),
            Dtype::F32 if self.tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, DataType::CUDA_R_32F),
            _ => (Compute::CUBLAS_COMPUTE_32F, DataType::CUDA_R_32F),
        };
        let [rows, inner, columns] = problem.sizes;
        let description = Description::create(compute, scale)?;
        // As `cublasOperation_t`: CUBLAS_OP_N is 0, CUBLAS_OP_T is 1.
        let operation = |matrix: &Matrix| i32::from(matrix.transposed);
        // The transpose of the product is the product of the transposes, the right one first.
        description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_TRANSA, operation(&problem.right))?;
        description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_TRANSB, operation(&problem.left))?;
        if problem.bias == Bias::Epilogue {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)?;
            // Algorithms are chosen by how the bias is aligned, and none is found for a bias that is nowhere.
            description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, ALIGN_BYTES as u64)?;
        }
        let left = MatrixLayout::of(problem, &problem.left, [rows, inner])?;
        let right = MatrixLayout::of(problem, &problem.right, [inner, columns])?;
        let out = MatrixLayout::new(problem.dtype, [columns, rows], columns)?
            .batched(problem.batches, rows * columns)?;
        let preference = Preference::new(problem, self.workspace_limit(problem))?;
        let mut found = sys::cublasLtMatmulHeuristicResult_t {
            algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: Status::CUBLAS_STATUS_NOT_SUPPORTED,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        let mut count = 0;
        // SAFETY: all live, and there is room for one result.
        unsafe {
            call!(cublasLtMatmulAlgoGetHeuristic(
                handle.0,
                description.0,
                right.0,
                left.0,
                out.0,
                out.0,
                preference.0,
                1,
                &mut found,
                &mut count
            ))?;
        }
        if count == 0 || found.state != Status::CUBLAS_STATUS_SUCCESS {
            return Err(format!("no algorithm ({:?})", found.state));
        }
        let (algorithm, workspace_bytes) = (found.algo, found.workspaceSize);
        Ok(Plan { description, left, right, out, algorithm, workspace_bytes })
    }

    /// Puts a product into a stream.
    ///
    /// # Safety
    /// The matrices of the problem are at these addresses, the workspace is as large as
    /// [`workspace_bytes`](CublasLt::workspace_bytes) says, and all is as
    /// [`Engine::launch`](crate::engine::Engine::launch) asks.
    pub unsafe fn multiply(&self, stream: &Stream, problem: &Problem, at: &Addresses) -> Called<()> {
        let one = Factor::new(problem.dtype, 1.0);
        let kept = Factor::new(problem.dtype, f64::from(u8::from(problem.bias == Bias::InOutput)));
        let pointer = |address: u64| ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let (out, workspace) = (pointer(at.out), pointer(at.workspace.address));
        let multiply = |handle: &Handle, plan: &Plan| {
            if problem.bias == Bias::Epilogue {
                plan.description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias)?;
            }
            // SAFETY: the caller's; factors are read before the call returns, and all else lives as long as the library.
            unsafe {
                call!(cublasLtMatmul(
                    handle.0,
                    plan.description.0,
                    one.start(),
                    pointer(at.right),
                    plan.right.0,
                    pointer(at.left),
                    plan.left.0,
                    kept.start(),
                    out,
                    plan.out.0,
                    out,
                    plan.out.0,
                    &plan.algorithm,
                    workspace,
                    plan.workspace_bytes,
                    stream.raw().cast()
                ))
            }
        };
        self.with_plan(problem, multiply).ok_or("cuBLASLt cannot make this product")?
    }
}
