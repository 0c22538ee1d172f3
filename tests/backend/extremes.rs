//! Shapes, layouts and windows that no memory holds, and ops on inputs that do not fit them: refused, and never computed with.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::Ours;
use burn::tensor::module::{avg_pool2d, conv2d, max_pool2d};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Distribution, Tensor};
use burn_overcommit::functions;
use burn_overcommit::op::{
    ArgReduce, Attention, Binary, COUNTED_RUN, Conv, Cumulative, Dtype, Encoding, Ending, FloatFormat,
    Layout, MAX_FUSED_INPUTS, MAX_SCALARS, Norm, Op, Planes, Pool2d, Program, Reduce, Shape, Softmax, Source,
    Step, StepKind, Taps, Unary, Update,
};
use burn_overcommit::runtime::{self, Tensor as Storage};
use burn_overcommit::{Error, OvercommitDevice};

const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);
/// A row that no memory reaches.
const FAR: i64 = 1 << 38;

/// A pool over windows of two by two.
const POOL: Pool2d = Pool2d {
    kernel: [2; 2],
    stride: [2; 2],
    padding: [0; 2],
    dilation: [1; 2],
    ceil_mode: false,
    count_include_pad: true,
};

/// What is said when this is refused.
#[track_caller]
fn refusal<T>(refused: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(refused()))).expect_err("it is refused");
    let one = Tensor::<Ours, 1>::ones([3], &DEVICE) + 1.0;
    assert_eq!(one.into_data().to_vec::<f32>().unwrap(), [2.0; 3], "the device goes on");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().expect("a panic says something").to_string(),
    }
}

/// A tensor of a value that is repeated without being stored.
fn repeated<const D: usize>(sizes: [usize; D]) -> Tensor<Ours, D> {
    Tensor::<Ours, D>::ones([1; D], &DEVICE).expand(sizes)
}

#[test]
fn shapes_of_more_elements_than_there_can_be_are_named() {
    let text = refusal(|| Tensor::<Ours, 2>::random([1usize << 62, 4], Distribution::Default, &DEVICE));
    assert!(
        text.contains("shape [4611686018427387904, 4]") && text.contains("281474976710656 elements"),
        "{text}"
    );
    for sizes in [[1usize << 62, 4], [1 << 32, 1 << 32], [3, 1 << 60], [0, 1 << 60]] {
        let made: [&dyn Fn() -> Tensor<Ours, 2>; 4] = [
            &|| Tensor::zeros(sizes, &DEVICE),
            &|| Tensor::full(sizes, 2.0, &DEVICE),
            &|| Tensor::empty(sizes, &DEVICE),
            &|| Tensor::random(sizes, Distribution::Normal(0.0, 1.0), &DEVICE),
        ];
        for made in made {
            let text = refusal(made);
            assert!(text.contains(&format!("{sizes:?}")), "{text}");
        }
    }
    let text = refusal(|| repeated([1 << 32, 1 << 32]));
    assert!(text.contains("shape [4294967296, 4294967296]"), "{text}");
}

#[test]
fn a_tensor_of_as_many_elements_as_there_can_be_is_out_of_memory() {
    let text = refusal(|| Tensor::<Ours, 2>::zeros([1usize << 46, 4], &DEVICE).exp().into_data());
    assert!(text.contains("out of device memory"), "{text}");
    let text = refusal(|| (repeated([1 << 40, 1 << 8]) + 1.0).into_data());
    assert!(text.contains("out of device memory"), "{text}");
}

#[test]
fn parts_of_what_is_repeated_are_what_was_repeated() {
    let x = repeated([1 << 40, 4]);
    let part = x.clone().slice([FAR..FAR + 10, 0..4]) + 1.0;
    assert_eq!(part.into_data().to_vec::<f32>().unwrap(), [2.0; 40]);
    let y = Tensor::<Ours, 2>::ones([1000, 4], &DEVICE);
    let text = refusal(|| x.slice_assign([FAR..FAR + 1000, 0..4], y).into_data());
    assert!(text.contains("out of device memory"), "{text}");
}

#[test]
fn products_of_more_elements_than_there_can_be_are_refused() {
    let text = refusal(|| repeated([1 << 30, 1]).matmul(repeated([1, 1 << 30])));
    assert!(
        text.contains("matmul of inputs of shapes [[1073741824, 1], [1, 1073741824]] makes more than"),
        "{text}"
    );
    refusal(|| repeated([1 << 40]).repeat_dim(0, 1 << 40));
    refusal(|| Tensor::<Ours, 1>::stack::<2>(vec![repeated([1 << 48]); 2], 0));
}

