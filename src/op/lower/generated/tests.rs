use super::*;
use crate::op::lower::{Placed, Request, gpu, lower};
use crate::op::{Binary, Layout, Op, Program, Reduce, Shape, Source, Step, Unary, View};

fn step(kind: StepKind, a: Source, b: Source) -> Step {
    Step::new(kind, &[a, b])
}

/// The first call of a program on these operands, cut for a GPU.
fn call(program: Program, views: &[View]) -> KernelCall {
    let op = Op::Fused { program, scalars: [0; MAX_SCALARS] };
    let placed = |view: &View| Placed { address: 1 << 40, view: *view };
    let inputs: Vec<Placed> = views.iter().map(placed).collect();
    let outputs: Vec<Placed> = op.outputs(views).iter().map(placed).collect();
    let chunk = gpu::chunk(&op, &inputs);
    let request = Request {
        op: &op,
        inputs: &inputs,
        outputs: &outputs,
        scratch: 1 << 41,
        fault: 0,
        chunk,
        threads: TEAM,
    };
    let mut call = lower(&request).expect("programs have kernels")[0];
    cut(&mut call);
    call
}

/// Batch normalization's last steps, with a rectifier: five tensors, of which four are of channels.
fn normalize() -> Program {
    use Source::{Input, Step};
    let of = |kind, a, b| step(StepKind::Binary(kind), a, b);
    let steps = [
        of(Binary::Sub, Input(0), Input(1)),
        of(Binary::Div, Step(0), Input(2)),
        of(Binary::Mul, Step(1), Input(3)),
        of(Binary::Add, Step(2), Input(4)),
        step(StepKind::Unary(Unary::Relu), Step(3), Step(3)),
    ];
    Program::new(&steps, &[4], None)
}

fn images(side: usize, dtype: Dtype) -> Vec<View> {
    let shape = Shape::new(&[8, 16, side, side]);
    let channels = Layout::contiguous(Shape::new(&[1, 16, 1, 1])).expand(shape);
    let mut views = vec![View::contiguous(dtype, shape)];
    views.extend([View { layout: channels, ..views[0] }; 4]);
    views
}

#[test]
fn vectors_are_moved_where_all_operands_allow_it() {
    let text =
        |side, dtype| Generated::of(&call(normalize(), &images(side, dtype))).expect("it is generated").text;
    assert!(text(8, Dtype::F32).contains("for_elements<4, Index>"));
    assert!(text(8, Dtype::BF16).contains("for_elements<8, Index>"));
    assert!(text(7, Dtype::F32).contains("for_elements<1, Index>"), "a vector would be of two channels");
    assert_eq!(text(8, Dtype::F32), text(16, Dtype::F32), "sizes are arguments");
}

#[test]
fn masks_are_read_as_bytes() {
    let steps = [
        step(StepKind::Unary(Unary::Neg), Source::Input(0), Source::Input(0)),
        Step::new(StepKind::MaskFill, &[Source::Step(0), Source::Input(1), Source::Scalar(0)]),
    ];
    let shape = Shape::new(&[4, 8, 64]);
    let mask = Layout::contiguous(Shape::new(&[1, 8, 64])).expand(shape);
    let views = [View::contiguous(Dtype::BF16, shape), View { layout: mask, dtype: Dtype::Bool }];
    let text = Generated::of(&call(Program::new(&steps, &[1], None), &views)).expect("it is generated").text;
    assert!(
        text.contains("for_elements<8, Index>") && text.contains("read_row<V>(x1, static_cast<const u8*>")
    );
    assert!(text.contains("s1 = x1[k] ? c0 : s0;"), "{text}");
}

/// A softmax of scores with a dropout.
fn softmax() -> Program {
    use Source::{Input, Scalar, Step as Made};
    let of = |kind, a, b| step(StepKind::Binary(kind), a, b);
    let row = |kind, a| step(StepKind::Row(kind), a, a);
    let steps = [
        of(Binary::Mul, Input(0), Scalar(0)),
        row(Reduce::Max, Made(0)),
        of(Binary::Sub, Made(0), Made(1)),
        step(StepKind::Unary(Unary::Exp), Made(2), Made(2)),
        row(Reduce::Sum, Made(3)),
        of(Binary::Div, Made(3), Made(4)),
        Step::new(StepKind::Draw, &[Scalar(1), Scalar(2)]),
        of(Binary::Mul, Made(5), Made(6)),
    ];
    Program::new(&steps, &[1, 4, 7], None)
}

#[test]
fn a_row_is_kept_in_registers_where_it_fits() {
    let text = |size, dtype| {
        let view = View::contiguous(dtype, Shape::new(&[4, 64, size]));
        Generated::of(&call(softmax(), &[view])).expect("it is generated").text
    };
    let kept = text(1024, Dtype::F32);
    assert!(kept.contains("constexpr u32 V = 4, ROUNDS = 2;"), "{kept}");
    assert_eq!(kept.matches("read_row").count(), 1, "{kept}");
    assert!(text(1024, Dtype::BF16).contains("constexpr u32 V = 8, ROUNDS = 1;"));
    let passes = |size| text(size, Dtype::F32).matches("read_row").count();
    assert_eq!([passes(2048), passes(4096)], [1, 3], "a long row is read for each reduction, and at last");
    assert!(text(1001, Dtype::F32).contains("constexpr u32 WIDTH = 1;"), "rows begin anywhere");
}

#[test]
fn a_call_of_another_kernel_stays() {
    let op = Op::Binary(Binary::Pow);
    let placed = Placed { address: 256, view: View::contiguous(Dtype::F32, Shape::new(&[64])) };
    let request = Request {
        op: &op,
        inputs: &[placed; 2],
        outputs: &[placed],
        scratch: 0,
        fault: 0,
        chunk: 1024,
        threads: TEAM,
    };
    let mut call = lower(&request).expect("it has a kernel")[0];
    let (blocks, bytes) = (call.blocks, call.args.bytes().to_vec());
    cut(&mut call);
    assert_eq!((call.blocks, call.args.bytes()), (blocks, &bytes[..]));
    assert_eq!(Generated::of(&call), None);
}
