//! Programs of elementwise steps: each step gives the bits that its op gives by itself.

use super::*;

/// The bits that an op makes, in place of an input too if that may be; NaN as one.
fn bits(op: Op, inputs: &[Data], in_place: Option<usize>) -> Vec<Vec<u64>> {
    let outputs = run_on(op, inputs, in_place).expect("the op runs");
    let bits = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    outputs.into_iter().map(|values| values.into_iter().map(bits).collect()).collect()
}

fn program(steps: &[Step], outputs: &[u8], scalars: &[f64]) -> Op {
    let mut bits = [0; MAX_SCALARS];
    bits.iter_mut().zip(scalars).for_each(|(bits, scalar)| *bits = scalar.to_bits());
    Op::Fused { program: Program::new(steps, outputs, None), scalars: bits }
}

/// The program of one op.
fn alone(op: Op) -> Op {
    let (kind, scalars) = StepKind::of(&op).expect("the op can be a step");
    let second = match (op, scalars.first()) {
        (Op::Binary(_), _) => Source::Input(1),
        (_, Some(_)) => Source::Scalar(0),
        _ => Source::Input(0),
    };
    let scalars: Vec<f64> = scalars.into_iter().map(f64::from_bits).collect();
    program(&[Step::new(kind, &[Source::Input(0), second])], &[0], &scalars)
}

/// Compares an op with the program that it is the only step of, on views of all kinds.
fn check_alone(op: Op, inputs: usize) {
    for dtype in Dtype::FLOATS {
        let shapes = shapes_for(dtype).into_iter().filter(|shape| shape.count() > 0);
        for (seed, shape) in shapes.chain([Shape::new(&[300]), Shape::new(&[7, 90])]).enumerate() {
            let (a, b) =
                (Data::views(dtype, shape, seed as u64), Data::views(dtype, shape, seed as u64 + 50));
            for (at, a) in a.into_iter().enumerate() {
                let x = [a, b[(at + seed) % b.len()].clone()];
                assert_eq!(
                    bits(alone(op), &x[..inputs], None),
                    bits(op, &x[..inputs], None),
                    "{op:?} of {dtype} {shape:?}"
                );
            }
        }
    }
}

#[test]
fn each_step_gives_the_bits_of_its_op() {
    UNARY_STEPS.into_iter().for_each(|kind| check_alone(Op::Unary(kind), 1));
    for kind in BINARY_STEPS {
        check_alone(Op::Binary(kind), 2);
        check_alone(Op::BinaryScalar(kind, Scalar::from(-1.375)), 1);
    }
    check_alone(Op::BinaryScalar(Binary::Pow, Scalar::from(2.0)), 1);
    for divisor in [0.25, 8.0, 2f64.powi(14)] {
        check_alone(Op::BinaryScalar(Binary::Div, divisor.into()), 1);
    }
}

#[test]
fn masks_give_the_bits_of_their_op() {
    let steps = [
        Step::new(StepKind::Unary(Unary::Neg), &[Source::Input(0)]),
        Step::new(StepKind::MaskFill, &[Source::Step(0), Source::Input(1), Source::Scalar(0)]),
    ];
    let op = program(&steps, &[1], &[-1.375]);
    for dtype in Dtype::FLOATS {
        for (seed, shape) in
            [Shape::new(&[300]), Shape::new(&[7, 90]), Shape::new(&[3, 5, 31])].into_iter().enumerate()
        {
            let masks = Data::views(Dtype::Bool, shape, seed as u64);
            for (at, x) in Data::views(dtype, shape, seed as u64 + 50).into_iter().enumerate() {
                let mask = masks[at % masks.len()].clone();
                let negative = values(Op::Unary(Unary::Neg), std::slice::from_ref(&x));
                let kept = Data::from(dtype, shape.dims(), &negative);
                let filled = bits(Op::MaskFill(Scalar::from(-1.375)), &[kept, mask.clone()], None);
                assert_eq!(bits(op, &[x, mask], None), filled, "{dtype} {shape:?} {at}");
            }
        }
    }
}

