//! Sparse forms: the same bits come back whatever there is room for, and any form decodes to something.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::engine::{Algorithm, Span, Tier};

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

    fn operand(&mut self, view: View) -> Operand {
        let span = Span { tier: Tier::Host, address: self.words.as_mut_ptr() as u64, bytes: self.bytes };
        Operand { span, view }
    }
}

/// Runs an op on two inputs; its output, if it has one.
fn run_op(op: Op, views: [View; 2], inputs: [&mut Memory; 2]) -> Memory {
    let made = op.outputs(&views);
    let mut out = Memory::new(made.first().map_or(0, View::size_bytes));
    let mut scratch = Memory::new(lower::scratch_bytes(&op, &views, &made));
    let call = Call {
        op,
        algorithm: Algorithm::default(),
        inputs: inputs.into_iter().zip(views).map(|(memory, view)| memory.operand(view)).collect(),
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

fn encode(sparse: Sparse, dtype: Dtype, x: &[u8]) -> (Memory, Memory) {
    let count = x.len() / dtype.size_bytes();
    let encoding = Encoding::Sparse(sparse);
    let beside = encoding.beside(dtype, count).expect("there may be");
    let mut rest = Memory::new(beside.size_bytes());
    let form = run_op(Op::Encode(encoding), [flat(dtype, count), beside], [&mut Memory::of(x), &mut rest]);
    assert_eq!(form.bytes().len(), encoding.size_bytes(count));
    rest.bytes();
    (form, rest)
}

fn decode(sparse: Sparse, dtype: Dtype, count: usize, form: &mut Memory, rest: &mut Memory) -> Memory {
    let encoding = Encoding::Sparse(sparse);
    let views =
        [flat(Dtype::U32, encoding.words(count)), encoding.beside(dtype, count).expect("there may be")];
    run_op(Op::Decode { encoding, dtype, count }, views, [form, rest])
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

fn nonzeros(dtype: Dtype, x: &[u8]) -> usize {
    x.chunks(dtype.size_bytes()).filter(|value| value.iter().any(|&byte| byte != 0)).count()
}

#[test]
fn the_same_bits_come_back_whatever_there_is_room_for() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for dtype in Dtype::FLOATS {
        for count in [0, 1, 255, 256, 257, 5000, 100_003] {
            for density in [0.0, 0.05, 0.5, 1.0] {
                let x = values(dtype, count, density, &mut random);
                for per_row in [1, 20, 32, 100, 256] {
                    let sparse = Sparse { per_row, width: dtype.size_bytes() as u8 };
                    let (mut form, mut rest) = encode(sparse, dtype, &x);
                    let back = decode(sparse, dtype, count, &mut form, &mut rest);
                    assert!(back.bytes() == x, "{dtype} {count} {density} {per_row}");
                }
            }
        }
    }
}

#[test]
fn what_has_room_is_not_kept_beside() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let (dtype, count) = (Dtype::F32, 100_003);
    for density in [0.05, 0.4] {
        let x = values(dtype, count, density, &mut random);
        let sparse = Sparse::with_room_for(nonzeros(dtype, &x), count, dtype.size_bytes());
        let (_, rest) = encode(sparse, dtype, &x);
        assert!(rest.bytes().iter().all(|&byte| byte == 0xab), "{density}");
    }
}

#[test]
fn what_is_not_zero_is_counted() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for dtype in Dtype::FLOATS {
        for count in [0, 1, 256, 100_003] {
            let x = values(dtype, count, 0.3, &mut random);
            let mut word = Memory::new(4);
            run_op(Op::Tally, [flat(dtype, count), flat(Dtype::U32, 1)], [&mut Memory::of(&x), &mut word]);
            let counted = u32::from_ne_bytes(word.bytes().try_into().unwrap());
            assert_eq!(counted as usize, nonzeros(dtype, &x));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_form_decodes_to_something(
        seed in any::<u64>(),
        count in 0usize..3000,
        per_row in 1u16..=256,
        spoilt in 0.0..1.0f64,
        dtype in 0..Dtype::FLOATS.len(),
    ) {
        let dtype = Dtype::FLOATS[dtype];
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let x = values(dtype, count, 0.3, &mut random);
        let sparse = Sparse { per_row, width: dtype.size_bytes() as u8 };
        let (form, mut rest) = encode(sparse, dtype, &x);
        let mut bytes = form.bytes().to_vec();
        for byte in &mut bytes {
            if random.random_bool(spoilt) {
                *byte = random.random();
            }
        }
        decode(sparse, dtype, count, &mut Memory::of(&bytes), &mut rest).bytes();
    }
}
