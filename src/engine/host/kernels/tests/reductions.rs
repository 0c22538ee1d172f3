use super::*;

fn check_axis(x: &Data, axis: usize) {
    for &kind in Reduce::ALL {
        // The references of an empty integer extreme or a long product mean nothing.
        let sensible = x.view.shape()[axis] > 0 || matches!(kind, Reduce::Sum | Reduce::Prod);
        let short = kind != Reduce::Prod || x.view.shape()[axis] < 12;
        if kind.supports(x.view.dtype) && sensible && short {
            check(Op::Reduce { kind, axis }, std::slice::from_ref(x));
        }
    }
    if x.view.shape()[axis] > 0 && !x.view.dtype.is_bool() {
        for &kind in ArgReduce::ALL {
            for (dtype, values) in Dtype::INDICES.into_iter().zip([false, true]) {
                check(Op::ArgReduce { kind, axis, dtype, values }, std::slice::from_ref(x));
            }
        }
    }
}

#[test]
fn every_axis_of_every_view() {
    for &dtype in Dtype::ALL {
        for (seed, shape) in shapes().into_iter().enumerate() {
            for x in Data::views(dtype, shape, seed as u64) {
                (0..shape.rank()).for_each(|axis| check_axis(&x, axis));
            }
        }
    }
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn long_rows_and_many_columns() {
    // Rows of lanes, groups and pieces with something left over; columns beyond one tile and one block.
    for sizes in
        [&[2, 5000][..], &[33_001], &[12_001, 3], &[2, 33_001], &[300, 1300], &[20, 70, 130], &[5003, 8]]
    {
        let shape = Shape::new(sizes);
        for dtype in [Dtype::F32, Dtype::F16, Dtype::I32, Dtype::Bool] {
            for axis in 0..shape.rank() {
                for x in Data::views(dtype, shape, 7) {
                    check_axis(&x, axis);
                }
            }
        }
    }
}

#[test]
fn sums_stay_accurate() {
    let count = 3_000_000;
    let x = Data::from(Dtype::F32, &[count], &vec![f64::from(0.1f32); count]);
    let sum = values(Op::Reduce { kind: Reduce::Sum, axis: 0 }, std::slice::from_ref(&x))[0];
    let exact = f64::from(0.1f32) * count as f64;
    assert!((sum - exact).abs() < 3e-6 * exact, "{sum} {exact}");
    let columns = x.with_layout(|layout| layout.reshape(Shape::new(&[count / 3, 3])).unwrap());
    let sums = values(Op::Reduce { kind: Reduce::Sum, axis: 0 }, &[columns]);
    assert!(sums.iter().all(|sum| (sum - exact / 3.0).abs() < 3e-6 * exact), "{sums:?} {exact}");
}

#[test]
fn not_a_number_wins() {
    for at in [0, 3, 50, 99] {
        let mut numbers: Vec<f64> = (0..100).map(f64::from).collect();
        numbers[at] = f64::NAN;
        check_axis(&Data::from(Dtype::F32, &[100], &numbers), 0);
        let columns = [numbers.clone(), numbers.clone()].concat();
        let columns =
            Data::from(Dtype::F32, &[2, 100], &columns).with_layout(|layout| layout.permute(&[1, 0]));
        check_axis(&columns, 0);
        check_axis(&columns, 1);
    }
}
