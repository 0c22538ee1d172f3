use super::*;

fn resizes() -> impl Iterator<Item = Resize> {
    let modes = Interpolation::ALL.iter();
    modes.flat_map(|&mode| [true, false].map(|align_corners| Resize { mode, align_corners }))
}

#[test]
fn interpolation_and_its_transpose() {
    // From size, to size: up, down, to and from one pixel, and rows of several segments.
    let sizes =
        [([5, 7], [9, 14]), ([8, 9], [3, 4]), ([1, 6], [4, 1]), ([3, 2], [3, 2]), ([2, 300], [3, 700])];
    for (seed, (from, to)) in sizes.into_iter().enumerate() {
        let images = |[height, width]: [usize; 2]| Shape::new(&[2, 3, height, width]);
        for resize in resizes() {
            for dtype in Dtype::FLOATS {
                for x in Data::views(dtype, images(from), seed as u64) {
                    check(Op::Interpolate { resize, size: to }, &[x]);
                }
                for gradient in Data::views(dtype, images(to), seed as u64) {
                    check(Op::InterpolateBackward { resize, size: from }, &[gradient]);
                }
            }
        }
    }
}

#[test]
fn a_far_smaller_image() {
    // One output row reads pieces of an input row that are far apart.
    for resize in resizes() {
        let x = Data::new(Dtype::F32, Shape::new(&[1, 1, 3, 5000]), 1);
        check(Op::Interpolate { resize, size: [2, 7] }, &[x]);
    }
}

#[test]
fn places_of_a_grid() {
    for dtype in Dtype::FLOATS {
        for nearest in [true, false] {
            for &padding in GridPadding::ALL {
                for align_corners in [true, false] {
                    let op = Op::GridSample(GridSample { nearest, padding, align_corners });
                    let images = Data::views(dtype, Shape::new(&[2, 3, 5, 4]), 1);
                    let grids = Data::views(dtype, Shape::new(&[2, 6, 7, 2]), 2);
                    for (x, grid) in images.iter().zip(&grids) {
                        check(op, &[x.clone(), grid.clone()]);
                    }
                    // Pieces of many pixels.
                    let grid = Data::new(dtype, Shape::new(&[2, 20, 30, 2]), 3);
                    check(op, &[images[0].clone(), grid]);
                }
            }
        }
    }
}

#[test]
fn no_place_in_a_grid() {
    let x = Data::from(Dtype::F32, &[1, 1, 1, 3], &[1.0, 2.0, 3.0]);
    let grid = Data::from(Dtype::F32, &[1, 1, 2, 2], &[f64::NAN, 0.0, 0.0, f64::INFINITY]);
    for (padding, expected) in
        [(GridPadding::Zeros, 0.0), (GridPadding::Border, 2.0), (GridPadding::Reflection, 0.0)]
    {
        let op = Op::GridSample(GridSample { nearest: false, padding, align_corners: true });
        assert_eq!(values(op, &[x.clone(), grid.clone()]), [expected; 2]);
    }
}

#[test]
fn windows_of_deformable_convolutions() {
    let plain =
        Deform2d { kernel: [3, 2], stride: [1, 1], padding: [0, 0], dilation: [1, 1], offset_groups: 1 };
    let windows = [
        plain,
        Deform2d { stride: [2, 1], padding: [1, 2], dilation: [1, 2], offset_groups: 2, ..plain },
        Deform2d { kernel: [1, 1], offset_groups: 4, ..plain },
    ];
    for dtype in [Dtype::F32, Dtype::F64] {
        for deform in windows {
            let (groups, taps) = (deform.offset_groups, deform.kernel[0] * deform.kernel[1]);
            let places = |channels: usize, seed: u64| {
                Data::views(dtype, Shape::new(&[2, channels * groups * taps, 4, 5]), seed)
            };
            let columns = Data::new(dtype, Shape::new(&[4 * taps, 2 * 4 * 5]), 4);
            let views = Data::views(dtype, Shape::new(&[2, 4, 6, 7]), 1).into_iter();
            for ((x, offset), mask) in views.zip(places(2, 2)).zip(places(1, 3)) {
                let image = Op::DeformBackwardImage { deform, size: [6, 7] };
                check(Op::DeformColumns(deform), &[x.clone(), offset.clone()]);
                check(Op::DeformColumns(deform), &[x.clone(), offset.clone(), mask.clone()]);
                check(image, &[offset.clone(), columns.clone()]);
                check(image, &[offset.clone(), columns.clone(), mask.clone()]);
                let op = Op::DeformBackwardOffset(deform);
                check(op, &[x.clone(), offset.clone(), columns.clone()]);
                check(op, &[x, offset, columns.clone(), mask]);
            }
        }
    }
}