#[test]
fn windows_that_overflow_are_refused() {
    let image = || Tensor::<Ours, 4>::ones([1, 1, 4, 4], &DEVICE);
    let weight = || Tensor::<Ours, 4>::ones([1, 1, 2, 2], &DEVICE);
    let huge = usize::MAX / 2;
    for (stride, padding, dilation) in
        [(1, huge, 1), (1, 1 << 40, 1), (1, 0, usize::MAX), (huge, 0, 1), (0, 0, 1)]
    {
        let options = || ConvOptions::new([stride; 2], [padding; 2], [dilation; 2], 1);
        refusal(|| conv2d(image(), weight(), None, options()));
    }
    refusal(|| max_pool2d(image(), [2, 2], [1, 1], [huge, huge], [1, 1], false));
    refusal(|| max_pool2d(image(), [2, 2], [1, 1], [0, 0], [huge, huge], false));
    refusal(|| avg_pool2d(image(), [usize::MAX, 2], [1, 1], [0, 0], true, false));
}

/// A row-major tensor of zeros.
fn zeros(dtype: Dtype, sizes: &[usize]) -> Storage {
    runtime::create(&DEVICE, Op::Fill { shape: Shape::new(sizes), dtype, value: 0.0.into() }).unwrap()
}

#[test]
fn a_tensor_is_seen_through_layouts_inside_its_storage_alone() {
    let x = zeros(Dtype::F32, &[4]);
    let whole = *x.layout();
    let row = Layout::contiguous(Shape::new(&[250_000]));
    let beyond = [
        row,
        whole.slice(0, 1, 4, 1),
        whole.slice(0, 2, 4, -1),
        whole.slice(0, usize::MAX, 2, 1),
        whole.slice(0, 0, 2, isize::MAX),
        whole.windows(0, 2, 1).slice(1, 0, 3, 1),
    ];
    for layout in beyond {
        let text = refusal(|| x.clone().with_layout(layout));
        assert!(text.contains("[4] cannot be seen as"), "{text}");
    }
    for layout in
        [whole.flip(0), whole.windows(0, 4, 1), whole.slice(0, 9, 0, 1), whole.expand(Shape::new(&[9, 4]))]
    {
        runtime::read(x.clone().with_layout(layout)).unwrap();
    }
    assert!(refusal(|| x.clone().with_dtype(Dtype::F64)).contains("cast it"));
}

/// A shape that is taken from a layout is one that a tensor can have.
#[test]
fn layouts_have_no_more_elements_than_a_tensor() {
    let one = Layout::contiguous(Shape::new(&[1, 4]));
    let many = one.expand(Shape::new(&[1 << 40, 4]));
    let layouts: [&dyn Fn() -> Layout; 4] = [
        &|| one.slice(0, 0, 1 << 62, 0),
        &|| many.slice(1, 0, 1 << 30, 0),
        &|| many.windows(0, 1 << 39, 1),
        &|| many.permute(&[0, 0]),
    ];
    for layout in layouts {
        let text = refusal(|| runtime::write(&DEVICE, &[], Dtype::U8, *layout().shape()));
        assert!(text.contains("a tensor of shape ["), "{text}");
    }
}

