//! Encodings: what comes back, and what is computed without.

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::op::{Encoding, FloatFormat, SCALED, Taps};

fn row(dtype: Dtype, values: &[f64]) -> Data {
    Data::from(dtype, &[values.len()], values)
}

fn there_and_back(encoding: Encoding, x: &Data) -> Vec<f64> {
    let (dtype, count) = (x.view.dtype, x.storage.len());
    let words = values(Op::Encode(encoding), std::slice::from_ref(x));
    assert_eq!(words.len(), encoding.words(count));
    values(Op::Decode { encoding, dtype, count }, &[row(Dtype::U32, &words)])
}

const COUNTS: [usize; 9] = [0, 1, 2, 3, 31, 32, 33, 100, 70_001];

#[test]
fn bools_come_back() {
    for dtype in [Dtype::Bool, Dtype::Bool8, Dtype::Bool32] {
        for (seed, count) in COUNTS.into_iter().enumerate() {
            let x = Data::new(dtype, Shape::new(&[count]), seed as u64);
            assert_eq!(there_and_back(Encoding::Bools, &x), x.storage);
        }
    }
}

#[test]
fn integers_come_back() {
    for dtype in Dtype::INDICES {
        for bits in [1u8, 2, 4, 8, 16, 32] {
            let most = (1u64 << bits) - 1;
            let most = if dtype == Dtype::I32 { most.min(i32::MAX as u64) } else { most };
            for count in COUNTS {
                let value = |k: usize| (k as u64).wrapping_mul(2_654_435_761) % (most + 1);
                let x: Vec<f64> = [most].into_iter().chain((1..count).map(value)).map(|x| x as f64).collect();
                let x = row(dtype, &x[..count]);
                assert_eq!(there_and_back(Encoding::Integers { bits }, &x), x.storage, "{dtype} {bits}");
            }
        }
    }
}

#[test]
fn signs_serve_the_gradient_of_a_rectifier_as_the_values_do() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-40, -1e-40];
    for dtype in Dtype::FLOATS {
        for (seed, shape) in shapes().into_iter().chain([Shape::new(&[3, 70, 341])]).enumerate() {
            let mut x = Data::new(dtype, shape, seed as u64);
            x.storage.iter_mut().zip(special).for_each(|(x, special)| *x = special);
            let flat = row(dtype, &x.storage);
            let signs = row(Dtype::U32, &values(Op::Encode(Encoding::Signs), &[flat]));
            for mut gradient in Data::views(dtype, shape, seed as u64 + 20) {
                gradient.storage.iter_mut().rev().zip(special).for_each(|(x, special)| *x = special);
                let expected = values(Op::Binary(Binary::ReluBackward), &[x.clone(), gradient.clone()]);
                let inputs = [signs.clone(), gradient.clone()];
                let found = values(Op::ReluBackwardSigns, &inputs);
                let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
                assert!(found.iter().zip(&expected).all(same), "{dtype} {shape:?}");
                if gradient.view.layout == Layout::contiguous(shape) {
                    let taken = run_on(Op::ReluBackwardSigns, &inputs, Some(1)).unwrap().swap_remove(0);
                    assert!(taken.iter().zip(&expected).all(same), "{dtype} {shape:?} in place");
                }
            }
        }
    }
}

/// Pools with windows of many sizes, and images for them.
fn pools() -> Vec<(Pool2d, [usize; 4])> {
    let pool = |kernel, stride, padding, dilation, ceil_mode| Pool2d {
        kernel,
        stride,
        padding,
        dilation,
        ceil_mode,
        count_include_pad: false,
    };
    vec![
        (pool([2, 2], [2, 2], [0, 0], [1, 1], false), [2, 3, 8, 10]),
        (pool([3, 3], [2, 2], [1, 1], [1, 1], false), [1, 2, 9, 7]),
        (pool([3, 3], [2, 2], [1, 1], [1, 1], true), [2, 1, 8, 9]),
        (pool([4, 4], [1, 3], [2, 0], [1, 1], false), [1, 2, 11, 13]),
        (pool([3, 2], [3, 2], [1, 1], [2, 3], true), [1, 3, 12, 11]),
        (pool([5, 4], [2, 2], [2, 2], [1, 1], true), [1, 1, 16, 14]),
        (pool([1, 1], [1, 1], [0, 0], [1, 1], false), [1, 2, 3, 4]),
        (pool([20, 17], [1, 1], [0, 0], [1, 1], false), [1, 1, 25, 30]),
        (pool([7, 1], [2, 1], [3, 0], [1, 1], false), [2, 2, 40, 1]),
    ]
}

