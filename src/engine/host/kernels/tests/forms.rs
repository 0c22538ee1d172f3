//! Forms that are counted: the same bits come back whatever there is room for. And of any form, a part decodes as the whole does, to
//! something.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::engine::{Algorithm, Span, Tier};
use crate::op::{FloatFormat, Planes, Pool2d, ROW, Sparse, Tally, Taps};

const GUARD: u64 = 0xabab_abab_abab_abab;

/// Bytes on an 8-byte boundary, with a guard behind them.
#[derive(Clone)]
struct Memory {
    words: Vec<u64>,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Memory { words: vec![GUARD; bytes.div_ceil(8) + 1], bytes }
    }

    fn of(bytes: &[u8]) -> Self {
        let mut memory = Memory::new(bytes.len());
        bytemuck::cast_slice_mut(&mut memory.words)[..bytes.len()].copy_from_slice(bytes);
        memory
    }

    fn bytes(&self) -> &[u8] {
        let (bytes, guard) = bytemuck::cast_slice(&self.words).split_at(self.bytes);
        assert!(guard.iter().all(|&byte| byte == 0xab), "written beyond its end");
        bytes
    }

    fn address(&mut self) -> u64 {
        self.words.as_mut_ptr() as u64
    }

    fn operand(&mut self, view: View) -> Operand {
        let span = Span { tier: Tier::Host, address: self.address(), bytes: self.bytes };
        Operand { span, view }
    }
}

/// Runs an op on as many inputs as there are views; its output, if it has one.
fn run_op<const N: usize>(op: Op, views: &[View], inputs: [&mut Memory; N]) -> Memory {
    let made = op.outputs(views);
    let mut out = Memory::new(made.first().map_or(0, View::size_bytes));
    let mut scratch = Memory::new(lower::scratch_bytes(&op, views, &made));
    let call = Call {
        op,
        algorithm: Algorithm::default(),
        inputs: inputs.into_iter().zip(views).map(|(memory, &view)| memory.operand(view)).collect(),
        outputs: made.iter().map(|&view| out.operand(view)).collect(),
        scratch: scratch.operand(views[0]).span,
    };
    // SAFETY: every span is a memory above, as large as its view needs and alive until after the run.
    unsafe { run(&call) }.expect("the op runs");
    scratch.bytes();
    out
}

fn flat(dtype: Dtype, count: usize) -> View {
    View::contiguous(dtype, Shape::new(&[count]))
}

fn encode(encoding: Encoding, dtype: Dtype, x: &[u8]) -> (Memory, Memory) {
    let count = x.len() / dtype.size_bytes();
    let overflow = encoding.overflow(dtype, count);
    let mut rest = Memory::new(overflow.map_or(0, |view| view.size_bytes()));
    let views: Vec<View> = [flat(dtype, count)].into_iter().chain(overflow).collect();
    let form = run_op(Op::Encode(encoding), &views, [&mut Memory::of(x), &mut rest]);
    assert_eq!(form.bytes().len(), encoding.size_bytes(count));
    rest.bytes();
    (form, rest)
}

fn decode(encoding: Encoding, dtype: Dtype, count: usize, form: &mut Memory, rest: &mut Memory) -> Memory {
    let words = flat(Dtype::U32, encoding.words(count));
    let views: Vec<View> = [words].into_iter().chain(encoding.overflow(dtype, count)).collect();
    run_op(Op::Decode { encoding, dtype, count }, &views, [form, rest])
}

/// Some neighbours, as a convolution's gradient decodes them.
fn decode_some(
    (encoding, dtype, count): (Encoding, Dtype, usize),
    some: &std::ops::Range<usize>,
    [form, rest]: [&mut Memory; 2],
) -> Vec<u8> {
    let width = dtype.size_bytes();
    let mut out = Memory::new(width * lower::decoded_count(encoding, some.len()));
    let addresses = [out.address(), form.address(), rest.address()];
    for call in lower::decode_some(encoding, dtype, count, some, addresses) {
        // SAFETY: the memories above are as large as the form of so many values and that many decoded ones.
        unsafe { run_alone(&call) };
    }
    let first = width * lower::decoded_at(encoding, some.start);
    form.bytes();
    rest.bytes();
    out.bytes()[first..][..width * some.len()].to_vec()
}

