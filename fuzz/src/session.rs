//! Sessions of a client of `overcommit serve`, as data.

use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{DType, Distribution, Shape, Slice, TensorData};
use burn_ir::{
    BaseOperationIr, BinaryOpIr, CatOpIr, Conv2dOpIr, Conv2dOptionsIr, CreationOpIr, DimOpIr, FlipOpIr,
    FloatOperationIr, GatherOpIr, MaskFillOpIr, MatmulOpIr, ModuleOperationIr, NumericOperationIr,
    OperationIr, PermuteOpIr, RandomOpIr, ReduceDimOpIr, RepeatDimOpIr, ScalarIr, ScatterOpIr,
    SelectAssignOpIr, SelectOpIr, ShapeOpIr, SliceAssignOpIr, SliceOpIr, TensorId, TensorIr, TensorStatus,
    UnfoldOpIr,
};
use serde::{Deserialize, Serialize};

/// The messages of a session that concern tensors.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    Tensor(TensorId, TensorData),
    Operation(OperationIr),
    Alias(TensorId, TensorId),
    Read(TensorIr),
}

const F32: DType = DType::F32;

fn tensor(id: u64, sizes: &[usize]) -> TensorIr {
    typed(id, sizes, F32)
}

fn typed(id: u64, sizes: &[usize], dtype: DType) -> TensorIr {
    let shape = Shape::from(sizes.to_vec());
    TensorIr { id: TensorId::new(id), shape, status: TensorStatus::ReadOnly, dtype }
}

fn base(operation: BaseOperationIr) -> Task {
    Task::Operation(OperationIr::BaseFloat(operation))
}

fn numeric(operation: NumericOperationIr) -> Task {
    Task::Operation(OperationIr::NumericFloat(F32, operation))
}

fn ones(id: u64, sizes: &[usize]) -> Task {
    base(BaseOperationIr::Ones(CreationOpIr { out: tensor(id, sizes) }))
}

fn data(id: u64, data: TensorData) -> Task {
    Task::Tensor(TensorId::new(id), data)
}