#[test]
fn draws_give_the_bits_of_their_op() {
    let steps = [
        Step::new(StepKind::Draw, &[Source::Scalar(0), Source::Scalar(1)]),
        Step::new(StepKind::Binary(Binary::Mul), &[Source::Input(0), Source::Step(0)]),
    ];
    for dtype in Dtype::FLOATS {
        for (seed, dims) in [&[300][..], &[7, 90], &[3, 5, 31], &[2, 130, 4, 9]].into_iter().enumerate() {
            let (shape, seed) = (Shape::new(dims), 0x1234_5678_9abc_def0 + seed as u64);
            let distribution = Distribution::Bernoulli { probability: 0.3.into() };
            let random = Op::Random { shape, dtype, distribution, seed };
            let (_, words) = StepKind::of(&random).expect("it can be a step");
            let mut scalars = [0; MAX_SCALARS];
            scalars[..2].copy_from_slice(&words);
            let drawn = Data::from(dtype, dims, &values(random, &[]));
            for x in Data::views(dtype, shape, seed) {
                let expected = bits(Op::Binary(Binary::Mul), &[x.clone(), drawn.clone()], None);
                let op = |ending| Op::Fused { program: Program::new(&steps, &[1], ending), scalars };
                assert_eq!(bits(op(None), std::slice::from_ref(&x), None), expected, "{dtype} {shape:?}");
                // Along the first dimension, in another order than that of the elements.
                let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
                order[..dims.len()].rotate_left(1);
                let rows = dims.len() as u8 - 1;
                let ending =
                    Ending { kind: Reduce::Sum, source: Source::Step(1), order, reduced: [rows, rows + 1] };
                let reduced = bits(op(Some(ending)), std::slice::from_ref(&x), None);
                assert_eq!(reduced[0], expected[0], "{dtype} {shape:?} in another order");
                let sum = Op::Fused { program: Program::new(&steps, &[], Some(ending)), scalars };
                assert_eq!(
                    bits(sum, &[x], None)[0],
                    reduced[1],
                    "{dtype} {shape:?} with no output but the sum"
                );
            }
        }
    }
}

/// As many inputs, outputs, steps and scalars as there can be.
#[test]
fn a_full_program_gives_the_bits_of_its_ops() {
    let step = |kind, a, b| Step::new(StepKind::Binary(kind), &[a, b]);
    let mut steps = vec![step(Binary::Mul, Source::Input(0), Source::Scalar(0))];
    for n in 1..8 {
        steps.push(step(Binary::Add, Source::Step(2 * n - 2), Source::Input(n)));
        steps.push(step(Binary::Mul, Source::Step(2 * n - 1), Source::Scalar(n)));
    }
    for n in 8..12 {
        steps.push(step(Binary::Mul, Source::Step(n + 6), Source::Scalar(n)));
    }
    for n in 19..24 {
        steps.push(step(Binary::ReverseSub, Source::Step(n - 1), Source::Step(3)));
    }
    assert_eq!((steps.len(), MAX_SCALARS, MAX_FUSED_OUTPUTS), (MAX_STEPS, 12, 6));
    let scalars: Vec<f64> = (0..12).map(|n| 0.75 + f64::from(n) / 8.0).collect();
    let outputs = [23, 0, 7, 14, 18, 20];
    let op = program(&steps, &outputs, &scalars);
    for dtype in Dtype::FLOATS {
        // Several pieces, and several blocks.
        for shape in [Shape::new(&[5, 7]), Shape::new(&[3, 40, 31]), Shape::new(&[2, 9, 9001])] {
            let views: Vec<Vec<Data>> = (0..8).map(|n| Data::views(dtype, shape, n)).collect();
            for turn in 0..views[0].len() {
                let inputs: Vec<Data> = (views.iter().enumerate())
                    .map(|(n, views)| views[if n == 0 { 0 } else { (n + turn) % views.len() }].clone())
                    .collect();
                let mut made: Vec<Data> = Vec::new();
                for step in &steps {
                    let StepKind::Binary(kind) = step.kind else { unreachable!("all take two values") };
                    let value = |source| match source {
                        Source::Input(n) => inputs[n as usize].clone(),
                        Source::Step(n) => made[n as usize].clone(),
                        Source::Scalar(_) => unreachable!("taken apart below"),
                    };
                    let (op, read) = match step.sources {
                        [a, Source::Scalar(n), _] => {
                            (Op::BinaryScalar(kind, scalars[n as usize].into()), vec![value(a)])
                        }
                        [a, b, _] => (Op::Binary(kind), vec![value(a), value(b)]),
                    };
                    made.push(Data::from(dtype, shape.dims(), &values(op, &read)));
                }
                let expected: Vec<Vec<u64>> = outputs
                    .map(|at| made[at as usize].storage.iter().map(|x| x.to_bits()).collect())
                    .to_vec();
                assert_eq!(bits(op, &inputs, None), expected, "{dtype} {shape:?} {turn}");
                assert_eq!(bits(op, &inputs, Some(0)), expected, "{dtype} {shape:?} {turn}, in place");
            }
        }
    }
}