#[test]
fn places_of_maxima_come_back() {
    for dtype in Dtype::INDICES {
        for (seed, (pool, sizes)) in pools().into_iter().enumerate() {
            let x = Data::new(Dtype::F32, Shape::new(&sizes), seed as u64);
            let op = Op::MaxPool2d { pool, indices: Some(dtype) };
            let indices = run_on(op, std::slice::from_ref(&x), None).unwrap().swap_remove(1);
            let pooled = pool.output_size([sizes[2], sizes[3]]);
            let encoding = Encoding::Taps(Taps { pool, width: sizes[3], pooled });
            assert_eq!(there_and_back(encoding, &row(dtype, &indices)), indices, "{pool:?}");
            let taps = Taps { pool, width: sizes[3], pooled };
            let words = row(Dtype::U32, &values(Op::Encode(encoding), &[row(dtype, &indices)]));
            let shape = Shape::new(&[sizes[0], sizes[1], pooled[0], pooled[1]]);
            let indices = Data::from(dtype, shape.dims(), &indices);
            let size = [sizes[2], sizes[3]];
            for float in Dtype::FLOATS {
                for gradient in Data::views(float, shape, seed as u64 + 7) {
                    let of_indices =
                        values(Op::MaxPool2dBackward { pool, size }, &[gradient.clone(), indices.clone()]);
                    let of_words =
                        values(Op::MaxPool2dBackwardTaps { taps, size }, &[gradient, words.clone()]);
                    assert_eq!(of_words, of_indices, "{float} {pool:?}");
                }
            }
        }
    }
}

const FORMATS: [FloatFormat; 5] =
    [FloatFormat::F16, FloatFormat::Bf16, FloatFormat::Fp10, FloatFormat::Fp8E4m3, FloatFormat::Fp8E5m2];

/// `x` as a format holds it, by arithmetic in `f64`.
fn rounded(format: FloatFormat, x: f64) -> f64 {
    let (exponent, mantissa) = format.layout();
    let bias = (1 << (exponent - 1)) - 1;
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let power = (x.abs().log2().floor() as i32).clamp(1 - bias, bias);
    // The logarithm may be off by one next to a power of two.
    let power = if x.abs() < 2f64.powi(power) && power > 1 - bias { power - 1 } else { power };
    let unit = 2f64.powi(power - mantissa as i32);
    let largest = (2.0 - 2f64.powi(-(mantissa as i32))) * 2f64.powi(bias);
    ((x / unit).round_ties_even() * unit).clamp(-largest, largest)
}

#[test]
fn halves_are_those_of_the_field() {
    let x: Vec<f64> = (0..20_000).map(|n| f64::from(f32::from_bits(n * 214_013))).collect();
    let finite: Vec<f64> = x.into_iter().filter(|x| x.is_finite() && x.abs() < 65_504.0).collect();
    let back = |format| there_and_back(Encoding::Reduced(format), &row(Dtype::F32, &finite));
    for (found, x) in back(FloatFormat::F16).into_iter().zip(&finite) {
        assert_eq!(found, f16::from_f32(*x as f32).to_f64());
    }
    for (found, x) in back(FloatFormat::Bf16).into_iter().zip(&finite) {
        assert_eq!(found, bf16::from_f32(*x as f32).to_f64());
    }
}

#[test]
fn what_a_format_holds_comes_back() {
    for format in FORMATS {
        let (count, encoding) = (1usize << format.bits(), Encoding::Reduced(format));
        let per_word = encoding.per_word().unwrap();
        let code = |n: usize| (n as u64) << (format.bits() as usize * (n % per_word));
        let words: Vec<f64> = (0..count.div_ceil(per_word))
            .map(|word| (word * per_word..count.min((word + 1) * per_word)).map(code).sum::<u64>() as f64)
            .collect();
        let decode = Op::Decode { encoding, dtype: Dtype::F32, count };
        let all = values(decode, &[row(Dtype::U32, &words)]);
        assert!(all.iter().any(|x| x.is_nan()) && all.contains(&f64::INFINITY) && all.contains(&-1.0));
        let again = there_and_back(encoding, &row(Dtype::F32, &all));
        for (code, (a, b)) in all.iter().zip(&again).enumerate() {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{format:?} {code:x}: {a} {b}");
        }
    }
}

const SCALED_FORMATS: [FloatFormat; 3] =
    [FloatFormat::Fp10Scaled, FloatFormat::Fp8E4m3Scaled, FloatFormat::Fp8E5m2Scaled];