/// Any bits, most of them zero in runs of their own density.
fn values(dtype: Dtype, count: usize, density: f64, random: &mut ChaCha8Rng) -> Vec<u8> {
    let width = dtype.size_bytes();
    let mut bytes = vec![0; count * width];
    for run in bytes.chunks_mut(1000 * width) {
        let density = density * random.random_range(0.0..2.0);
        for value in run.chunks_mut(width) {
            if random.random_bool(density.min(1.0)) {
                value.iter_mut().for_each(|byte| *byte = random.random());
            }
        }
    }
    bytes
}

/// Neighbours that are near to each other, as integers are or as floats are, and sometimes anything.
fn alike(dtype: Dtype, count: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let bits = 8 * dtype.size_bytes() as u32;
    let mask = u64::MAX >> (64 - bits);
    let (mut around, mut spread) = (0u64, 0);
    let value = |k: usize| {
        if k.is_multiple_of(300) {
            (around, spread) = (random.random(), random.random_range(0..=bits));
        }
        let off = if spread == 0 { 0 } else { random.random::<u64>() >> (64 - spread) };
        let near = around.wrapping_add(off) & mask;
        if dtype.is_float() { (near >> 1 | near << (bits - 1)) & mask } else { near }
    };
    let bytes = |value: u64| value.to_le_bytes().into_iter().take(bits as usize / 8);
    (0..count).map(value).flat_map(bytes).collect()
}

fn nonzeros(dtype: Dtype, x: &[u8]) -> usize {
    x.chunks(dtype.size_bytes()).filter(|value| value.iter().any(|&byte| byte != 0)).count()
}

/// As numbers of which those that are near to each other in value are so too.
fn in_order(dtype: Dtype, x: &[u8]) -> Vec<u64> {
    let bits = 8 * dtype.size_bytes() as u32;
    let mask = u64::MAX >> (64 - bits);
    x.chunks(dtype.size_bytes())
        .map(|value| value.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
        .map(
            |value| if dtype.is_float() { value << 1 | value >> (bits - 1) } else { value ^ 1 << (bits - 1) },
        )
        .map(|value| value & mask)
        .collect()
}

/// What the planes of all rows take: for each byte, the bits of the largest.
fn units(dtype: Dtype, x: &[u8]) -> usize {
    let row = |row: &[u64]| {
        let least = row.iter().min().expect("a row has values");
        let plane = |plane: usize| row.iter().map(|value| ((value - least) >> (8 * plane)) as u8).max();
        let bits = |most: u8| (u8::BITS - most.leading_zeros()) as usize;
        (0..dtype.size_bytes()).filter_map(plane).map(bits).sum::<usize>()
    };
    in_order(dtype, x).chunks(ROW).map(row).sum()
}

fn numbers() -> impl Iterator<Item = Dtype> {
    Dtype::FLOATS.into_iter().chain(Dtype::INTEGERS)
}

const COUNTS: [usize; 7] = [0, 1, 255, 256, 257, 5000, 100_003];

#[test]
fn the_same_bits_come_back_whatever_there_is_room_for() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for dtype in Dtype::FLOATS {
        for count in COUNTS {
            for density in [0.0, 0.05, 0.5, 1.0] {
                let x = values(dtype, count, density, &mut random);
                for per_row in [1, 20, 32, 100, 256] {
                    let encoding = Encoding::Sparse(Sparse { per_row, width: dtype.size_bytes() as u8 });
                    let (mut form, mut rest) = encode(encoding, dtype, &x);
                    let back = decode(encoding, dtype, count, &mut form, &mut rest);
                    assert!(back.bytes() == x, "{dtype} {count} {density} {per_row}");
                }
            }
        }
    }
}