/// Steps of which no kernel knows what they are, or from where they have what they read.
#[test]
fn programs_that_have_no_kernel_are_refused() {
    let [input, other, scalar] = [Source::Input(0), Source::Input(1), Source::Scalar(0)];
    let sum = Step::new(StepKind::Row(Reduce::Sum), &[input]);
    let ending = |kind| Some(Ending { kind, source: input, order: [0; 8], reduced: [0, 1] });
    let neg = Step::new(StepKind::Unary(Unary::Neg), &[input]);
    let refused: [(&[Step], &[u8], Option<Ending>); 9] = [
        (&[Step::new(StepKind::Unary(Unary::Sin), &[input])], &[0], None),
        (&[Step::new(StepKind::Binary(Binary::Pow), &[input, other])], &[0], None),
        (&[Step::new(StepKind::Row(Reduce::Prod), &[input])], &[0], None),
        (&[Step { is_row: false, ..sum }], &[0], None),
        (&[Step::new(StepKind::Draw, &[input, other])], &[0], None),
        (&[Step::new(StepKind::MaskFill, &[other, input, scalar])], &[0], None),
        (&[sum], &[0], ending(Reduce::Sum)),
        (&[neg], &[0], ending(Reduce::Min)),
        (&[neg], &[0; 7], None),
    ];
    for (steps, outputs, ending) in refused {
        let text = refusal(|| Program::new(steps, outputs, ending));
        assert!(text.contains("there is no program of these steps"), "{text}");
    }
    let program = |program| Op::Fused { program, scalars: [0; MAX_SCALARS] };
    let run =
        |steps: &[Step], inputs: Vec<Storage>| runtime::run(program(Program::new(steps, &[0], None)), inputs);
    let row = || zeros(Dtype::F32, &[2, 4]);
    // An end that reads an input which is not there.
    let end = Ending { kind: Reduce::Sum, source: other, order: [0, 1, 2, 3, 4, 5, 6, 7], reduced: [1, 2] };
    let ends = program(Program::new(&[neg], &[0], Some(end)));
    runtime::run_pair(ends, [row(), row()]).unwrap();
    runtime::run_pair(ends, [row()]).unwrap_err();
    run(&[neg], vec![row(); MAX_FUSED_INPUTS]).unwrap();
    run(&[neg], vec![row(); MAX_FUSED_INPUTS + 1]).unwrap_err();
    run(&[sum], vec![zeros(Dtype::F32, &[0, 4])]).unwrap();
    run(&[sum], vec![zeros(Dtype::F32, &[2, 0])]).unwrap_err();
}

#[test]
fn encodings_that_have_no_kernel_are_refused() {
    let [pool, one] = [[0; 2], [1; 2]].map(|kernel| Pool2d { kernel, stride: [1; 2], ..POOL });
    let planes = |width| Encoding::Planes(Planes { per_piece: 8, width });
    for (encoding, dtype) in [
        (Encoding::Integers { bits: 0 }, Dtype::I32),
        (Encoding::Integers { bits: 3 }, Dtype::I32),
        (Encoding::Integers { bits: 64 }, Dtype::I64),
        (Encoding::Taps(Taps { pool, width: 4, pooled: [4; 2] }), Dtype::I32),
        (Encoding::Taps(Taps { pool: one, width: 0, pooled: [4; 2] }), Dtype::I32),
        (Encoding::Taps(Taps { pool: one, width: 4, pooled: [4, 0] }), Dtype::I64),
        (Encoding::Taps(Taps { pool: one, width: 4, pooled: [1 << 16; 2] }), Dtype::I64),
        (planes(0), Dtype::F32),
        (planes(3), Dtype::F32),
    ] {
        let encoded = runtime::run(Op::Encode(encoding), [zeros(dtype, &[300])]);
        assert!(matches!(encoded, Err(Error::Shapes { .. })), "{encoding:?}");
        for count in [300, 1 << 50, usize::MAX] {
            let decoded = runtime::run(Op::Decode { encoding, dtype, count }, [zeros(Dtype::U32, &[1])]);
            assert!(matches!(decoded, Err(Error::Shapes { .. })), "{encoding:?}");
        }
    }
    let decode = Op::Decode { encoding: Encoding::Signs, dtype: Dtype::F32, count: usize::MAX };
    runtime::run(decode, [zeros(Dtype::U32, &[1])]).unwrap_err();
}

#[test]
fn element_types_that_no_kernel_makes_are_refused() {
    let x = || zeros(Dtype::F32, &[1, 1, 4, 4]);
    let (distribution, shape) = (uniform(), Shape::new(&[4]));
    for dtype in [Dtype::F32, Dtype::Bool] {
        let arange = Op::Arange { count: 4, dtype, start: 0, step: 1 };
        assert!(matches!(runtime::create(&DEVICE, arange), Err(Error::Dtypes { .. })));
    }
    let random = Op::Random { shape, dtype: Dtype::Bool, distribution, seed: 1 };
    assert!(matches!(runtime::create(&DEVICE, random), Err(Error::Dtypes { .. })));
    for dtype in [Dtype::U8, Dtype::I16, Dtype::U64, Dtype::F64, Dtype::Bool] {
        for op in [
            Op::ArgReduce { kind: ArgReduce::Max, axis: 3, dtype, values: true },
            Op::ArgSort { axis: 3, descending: false, count: 4, dtype },
            Op::MaxPool2d { pool: POOL, indices: Some(dtype) },
        ] {
            assert!(matches!(runtime::run(op, [x()]), Err(Error::Dtypes { .. })), "{op:?}");
        }
    }
    for (encoding, dtype) in [(Encoding::Signs, Dtype::F32), (Encoding::Bools, Dtype::U8)] {
        let decode = Op::Decode { encoding, dtype, count: 32 };
        assert!(matches!(runtime::run(decode, [zeros(Dtype::U32, &[1])]), Err(Error::Dtypes { .. })));
    }
}