/// The most that a value of a block may be off by, whose largest finite number is `top`.
fn off_by(format: FloatFormat, x: f64, top: f64) -> f64 {
    let (exponent, mantissa) = format.layout();
    let (bias, place) = ((1 << (exponent - 1)) - 1, 2f64.powi(-(mantissa as i32)));
    // Half a unit; a whole one where the next number up lies above the largest of the block.
    let units = if x.abs() > top * (1.0 - place) { 1.0 } else { 0.5 };
    let highest = (top.log2().floor() as i32 + 1).max(bias - 125);
    let smallest = 2f64.powi(highest + 1 - 2 * bias - mantissa as i32);
    (x.abs() * place * units).max(smallest) + f64::from(f32::from_bits(1))
}

#[test]
fn blocks_have_scales_of_their_own() {
    let x: Vec<f64> = [1e30f32, 1e-30, 3.0].iter().flat_map(|&x| vec![f64::from(x); SCALED]).collect();
    for format in SCALED_FORMATS {
        let place = 2f64.powi(-(format.layout().1 as i32));
        let back = there_and_back(Encoding::Reduced(format), &row(Dtype::F32, &x));
        assert!(back.iter().zip(&x).all(|(found, x)| (found - x).abs() <= place * x), "{format:?}");
    }
}

/// Any bits of a float.
fn floats() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(any::<u32>().prop_map(|bits| f64::from(f32::from_bits(bits))), 0..200)
}

/// Floats about as large as formats hold.
fn usual() -> impl Strategy<Value = Vec<f64>> {
    let float = (-30i32..20, 1.0..2.0f64, any::<bool>());
    let float = float.prop_map(|(power, x, minus)| {
        f64::from((x * 2f64.powi(power)) as f32) * if minus { -1.0 } else { 1.0 }
    });
    prop::collection::vec(float, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn floats_are_rounded_once_and_to_even(x in prop_oneof![floats(), usual()], format in 0..FORMATS.len()) {
        for dtype in [Dtype::F32, Dtype::F64] {
            let format = FORMATS[format];
            let back = there_and_back(Encoding::Reduced(format), &row(dtype, &x));
            for (found, &x) in back.into_iter().zip(&x) {
                let expected = rounded(format, x);
                prop_assert!(
                    found == expected || (found.is_nan() && expected.is_nan()),
                    "{format:?}: {x:e} became {found:e}, not {expected:e}"
                );
                prop_assert!(x.is_nan() || found.is_sign_negative() == x.is_sign_negative());
            }
        }
    }

    #[test]
    fn scaled_floats_are_off_by_a_part_of_their_block(
        x in prop_oneof![floats(), usual()],
        format in 0..SCALED_FORMATS.len(),
    ) {
        let format = SCALED_FORMATS[format];
        for dtype in [Dtype::F32, Dtype::F64] {
            let back = there_and_back(Encoding::Reduced(format), &row(dtype, &x));
            for (found, x) in back.chunks(SCALED).zip(x.chunks(SCALED)) {
                let top = x.iter().filter(|x| x.is_finite()).fold(0.0, |top: f64, x| top.max(x.abs()));
                for (&found, &x) in found.iter().zip(x) {
                    let is_kept = if x.is_finite() {
                        found.abs() <= top && (found - x).abs() <= off_by(format, x, top)
                    } else {
                        found == x || (found.is_nan() && x.is_nan())
                    };
                    prop_assert!(is_kept, "{format:?}: {x:e} became {found:e} beside {top:e}");
                    prop_assert!(x.is_nan() || found.is_sign_negative() == x.is_sign_negative());
                }
            }
        }
    }

    #[test]
    fn any_words_decode_to_something(words in prop::collection::vec(any::<u32>(), 1..40), less in 0usize..31) {
        // Writes beyond the output, or reads beyond the words, are seen in the word behind or by the sanitizer.
        let words: Vec<f64> = words.into_iter().map(f64::from).collect();
        let pool = pools()[2].0;
        let taps = Encoding::Taps(Taps { pool, width: 9, pooled: [5, 6] });
        let reduced = FORMATS.map(Encoding::Reduced);
        let scaled = SCALED_FORMATS.map(Encoding::Reduced);
        let others = [taps, Encoding::Bools, Encoding::Integers { bits: 4 }];
        for encoding in reduced.into_iter().chain(scaled).chain(others) {
            let fits = |&count: &usize| encoding.words(count) <= words.len();
            let most = (0..=32 * words.len()).rev().find(fits).unwrap_or(0);
            let count = most.saturating_sub(less % encoding.per_word().unwrap_or(32));
            let dtypes: &[Dtype] = match encoding {
                Encoding::Bools => &[Dtype::Bool, Dtype::Bool32],
                Encoding::Taps(_) | Encoding::Integers { .. } => &Dtype::INDICES,
                _ => &Dtype::FLOATS,
            };
            for &dtype in dtypes {
                let decoded = values(Op::Decode { encoding, dtype, count }, &[row(Dtype::U32, &words)]);
                prop_assert_eq!(decoded.len(), count);
            }
        }
    }
}