/// A difference, which is kept, times a number, which is reduced in some order of the dimensions.
fn check_ending(dtype: Dtype, shape: Shape, order: &[u8], reduced: [u8; 2], kind: Reduce) {
    let step = |kind, a, b| Step::new(StepKind::Binary(kind), &[a, b]);
    let steps = [
        step(Binary::Sub, Source::Input(0), Source::Input(1)),
        step(Binary::Mul, Source::Step(0), Source::Scalar(0)),
    ];
    let mut ordered = [0; MAX_RANK];
    ordered[..order.len()].copy_from_slice(order);
    let ending = Ending { kind, source: Source::Step(1), order: ordered, reduced };
    let mut scalars = [0; MAX_SCALARS];
    scalars[0] = 0.375f64.to_bits();
    let op = |outputs: &[u8]| Op::Fused { program: Program::new(&steps, outputs, Some(ending)), scalars };
    let (a, b) = (Data::views(dtype, shape, 3), Data::views(dtype, shape, 5));
    for (at, a) in a.into_iter().enumerate() {
        let inputs = [a, b[(at + 1) % b.len()].clone()];
        let difference = values(Op::Binary(Binary::Sub), &inputs);
        let kept = Data::from(dtype, shape.dims(), &difference);
        let product = values(Op::BinaryScalar(Binary::Mul, 0.375.into()), std::slice::from_ref(&kept));
        let seen = Data::from(dtype, shape.dims(), &product).with_layout(|layout| ending.ordered(layout));
        let copied = values(Op::Copy { dtype }, &[seen]);
        let whole = Data::from(dtype, ending.sizes(&shape).dims(), &copied);
        let sum = bits(Op::Reduce { kind, axis: 1 }, &[whole], None).remove(0);
        let kept: Vec<u64> = kept.storage.iter().map(|x| x.to_bits()).collect();
        let what = format!("{kind:?} of {dtype} {shape:?} {order:?} {reduced:?}, {at}");
        assert_eq!(bits(op(&[0]), &inputs, None), [kept, sum.clone()], "{what}");
        assert_eq!(bits(op(&[]), &inputs, None), [sum], "{what}, alone");
        if at == 0 {
            // An input that is written over is reduced as it was before.
            let of_input = Ending { source: Source::Input(0), ..ending };
            let alone = Op::Fused { program: Program::new(&[], &[], Some(of_input)), scalars };
            let both = Op::Fused { program: Program::new(&steps[..1], &[0], Some(of_input)), scalars };
            let sum = bits(alone, &inputs[..1], None).remove(0);
            assert_eq!(bits(both, &inputs, Some(0))[1], sum, "{what}, in place");
        }
    }
}