#[test]
fn the_same_bits_come_back_of_planes_whatever_there_is_room_for() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for dtype in numbers() {
        for count in COUNTS {
            for x in [alike(dtype, count, &mut random), values(dtype, count, 0.5, &mut random)] {
                let width = dtype.size_bytes() as u8;
                let fitting = Planes::with_room_for(units(dtype, &x), count, dtype.size_bytes());
                let others = [1, 300, 1024 * u16::from(width)].map(|per_piece| Planes { per_piece, width });
                for planes in [fitting].into_iter().chain(others) {
                    let (mut form, mut rest) = encode(Encoding::Planes(planes), dtype, &x);
                    let back = decode(Encoding::Planes(planes), dtype, count, &mut form, &mut rest);
                    assert!(back.bytes() == x, "{dtype} {count} {planes:?}");
                }
            }
        }
    }
}

#[test]
fn what_has_room_is_not_kept_beside() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let (dtype, count) = (Dtype::F32, 100_003);
    let is_unused = |rest: &Memory| rest.bytes().iter().all(|&byte| byte == 0xab);
    for density in [0.05, 0.4] {
        let x = values(dtype, count, density, &mut random);
        let sparse = Sparse::with_room_for(nonzeros(dtype, &x), count, dtype.size_bytes());
        assert!(is_unused(&encode(Encoding::Sparse(sparse), dtype, &x).1), "{density}");
    }
    for dtype in numbers() {
        let x = alike(dtype, count, &mut random);
        let planes = Planes::with_room_for(units(dtype, &x), count, dtype.size_bytes());
        assert!(is_unused(&encode(Encoding::Planes(planes), dtype, &x).1), "{dtype}");
    }
}

#[test]
fn normal_floats_lose_some_bits_of_their_exponents() {
    let x: Vec<f32> = (0..ROW * 64).map(|k| ((k as f32 * 0.71).sin() + 1.5) * (k % 7) as f32 - 4.0).collect();
    let taken = units(Dtype::F32, bytemuck::cast_slice(&x)) as f64 / 64.0;
    assert!((26.0..29.0).contains(&taken), "{taken} of 32 units");
    let tokens: Vec<i64> = (0..ROW as i64 * 64).map(|k| k * k % 50_000 - 100).collect();
    assert_eq!(units(Dtype::I64, bytemuck::cast_slice(&tokens)), 64 * 16);
}

#[test]
fn counts_are_what_forms_take() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for count in [0, 1, 256, 100_003] {
        let tally = |tally, dtype, x: &[u8]| {
            let (mut word, views) = (Memory::new(4), [flat(dtype, count), flat(Dtype::U32, 1)]);
            run_op(Op::Tally(tally), &views, [&mut Memory::of(x), &mut word]);
            u32::from_ne_bytes(word.bytes().try_into().unwrap()) as usize
        };
        for dtype in Dtype::FLOATS {
            let x = values(dtype, count, 0.3, &mut random);
            assert_eq!(tally(Tally::Nonzeros, dtype, &x), nonzeros(dtype, &x));
        }
        for dtype in numbers() {
            let x = alike(dtype, count, &mut random);
            assert_eq!(tally(Tally::Units, dtype, &x), units(dtype, &x), "{dtype} {count}");
        }
    }
}