/// Elements that nothing is copied to would be what was in that memory before.
#[test]
fn tensors_of_other_widths_are_not_concatenated() {
    let cat = |sizes: &[&[usize]], axis| {
        let tensors = sizes.iter().map(|sizes| zeros(Dtype::F32, sizes)).collect();
        functions::view::cat(tensors, axis)
    };
    assert_eq!(cat(&[&[4, 3], &[0, 3], &[1, 3]], 0).shape().dims(), [5, 3]);
    let refused: [(&[&[usize]], usize); 3] =
        [(&[&[4, 3], &[4, 2]], 0), (&[&[4, 3], &[4]], 0), (&[&[4, 3], &[4, 3]], 2)];
    for (sizes, axis) in refused {
        assert!(refusal(|| cat(sizes, axis)).contains("cat along dimension"));
    }
}

/// Ops, and shapes of inputs that do not fit them.
fn misfits() -> Vec<(Op, Vec<Vec<usize>>)> {
    let conv = Conv { stride: [1; 3], padding: [0; 3], dilation: [1; 3], groups: 1 };
    let attention = Attention { scale: 1.0.into(), causal: false, dropout: None };
    let (epsilon, update) = (1e-5.into(), Update::Add);
    let [row, plane, image] = [vec![4], vec![4, 4], vec![1, 1, 4, 4]];
    let volume = vec![1, 1, 1, 4, 4];
    vec![
        (Op::Unary(Unary::Exp), vec![]),
        (Op::Unary(Unary::Exp), vec![row.clone(); 2]),
        (Op::Binary(Binary::Add), vec![row.clone()]),
        (Op::Binary(Binary::Add), vec![row.clone(), vec![1000]]),
        (Op::Where, vec![row.clone(); 2]),
        (Op::Reduce { kind: Reduce::Sum, axis: 1 }, vec![row.clone()]),
        (Op::ArgReduce { kind: ArgReduce::Max, axis: 0, dtype: Dtype::I64, values: false }, vec![vec![0, 2]]),
        (Op::Sort { axis: 0, descending: false, count: 5 }, vec![row.clone()]),
        (Op::Softmax { kind: Softmax::Plain, axis: 2 }, vec![plane.clone()]),
        (Op::Cumulative { kind: Cumulative::Sum, axis: 8 }, vec![plane.clone()]),
        (Op::Matmul, vec![plane.clone()]),
        (Op::Matmul, vec![plane.clone(), vec![100, 100]]),
        (Op::Matmul, vec![plane.clone(), plane.clone(), vec![5]]),
        (Op::Matmul, vec![row.clone(), row.clone()]),
        (Op::Gather { axis: 0 }, vec![vec![4, 2], vec![4, 3]]),
        (Op::Scatter { axis: 0, update }, vec![plane.clone(), plane.clone(), vec![4, 3]]),
        (Op::Select { axis: 0 }, vec![row.clone(), plane.clone()]),
        (Op::SelectUpdate { axis: 0, update }, vec![plane.clone(), vec![2], vec![3, 4]]),
        (Op::SliceAssign { starts: [1; 8], steps: [1; 8] }, vec![row.clone(), row.clone()]),
        (Op::SliceAssign { starts: [0; 8], steps: [isize::MAX; 8] }, vec![row.clone(), vec![3]]),
        (Op::SliceAssign { starts: [3; 8], steps: [-2; 8] }, vec![row.clone(), vec![3]]),
        (Op::Norm { kind: Norm::Layer, epsilon }, vec![plane.clone(), vec![5]]),
        (Op::NormBackward { kind: Norm::Rms, epsilon, weights: true }, vec![plane.clone(), row.clone()]),
        (Op::RealFft { axis: 0, length: 3 }, vec![row.clone()]),
        (Op::Attention(attention), vec![image.clone(), image.clone(), vec![1, 1, 5, 4]]),
        (Op::Attention(attention), vec![vec![1, 1, 4, 200]; 3]),
        (Op::AttentionBackward(attention), vec![image.clone(); 3]),
        (Op::Conv(conv), vec![volume.clone(), vec![1, 2, 1, 2, 2]]),
        (Op::Conv(Conv { groups: 0, ..conv }), vec![volume.clone(); 2]),
        (Op::Conv(Conv { stride: [0; 3], ..conv }), vec![volume.clone(); 2]),
        (Op::ConvBackwardInput { conv, size: [1, 9, 9] }, vec![volume.clone(); 2]),
        (Op::ConvBackwardWeight { conv, kernel: [1, 2, 2] }, vec![volume.clone(); 2]),
        (Op::MaxPool2d { pool: POOL, indices: None }, vec![plane.clone()]),
        (Op::MaxPool2d { pool: Pool2d { dilation: [1, 0], ..POOL }, indices: None }, vec![image.clone()]),
        (Op::AvgPool2dBackward { pool: POOL, size: [100, 100] }, vec![image.clone()]),
        (Op::Interpolate { resize: resize(), size: [2, 2] }, vec![vec![1, 1, 0, 4]]),
        (Op::CtcLoss { blank: 7 }, vec![vec![2, 1, 3], vec![1, 2], vec![1], vec![1]]),
    ]
}

