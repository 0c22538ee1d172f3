use super::*;

const FLOATS: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

fn check_softmax(x: &Data, axis: usize) {
    for &kind in Softmax::ALL {
        check(Op::Softmax { kind, axis }, std::slice::from_ref(x));
    }
}

#[test]
fn softmax_of_every_axis() {
    for dtype in FLOATS {
        for (seed, shape) in shapes_for(dtype).into_iter().enumerate() {
            for x in Data::views(dtype, shape, seed as u64) {
                (0..shape.rank()).for_each(|axis| check_softmax(&x, axis));
            }
        }
        // Rows of lanes and groups with something left over, columns beyond one tile.
        for sizes in [&[3, 5000][..], &[5, 130, 20], &[40, 1300]] {
            for x in Data::views(dtype, Shape::new(sizes), 3) {
                (0..sizes.len()).for_each(|axis| check_softmax(&x, axis));
            }
        }
    }
}

/// Finite, with infinities and without a number.
fn odd_rows() -> Data {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [[1.0, 2.0, 3.0], [-inf, 0.5, 1.0], [inf, 0.5, 1.0], [-inf, -inf, -inf], [1.0, nan, 2.0]];
    Data::from(Dtype::F32, &[5, 3], &rows.concat())
}

#[test]
fn softmax_of_what_is_not_finite() {
    check_softmax(&odd_rows(), 1);
    check_softmax(&odd_rows().with_layout(|layout| layout.permute(&[1, 0])), 0);
    let values = values(Op::Softmax { kind: Softmax::Plain, axis: 1 }, &[odd_rows()]);
    assert!(values[6..].iter().all(|x| x.is_nan()), "{values:?}");
}

#[test]
fn attention_weights() {
    let op = |causal| Op::AttentionWeights { scale: Scalar::from(0.125), causal };
    for dtype in FLOATS {
        for sizes in [[1, 1, 4, 4], [2, 3, 5, 7], [2, 1, 7, 5], [1, 2, 3, 130]] {
            let shape = Shape::new(&sizes);
            let narrow = Data::new(Dtype::Bool, shape.with(1, 1).with(2, 1), 5);
            let masks = [
                Data::new(Dtype::Bool, shape, 4),
                narrow.with_layout(|layout| layout.expand(shape)),
                Data::from(Dtype::Bool, &sizes, &vec![1.0; shape.count()]),
            ];
            for scores in Data::views(dtype, shape, 9) {
                for causal in [false, true] {
                    check(op(causal), std::slice::from_ref(&scores));
                    masks.iter().for_each(|mask| check(op(causal), &[scores.clone(), mask.clone()]));
                }
            }
        }
    }
    for causal in [false, true] {
        check(op(causal), &[odd_rows()]);
    }
}

#[test]
fn softmax_gradients() {
    for dtype in FLOATS {
        let larger = [&[3, 700][..], &[5, 130, 20], &[40, 600]].map(Shape::new);
        for (seed, shape) in shapes_for(dtype).into_iter().chain(larger).enumerate() {
            let gradients = Data::views(dtype, shape, seed as u64 + 50);
            for (n, y) in Data::views(dtype, shape, seed as u64).into_iter().enumerate() {
                for (axis, &kind) in
                    (0..shape.rank()).flat_map(|axis| Softmax::ALL.iter().map(move |kind| (axis, kind)))
                {
                    let op = Op::SoftmaxBackward { kind, axis, scale: Scalar::from(0.25) };
                    check(op, &[y.clone(), gradients[0].clone()]);
                    check(op, &[y.clone(), gradients[n].clone()]);
                }
            }
        }
    }
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn norm_gradients() {
    for dtype in FLOATS {
        for sizes in [[1, 1], [3, 10], [4, 33], [200, 40], [70, 1000], [1200, 3], [0, 4], [4, 0]] {
            let (shape, width) = (Shape::new(&sizes), Shape::new(&sizes[1..]));
            let gamma = Data::new(dtype, width, 2);
            let gradients = Data::views(dtype, shape, 5);
            for (n, x) in Data::views(dtype, shape, 1).into_iter().enumerate() {
                for (&kind, weights) in Norm::ALL.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
                    let op = Op::NormBackward { kind, epsilon: Scalar::from(0.1), weights };
                    check(op, &[x.clone(), gamma.clone(), gradients[0].clone()]);
                    let flipped = gamma.with_layout(|layout| layout.flip(0));
                    check(op, &[x.clone(), flipped, gradients[n].clone()]);
                }
            }
        }
    }
}

#[test]
fn norms() {
    for &kind in Norm::ALL {
        check_norm(Op::Norm { kind, epsilon: Scalar::from(1e-5) });
    }
}

fn check_norm(op: Op) {
    for dtype in FLOATS {
        for sizes in [&[1][..], &[10], &[4, 33], &[2, 3, 1000], &[0, 4]] {
            let shape = Shape::new(sizes);
            let width = Shape::new(&[shape[shape.rank() - 1]]);
            for x in Data::views(dtype, shape, 1) {
                // The rows of an expanded view are constant: all that is left of them is rounding.
                if x.view.layout.strides()[shape.rank() - 1] == 0 {
                    continue;
                }
                let (gamma, beta) = (Data::new(dtype, width, 2), Data::new(dtype, width, 3));
                let flipped = gamma.with_layout(|layout| layout.flip(0));
                check(op, &[x.clone(), gamma.clone()]);
                check(op, &[x.clone(), gamma, beta.clone()]);
                check(op, &[x.clone(), flipped, beta]);
            }
        }
    }
}

#[test]
fn fourier_transforms() {
    for dtype in FLOATS {
        for length in [1, 2, 4, 8, 16, 32, 64, 512] {
            for (axis, size) in [(0, length), (1, length), (1, 3), (1, 2 * length)] {
                let shape = Shape::new(&[3, 2]).with(axis, size);
                for x in Data::views(dtype, shape, 1) {
                    check(Op::RealFft { axis, length }, std::slice::from_ref(&x));
                    let imaginary = Data::new(dtype, shape, 2);
                    check(Op::InverseRealFft { axis, length }, &[x, imaginary]);
                }
            }
        }
    }
}

/// There and back, with lengths beyond what the definition can check, and more rows than one block has.
#[test]
fn fourier_transforms_are_inverse() {
    for (rows, length) in [(1, 65_536), (1, 32_768), (200, 1024)] {
        let x = Data::new(Dtype::F32, Shape::new(&[rows, length]), 3);
        let parts = run_on(Op::RealFft { axis: 1, length }, std::slice::from_ref(&x), None).unwrap();
        let part = |n: usize| Data::from(Dtype::F32, &[rows, length / 2 + 1], &parts[n]);
        let back = values(Op::InverseRealFft { axis: 1, length }, &[part(0), part(1)]);
        let far = back.iter().zip(&x.storage).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 3e-6, "{far} of {length}");
    }
}
