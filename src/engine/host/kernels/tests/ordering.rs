use super::*;

fn numbers() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.iter().copied().filter(|dtype| !dtype.is_bool())
}

/// Products of whole numbers soon leave every type; those of ones and minus ones do not.
fn signs(x: &Data) -> Data {
    let mut signs = x.clone();
    signs.storage.iter_mut().for_each(|x| *x = if *x < 1.0 { 1.0 } else { -1.0 });
    if x.view.dtype.range().0 == 0 && x.view.dtype.is_integer() {
        signs.storage.fill(1.0);
    }
    signs
}

fn check_cumulative(x: &Data) {
    for axis in 0..x.view.shape().rank() {
        for kind in [Cumulative::Sum, Cumulative::Max, Cumulative::Min] {
            check(Op::Cumulative { kind, axis }, std::slice::from_ref(x));
        }
        check(Op::Cumulative { kind: Cumulative::Prod, axis }, &[signs(x)]);
    }
}

fn check_sort(x: &Data, axis: usize, count: usize) {
    for descending in [false, true] {
        check(Op::Sort { axis, descending, count }, std::slice::from_ref(x));
        for dtype in Dtype::INDICES {
            check(Op::ArgSort { axis, descending, count, dtype }, std::slice::from_ref(x));
        }
    }
}

#[test]
fn cumulative() {
    for dtype in numbers() {
        for (seed, shape) in shapes().into_iter().enumerate() {
            for x in Data::views(dtype, shape, seed as u64) {
                check_cumulative(&x);
            }
        }
    }
    // Groups with something left over; columns beyond one tile and one block.
    for sizes in [&[3, 601][..], &[601, 3], &[70, 1300], &[5, 30, 7]] {
        for dtype in [Dtype::F64, Dtype::F32, Dtype::BF16, Dtype::I32, Dtype::U8] {
            for x in Data::views(dtype, Shape::new(sizes), 7) {
                check_cumulative(&x);
            }
        }
    }
}

#[test]
fn not_a_number_stays_from_where_it_is() {
    for at in [0, 3, 50, 99] {
        let mut row: Vec<f64> = (0..100).map(|k| f64::from(k * 37 % 100)).collect();
        row[at] = f64::NAN;
        for sizes in [[1, 100], [100, 1]] {
            check_cumulative(&Data::from(Dtype::F32, &sizes, &row));
        }
        let columns = Data::from(Dtype::F32, &[100, 2], &[row.clone(), row].concat());
        check_cumulative(&columns);
    }
}

#[test]
fn sort() {
    for dtype in numbers() {
        for (seed, shape) in shapes().into_iter().enumerate() {
            for x in Data::views(dtype, shape, seed as u64) {
                for axis in 0..shape.rank() {
                    let size = shape[axis];
                    [0, 1, size / 2, size]
                        .into_iter()
                        .filter(|&k| k <= size)
                        .for_each(|k| check_sort(&x, axis, k));
                }
            }
        }
    }
}

/// Few values, so that many are equal, and every digit of the wider types. All are exact.
fn spread(dtype: Dtype, shape: Shape, seed: u64) -> Data {
    let mut data = Data::new(dtype, shape, seed);
    let fits = !dtype.is_half() && dtype.size_bytes() > 1;
    data.storage.iter_mut().enumerate().filter(|_| fits).for_each(|(k, x)| {
        *x *= [1.0, 257.0, 1.0, 33.0][k % 4];
        *x = if dtype.size_bytes() == 8 && k % 5 == 0 { *x * 4_294_967_297.0 } else { *x };
    });
    data
}

#[test]
fn sort_long_rows() {
    for sizes in [&[3000][..], &[3, 500], &[500, 3], &[40, 65]] {
        for dtype in numbers() {
            let x = spread(dtype, Shape::new(sizes), 11);
            for (axis, &size) in sizes.iter().enumerate() {
                for count in [1, size / 10, size / 3, size] {
                    check_sort(&x, axis, count);
                    check_sort(&x.with_layout(|layout| layout.flip(axis)), axis, count);
                }
            }
        }
    }
}

#[test]
fn odd_numbers_have_their_order() {
    let odd = [f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, 1.0, -1.0, f64::NAN, 0.0, -0.0];
    for dtype in Dtype::FLOATS {
        for repeats in [1, 30] {
            let x = Data::from(dtype, &[odd.len() * repeats], &odd.repeat(repeats));
            check_sort(&x, 0, x.storage.len());
            check_sort(&x, 0, 3);
            let sorted = values(Op::Sort { axis: 0, descending: false, count: x.storage.len() }, &[x]);
            let zero = |range: std::ops::Range<usize>, negative: bool| {
                let at = range.start * repeats..range.end * repeats;
                assert!(sorted[at].iter().all(|x| *x == 0.0 && x.is_sign_negative() == negative), "{dtype}");
            };
            zero(2..4, true);
            zero(4..6, false);
        }
    }
}

#[test]
fn argwhere() {
    let mut all = shapes();
    all.extend([&[3 * COUNTED_RUN + 7][..], &[300, 301]].map(Shape::new));
    for (seed, shape) in all.into_iter().enumerate() {
        for mask in Data::views(Dtype::Bool, shape, seed as u64) {
            check(Op::CountSet, std::slice::from_ref(&mask));
            let counts = values(Op::CountSet, std::slice::from_ref(&mask));
            let ends = counts.iter().scan(0.0, |end, count| {
                *end += count;
                Some(*end)
            });
            let ends: Vec<f64> = ends.collect();
            let count = ends.last().copied().unwrap_or(0.0) as usize;
            for dtype in Dtype::INDICES {
                let ends = Data::from(Dtype::I64, &[ends.len()], &ends);
                check(Op::ArgWhere { count, dtype }, &[mask.clone(), ends]);
            }
        }
    }
}