/// Sessions with an operation of each form, for a corpus.
pub fn seeds() -> Vec<(&'static str, Vec<Task>)> {
    let x = || tensor(1, &[4, 3]);
    let index = || typed(2, &[2], DType::I64);
    let ranges = || vec![Slice::new(1, Some(3), 1), Slice::new(0, None, -1)];
    let end = |id, sizes: &[usize]| Task::Read(tensor(id, sizes));
    let views = vec![
        ones(1, &[4, 3]),
        base(BaseOperationIr::Permute(PermuteOpIr { input: x(), out: tensor(2, &[3, 4]), axes: vec![1, 0] })),
        base(BaseOperationIr::Reshape(ShapeOpIr { input: tensor(2, &[3, 4]), out: tensor(3, &[1, 12]) })),
        base(BaseOperationIr::Expand(ShapeOpIr { input: tensor(3, &[1, 12]), out: tensor(4, &[5, 12]) })),
        base(BaseOperationIr::Flip(FlipOpIr {
            input: tensor(4, &[5, 12]),
            out: tensor(5, &[5, 12]),
            axes: vec![1],
        })),
        base(BaseOperationIr::Unfold(UnfoldOpIr {
            input: tensor(5, &[5, 12]),
            out: tensor(6, &[5, 5, 4]),
            dim: 1,
            size: 4,
            step: 2,
        })),
        end(6, &[5, 5, 4]),
    ];
    let slices = vec![
        Task::Operation(OperationIr::Float(
            F32,
            FloatOperationIr::Random(RandomOpIr { out: x(), distribution: Distribution::Default }),
        )),
        base(BaseOperationIr::Slice(SliceOpIr { tensor: x(), ranges: ranges(), out: tensor(2, &[2, 3]) })),
        base(BaseOperationIr::SliceAssign(SliceAssignOpIr {
            tensor: x(),
            ranges: ranges(),
            value: tensor(2, &[2, 3]),
            out: tensor(3, &[4, 3]),
        })),
        end(3, &[4, 3]),
    ];
    let indices = vec![
        ones(1, &[4, 3]),
        data(2, TensorData::from([1i64, 3])),
        data(3, TensorData::from([[0i64, 2, 1]])),
        base(BaseOperationIr::Select(SelectOpIr {
            tensor: x(),
            dim: 0,
            indices: index(),
            out: tensor(4, &[2, 3]),
        })),
        base(BaseOperationIr::SelectAssign(SelectAssignOpIr {
            tensor: x(),
            dim: 0,
            indices: index(),
            value: tensor(4, &[2, 3]),
            update: IndexingUpdateOp::Add,
            out: tensor(5, &[4, 3]),
        })),
        base(BaseOperationIr::Gather(GatherOpIr {
            tensor: x(),
            dim: 0,
            indices: typed(3, &[1, 3], DType::I64),
            out: tensor(6, &[1, 3]),
        })),
        base(BaseOperationIr::Scatter(ScatterOpIr {
            tensor: tensor(5, &[4, 3]),
            dim: 0,
            indices: typed(3, &[1, 3], DType::I64),
            value: tensor(6, &[1, 3]),
            update: IndexingUpdateOp::Add,
            out: tensor(7, &[4, 3]),
        })),
        end(7, &[4, 3]),
    ];
    let products = vec![
        ones(1, &[4, 3]),
        ones(2, &[3, 5]),
        Task::Operation(OperationIr::Float(
            F32,
            FloatOperationIr::Matmul(MatmulOpIr {
                lhs: x(),
                rhs: tensor(2, &[3, 5]),
                out: tensor(3, &[4, 5]),
            }),
        )),
        numeric(NumericOperationIr::Add(BinaryOpIr {
            lhs: tensor(3, &[4, 5]),
            rhs: tensor(3, &[4, 5]),
            out: tensor(4, &[4, 5]),
        })),
        end(4, &[4, 5]),
    ];
    let along = |input, out, axis| ReduceDimOpIr { input, out, axis, accumulator_len: 1 };
    let reductions = vec![
        ones(1, &[4, 3]),
        numeric(NumericOperationIr::SumDim(along(x(), tensor(2, &[4, 1]), 1))),
        numeric(NumericOperationIr::ArgMax(along(x(), typed(3, &[1, 3], DType::I64), 0))),
        numeric(NumericOperationIr::CumSum(DimOpIr { input: x(), out: tensor(4, &[4, 3]), axis: 0 })),
        end(2, &[4, 1]),
        Task::Read(typed(3, &[1, 3], DType::I64)),
        end(4, &[4, 3]),
    ];
    let joined = vec![
        ones(1, &[4, 3]),
        data(2, TensorData::from([[true, false, true]; 4])),
        base(BaseOperationIr::Cat(CatOpIr { tensors: vec![x(), x()], dim: 0, out: tensor(3, &[8, 3]) })),
        base(BaseOperationIr::RepeatDim(RepeatDimOpIr {
            tensor: x(),
            dim: 1,
            times: 2,
            out: tensor(4, &[4, 6]),
        })),
        base(BaseOperationIr::MaskFill(MaskFillOpIr {
            tensor: x(),
            mask: typed(2, &[4, 3], DType::Bool(burn_backend::BoolStore::Native)),
            value: ScalarIr::Float(2.0),
            out: tensor(5, &[4, 3]),
        })),
        Task::Alias(TensorId::new(9), TensorId::new(5)),
        end(3, &[8, 3]),
        end(4, &[4, 6]),
        end(9, &[4, 3]),
    ];
    let options = Conv2dOptionsIr { stride: [1, 1], padding: [(1, 1), (0, 0)], dilation: [1, 1], groups: 1 };
    let image = vec![
        ones(1, &[1, 2, 5, 5]),
        ones(2, &[3, 2, 3, 3]),
        Task::Operation(OperationIr::Module(ModuleOperationIr::Conv2d(Conv2dOpIr {
            x: tensor(1, &[1, 2, 5, 5]),
            weight: tensor(2, &[3, 2, 3, 3]),
            bias: None,
            options,
            out: tensor(3, &[1, 3, 5, 3]),
        }))),
        end(3, &[1, 3, 5, 3]),
    ];
    vec![
        ("views", views),
        ("slices", slices),
        ("indices", indices),
        ("products", products),
        ("reductions", reductions),
        ("joined", joined),
        ("image", image),
    ]
}