fn uniform() -> burn_overcommit::op::Distribution {
    burn_overcommit::op::Distribution::Uniform { low: 0.0.into(), high: 1.0.into() }
}

fn resize() -> burn_overcommit::op::Resize {
    burn_overcommit::op::Resize { mode: burn_overcommit::op::Interpolation::Bilinear, align_corners: false }
}

#[test]
fn inputs_that_do_not_fit_an_op_are_refused_with_those_that_do() {
    for (op, shapes) in misfits() {
        let inputs: Vec<Storage> = shapes.iter().map(|sizes| zeros(Dtype::F32, sizes)).collect();
        let error = match inputs.is_empty() {
            true => runtime::create(&DEVICE, op),
            false => runtime::run(op, inputs),
        };
        let error = error.expect_err(op.name());
        assert!(matches!(error, Error::Shapes { .. }), "{op:?}: {error}");
        assert!(error.to_string().starts_with(&format!("{}: inputs of shapes [", op.name())), "{error}");
    }
}

#[test]
fn inputs_that_kernels_read_in_row_major_order_lie_so() {
    let attention = Attention { scale: 1.0.into(), causal: false, dropout: None };
    let image = || zeros(Dtype::F32, &[1, 2, 3, 3]);
    let repeated = |sizes: &[usize]| {
        let one = zeros(Dtype::F32, &vec![1; sizes.len()]);
        let layout = one.layout().expand(Shape::new(sizes));
        one.with_layout(layout)
    };
    let gradients = [image(), image(), image(), image(), repeated(&[1, 2, 3]), image()];
    let encoding = Encoding::Reduced(FloatFormat::F16);
    let refused = [
        runtime::run_three(Op::AttentionBackward(attention), gradients).map(drop),
        runtime::run(Op::Encode(encoding), [repeated(&[1000])]).map(drop),
    ];
    for error in refused {
        assert!(error.unwrap_err().to_string().contains("expected row-major inputs"));
    }
}

/// The sums say how many are set in the runs before, and here more than there are.
#[test]
fn indices_go_no_further_than_there_is_room() {
    let mask = Op::Fill { shape: Shape::new(&[COUNTED_RUN + 8]), dtype: Dtype::Bool, value: 1.0.into() };
    let mask = || runtime::create(&DEVICE, mask).unwrap();
    for ends in [[4, 4], [1 << 60, 1 << 61], [-9, -9]] {
        let bytes: Vec<u8> = ends.iter().flat_map(|end: &i64| end.to_ne_bytes()).collect();
        let ends = runtime::write(&DEVICE, &bytes, Dtype::I64, Shape::new(&[2])).unwrap();
        let found = runtime::run(Op::ArgWhere { count: 4, dtype: Dtype::I64 }, [mask(), ends]).unwrap();
        let found = runtime::read(found).unwrap();
        let indices: Vec<i64> =
            found.chunks(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(indices, [0, 1, 2, 3]);
    }
    let ends = zeros(Dtype::I8, &[2]);
    assert!(runtime::run(Op::ArgWhere { count: 4, dtype: Dtype::I64 }, [mask(), ends]).is_err());
}