#[test]
fn an_ending_gives_the_bits_of_its_reduction() {
    // Short rows; rows and columns of several dimensions; pieces of rows; several short rows as one; tiles of columns.
    let cases: [(&[usize], &[u8], [u8; 2]); 9] = [
        (&[3, 5, 40], &[0, 1, 2], [2, 3]),
        (&[3, 5, 40], &[1, 0, 2], [1, 3]),
        (&[3, 5, 40], &[2, 0, 1], [0, 2]),
        (&[2, 33_001], &[0, 1], [1, 2]),
        (&[4, 2, 9001], &[1, 0, 2], [1, 3]),
        (&[12_001, 3], &[0, 1], [0, 1]),
        (&[300, 1300], &[0, 1], [0, 1]),
        (&[20, 70, 13], &[0, 1, 2], [1, 2]),
        (&[6, 50], &[0, 1], [0, 2]),
    ];
    for dtype in Dtype::FLOATS {
        for (sizes, order, reduced) in cases {
            for kind in [Reduce::Sum, Reduce::Mean, Reduce::Max] {
                check_ending(dtype, Shape::new(sizes), order, reduced, kind);
            }
        }
    }
}

/// A softmax with its mask, and the logarithm of its sums: the interpreter, on rows of all lengths.
#[test]
fn programs_that_reduce_rows_give_the_bits_of_their_ops() {
    let of = |kind, a, b| Step::new(StepKind::Binary(kind), &[a, b]);
    let one = |kind, a| Step::new(StepKind::Unary(kind), &[a]);
    let steps = [
        of(Binary::Mul, Source::Input(0), Source::Scalar(0)),
        Step::new(StepKind::Row(Reduce::Max), &[Source::Step(0)]),
        of(Binary::Sub, Source::Step(0), Source::Step(1)),
        one(Unary::Exp, Source::Step(2)),
        Step::new(StepKind::Row(Reduce::Sum), &[Source::Step(3)]),
        one(Unary::Log, Source::Step(4)).of_rows(),
        of(Binary::Div, Source::Step(3), Source::Step(4)),
        Step::new(StepKind::Row(Reduce::Mean), &[Source::Input(0)]),
        of(Binary::Mul, Source::Step(6), Source::Step(7)),
    ];
    let op = program(&steps, &[5, 8], &[0.375]);
    for dtype in Dtype::FLOATS {
        for (seed, dims) in [&[3, 128][..], &[2, 5, 130], &[70, 300], &[2, 5000]].into_iter().enumerate() {
            let (shape, axis) = (Shape::new(dims), dims.len() - 1);
            for x in Data::views(dtype, shape, seed as u64) {
                let whole = |values: &[f64]| Data::from(dtype, dims, values);
                let row = |values: &[f64]| {
                    Data::from(dtype, shape.with(axis, 1).dims(), values)
                        .with_layout(|layout| layout.expand(shape))
                };
                let scaled =
                    whole(&values(Op::BinaryScalar(Binary::Mul, 0.375.into()), std::slice::from_ref(&x)));
                let reduced = |kind, x: &Data| values(Op::Reduce { kind, axis }, std::slice::from_ref(x));
                let largest = row(&reduced(Reduce::Max, &scaled));
                let less = whole(&values(Op::Binary(Binary::Sub), &[scaled, largest]));
                let exponentials = whole(&values(Op::Unary(Unary::Exp), &[less]));
                let sums = reduced(Reduce::Sum, &exponentials);
                let logarithms =
                    bits(Op::Unary(Unary::Log), &[Data::from(dtype, &[sums.len()], &sums)], None).remove(0);
                let parts = whole(&values(Op::Binary(Binary::Div), &[exponentials, row(&sums)]));
                // As it would be in memory.
                let copied = whole(&values(Op::Copy { dtype }, std::slice::from_ref(&x)));
                let means = row(&reduced(Reduce::Mean, &copied));
                let products = bits(Op::Binary(Binary::Mul), &[parts, means], None).remove(0);
                let found = bits(op, std::slice::from_ref(&x), None);
                assert_eq!(found, [logarithms, products], "{dtype} {shape:?}");
            }
        }
    }
}