/// An encoding that takes a type, of any kind of which values can come back.
fn encodings(dtype: Dtype, room: u16) -> Vec<Encoding> {
    let width = dtype.size_bytes();
    let planes = Encoding::Planes(Planes { per_piece: room.min(1024 * width as u16), width: width as u8 });
    let sparse = Encoding::Sparse(Sparse { per_row: room.min(ROW as u16), width: width as u8 });
    let reduced = FloatFormat::ALL.iter().map(|&format| Encoding::Reduced(format));
    let integers = [4, 16].map(|bits| Encoding::Integers { bits });
    let all = [planes, sparse, Encoding::Bools].into_iter().chain(reduced).chain(integers);
    all.filter(|encoding| encoding.takes(dtype)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_bits_come_back_of_planes(
        x in prop::collection::vec(any::<u64>(), 0..400),
        alike in any::<u64>(),
        per_piece in 1u16..8192,
    ) {
        // The bits that are set in `alike` are those of the first value.
        let x: Vec<u64> = x.iter().map(|value| (value & !alike) | (x[0] & alike)).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&x);
        for dtype in numbers() {
            let width = dtype.size_bytes();
            let planes = Planes { per_piece: per_piece.min(1024 * width as u16), width: width as u8 };
            let (mut form, mut rest) = encode(Encoding::Planes(planes), dtype, bytes);
            let back = decode(Encoding::Planes(planes), dtype, bytes.len() / width, &mut form, &mut rest);
            prop_assert!(back.bytes() == bytes, "{dtype} {planes:?}");
        }
    }

    #[test]
    fn any_form_decodes_to_something_and_its_parts_to_the_same(
        seed in any::<u64>(),
        count in 0usize..3000,
        room in prop_oneof![1u16..=256, 1u16..8192],
        spoilt in prop_oneof![Just(0.0), 0.0..1.0f64],
        dtype in 0..Dtype::ALL.len(),
        part in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let dtype = Dtype::ALL[dtype];
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut x = values(dtype, count, 0.3, &mut random);
        if dtype.is_bool() {
            x.iter_mut().for_each(|byte| *byte = 0);
        }
        for encoding in encodings(dtype, room) {
            let (form, mut rest) = encode(encoding, dtype, &x);
            let mut bytes = form.bytes().to_vec();
            for byte in &mut bytes {
                if random.random_bool(spoilt) {
                    *byte = random.random();
                }
            }
            let mut form = Memory::of(&bytes);
            let whole = decode(encoding, dtype, count, &mut form, &mut rest);
            let (one, other) = ((part.0 * count as f64) as usize, (part.1 * count as f64) as usize);
            let some = one.min(other)..one.max(other);
            let found = decode_some((encoding, dtype, count), &some, [&mut form, &mut rest]);
            let width = dtype.size_bytes();
            let expected = &whole.bytes()[width * some.start..width * some.end];
            prop_assert!(found == expected, "{encoding:?} {dtype} {some:?} of {count}");
        }
    }

    #[test]
    fn any_places_in_windows_stay_within_their_plane(
        seed in any::<u64>(),
        kernel in prop::array::uniform2(1usize..5),
        stride in prop::array::uniform2(1usize..4),
        padding in prop::array::uniform2(0usize..3),
        dilation in prop::array::uniform2(1usize..3),
        size in prop::array::uniform2(1usize..14),
        ceil_mode in any::<bool>(),
    ) {
        let pool = Pool2d { kernel, stride, padding, dilation, ceil_mode, count_include_pad: false };
        let pooled = pool.output_size(size);
        prop_assume!(pooled.iter().all(|&side| side > 0));
        let (taps, shape) = (Taps { pool, width: size[1], pooled }, Shape::new(&[2, 3, pooled[0], pooled[1]]));
        let (encoding, count) = (Encoding::Taps(taps), shape.count());
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let anything = (0..encoding.size_bytes(count)).map(|_| random.random()).collect::<Vec<u8>>();
        let mut words = Memory::of(&anything);
        let sent: Vec<f32> = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
        let mut gradient = Memory::of(bytemuck::cast_slice(&sent));
        let view = |dtype| View::contiguous(dtype, shape);
        let mut indices = decode(encoding, Dtype::I32, count, &mut words, &mut Memory::new(0));
        let of_words = [view(Dtype::F32), flat(Dtype::U32, encoding.words(count))];
        let by_places =
            run_op(Op::MaxPool2dBackwardTaps { taps, size }, &of_words, [&mut gradient, &mut words]);
        let of_indices = [view(Dtype::F32), view(Dtype::I32)];
        let by_indices =
            run_op(Op::MaxPool2dBackward { pool, size }, &of_indices, [&mut gradient, &mut indices]);
        prop_assert!(by_places.bytes() == by_indices.bytes(), "{taps:?}");
    }
}
