use super::*;

fn windows() -> Vec<Pool2d> {
    let plain = Pool2d {
        kernel: [2, 2],
        stride: [2, 2],
        padding: [0, 0],
        dilation: [1, 1],
        ceil_mode: false,
        count_include_pad: true,
    };
    vec![
        plain,
        Pool2d { kernel: [3, 3], padding: [1, 1], ..plain },
        Pool2d { kernel: [3, 2], stride: [1, 3], padding: [1, 0], count_include_pad: false, ..plain },
        Pool2d { kernel: [3, 3], padding: [1, 1], ceil_mode: true, ..plain },
        Pool2d { kernel: [3, 3], padding: [1, 1], ceil_mode: true, count_include_pad: false, ..plain },
        Pool2d { kernel: [2, 3], stride: [1, 2], padding: [1, 1], dilation: [2, 1], ..plain },
        Pool2d { kernel: [2, 2], stride: [3, 3], dilation: [3, 2], ..plain },
    ]
}

fn images() -> Vec<Data> {
    let shapes = [[2, 3, 8, 9], [1, 2, 7, 7], [3, 1, 5, 6], [0, 2, 6, 6]];
    let views = shapes.iter().enumerate();
    views.flat_map(|(n, sizes)| Data::views(Dtype::F32, Shape::new(sizes), n as u64)).collect()
}

#[test]
fn windows_move_over_images() {
    for x in images() {
        let size = [x.view.shape()[2], x.view.shape()[3]];
        for pool in windows() {
            check(Op::MaxPool2d { pool, indices: None }, std::slice::from_ref(&x));
            check(Op::AvgPool2d(pool), std::slice::from_ref(&x));
            let made = Op::AvgPool2d(pool).outputs(&[x.view])[0];
            for gradient in Data::views(Dtype::F32, *made.shape(), 5) {
                check(Op::AvgPool2dBackward { pool, size }, std::slice::from_ref(&gradient));
                for dtype in Dtype::INDICES {
                    let op = Op::MaxPool2d { pool, indices: Some(dtype) };
                    check(op, std::slice::from_ref(&x));
                    let places = case::run_on(op, std::slice::from_ref(&x), None).unwrap().swap_remove(1);
                    let places = Data::from(dtype, made.shape().dims(), &places);
                    check(Op::MaxPool2dBackward { pool, size }, &[gradient.clone(), places]);
                }
            }
        }
    }
}

/// Rows of several segments and planes of several tiles, in every type; one dimension as Burn gives it; few wide windows.
#[test]
fn long_rows() {
    let plain = windows()[0];
    let wide = Pool2d { kernel: [2, 40], stride: [1, 37], ..plain };
    let line = Pool2d { kernel: [3, 1], stride: [2, 1], padding: [1, 0], ..plain };
    let near = Pool2d { kernel: [3, 3], stride: [1, 1], padding: [1, 1], ..plain };
    let cases = [
        ([1, 2, 5, 300], vec![plain, near, wide, Pool2d { count_include_pad: false, ..near }]),
        ([1, 1, 70, 130], vec![near, Pool2d { kernel: [3, 3], dilation: [2, 3], ..plain }]),
        ([2, 2, 4500, 1], vec![line, Pool2d { kernel: [5, 1], stride: [1, 1], ..plain }]),
    ];
    for (sizes, pools) in cases {
        let size = [sizes[2], sizes[3]];
        for dtype in Dtype::FLOATS {
            let x = Data::new(dtype, Shape::new(&sizes), 1);
            let divided = [sizes[2].div_ceil(3), sizes[3].div_ceil(9)];
            check(Op::AdaptiveAvgPool2d { size: divided }, std::slice::from_ref(&x));
            let gradient = Data::new(dtype, Shape::new(&[sizes[0], sizes[1], divided[0], divided[1]]), 2);
            check(Op::AdaptiveAvgPool2dBackward { size }, &[gradient]);
            for &pool in &pools {
                let max = Op::MaxPool2d { pool, indices: Some(Dtype::I32) };
                check(max, std::slice::from_ref(&x));
                check(Op::AvgPool2d(pool), std::slice::from_ref(&x));
                let made = max.outputs(&[x.view])[0];
                let gradient = Data::new(dtype, *made.shape(), 3);
                check(Op::AvgPool2dBackward { pool, size }, std::slice::from_ref(&gradient));
                let places = case::run_on(max, std::slice::from_ref(&x), None).unwrap().swap_remove(1);
                let places = Data::from(Dtype::I32, made.shape().dims(), &places);
                check(Op::MaxPool2dBackward { pool, size }, &[gradient, places]);
            }
        }
    }
}

#[test]
fn maxima_of_what_is_not_a_number() {
    let x = Data::from(Dtype::F32, &[1, 1, 1, 4], &[f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0, f64::NAN]);
    let pool = Pool2d { kernel: [1, 2], stride: [1, 2], ..windows()[0] };
    let found = case::run_on(Op::MaxPool2d { pool, indices: Some(Dtype::I64) }, &[x], None).unwrap();
    assert!(found[0][0] == f64::NEG_INFINITY && found[0][1].is_nan());
    assert_eq!(found[1], [0.0, 3.0]);
}

#[test]
fn windows_outside_hold_nothing() {
    for (sizes, stride) in [([1, 1, 3, 4], [3, 1]), ([1, 1, 4, 3], [1, 3])] {
        let pool = Pool2d { kernel: [1, 1], stride, ceil_mode: true, ..windows()[0] };
        let x = Data::new(Dtype::F32, Shape::new(&sizes), 1);
        let max = Op::MaxPool2d { pool, indices: Some(Dtype::I32) };
        let found = case::run_on(max, std::slice::from_ref(&x), None).unwrap();
        let averages = values(Op::AvgPool2d(pool), std::slice::from_ref(&x));
        let outside: Vec<bool> = found[1].iter().map(|&place| place == -1.0).collect();
        assert_eq!(outside.iter().filter(|&&outside| outside).count(), 4);
        for (n, &outside) in outside.iter().enumerate() {
            assert_eq!(found[0][n] == f64::NEG_INFINITY, outside);
            assert!(!outside || averages[n] == 0.0);
        }
        // What they get goes nowhere.
        let made = max.outputs(&[x.view])[0];
        let gradient = Data::from(Dtype::F32, made.shape().dims(), &vec![1.0; outside.len()]);
        let places = Data::from(Dtype::I32, made.shape().dims(), &found[1]);
        let size = [sizes[2], sizes[3]];
        let sent: f64 = values(Op::MaxPool2dBackward { pool, size }, &[gradient, places]).iter().sum();
        assert_eq!(sent, 4.0);
    }
}

#[test]
fn adaptive() {
    for x in images() {
        let shape = *x.view.shape();
        for size in [[1, 1], [3, 2], [4, 9], [11, 5]] {
            check(Op::AdaptiveAvgPool2d { size }, std::slice::from_ref(&x));
            let pooled = shape.with(2, size[0]).with(3, size[1]);
            for gradient in Data::views(Dtype::F32, pooled, 6) {
                check(Op::AdaptiveAvgPool2dBackward { size: [shape[2], shape[3]] }, &[gradient]);
            }
        }
    }
}
