use super::*;

/// Indices below `size`.
fn index(dtype: Dtype, shape: Shape, size: usize, seed: u64) -> Data {
    let mut data = Data::new(Dtype::I64, shape, seed);
    data.storage.iter_mut().for_each(|x| *x = (*x * 7.0).rem_euclid(size.max(1) as f64));
    data.view.dtype = dtype;
    data
}

fn updates(dtype: Dtype) -> impl Iterator<Item = Update> {
    Update::ALL.iter().copied().filter(move |update| update.supports(dtype))
}

fn indexable() -> Vec<Shape> {
    [&[7][..], &[3, 5], &[5, 3], &[2, 3, 4], &[2, 3, 4, 5], &[1, 17, 1, 20], &[2, 1, 3, 2, 2]]
        .map(Shape::new)
        .to_vec()
}

#[test]
fn gather_and_scatter() {
    for &dtype in Dtype::ALL {
        for (seed, shape) in indexable().into_iter().enumerate() {
            let seed = seed as u64;
            for axis in 0..shape.rank() {
                for count in [0, 1, 9] {
                    let indices = index(Dtype::INDICES[axis % 2], shape.with(axis, count), shape[axis], seed);
                    let values = Data::views(dtype, shape.with(axis, count), seed + 9);
                    for (n, x) in Data::views(dtype, shape, seed).into_iter().enumerate() {
                        check(Op::Gather { axis }, &[x.clone(), indices.clone()]);
                        let value = values[n % values.len()].clone();
                        for update in updates(dtype) {
                            check(Op::Scatter { axis, update }, &[x.clone(), indices.clone(), value.clone()]);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn select_and_update() {
    for &dtype in Dtype::ALL {
        for (seed, shape) in indexable().into_iter().enumerate() {
            let seed = seed as u64;
            for axis in 0..shape.rank() {
                for count in [0, 1, 9] {
                    let indices = index(Dtype::INDICES[axis % 2], Shape::new(&[count]), shape[axis], seed);
                    let values = Data::views(dtype, shape.with(axis, count), seed + 9);
                    for (n, x) in Data::views(dtype, shape, seed).into_iter().enumerate() {
                        check(Op::Select { axis }, &[x.clone(), indices.clone()]);
                        let value = values[n % values.len()].clone();
                        for update in updates(dtype) {
                            let inputs = [x.clone(), indices.clone(), value.clone()];
                            check(Op::SelectUpdate { axis, update }, &inputs);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error() {
    let x = Data::new(Dtype::F32, Shape::new(&[3, 4]), 1);
    let value = Data::new(Dtype::F32, Shape::new(&[1, 4]), 1);
    for (bad, message) in [(3.0, "index 3 is out of range for 3"), (-1.0, "index -1 is out of range for 3")] {
        let (row, full) =
            (Data::from(Dtype::I64, &[1], &[bad]), Data::from(Dtype::I64, &[1, 4], &[0.0, bad, 1.0, 2.0]));
        check_fails(Op::Select { axis: 0 }, &[x.clone(), row.clone()], message);
        let update = Update::Add;
        check_fails(Op::SelectUpdate { axis: 0, update }, &[x.clone(), row, value.clone()], message);
        check_fails(Op::Gather { axis: 0 }, &[x.clone(), full.clone()], message);
        check_fails(Op::Scatter { axis: 0, update }, &[x.clone(), full, value.clone()], message);
    }
}

#[test]
fn slice_assign() {
    for &dtype in Dtype::ALL {
        for (seed, shape) in indexable().into_iter().enumerate() {
            for axis in 0..shape.rank() {
                let (mut starts, mut steps) = ([0; MAX_RANK], [1; MAX_RANK]);
                let half = shape.with(axis, shape[axis].div_ceil(2));
                (starts[axis], steps[axis]) = (shape[axis] - 1, -2);
                let values = Data::views(dtype, half, seed as u64 + 9);
                for (n, x) in Data::views(dtype, shape, seed as u64).into_iter().enumerate() {
                    let value = values[n % values.len()].clone();
                    check(Op::SliceAssign { starts, steps }, &[x.clone(), value]);
                    let part = Data::new(dtype, shape.with(axis, 1), 3);
                    steps[axis] = 1;
                    check(Op::SliceAssign { starts, steps }, &[x, part]);
                    steps[axis] = -2;
                }
            }
        }
    }
}
