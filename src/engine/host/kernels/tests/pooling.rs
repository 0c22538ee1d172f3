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
