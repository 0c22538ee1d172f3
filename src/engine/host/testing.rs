//! Memory and calls for the engine's tests.

use bytemuck::Pod;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::call::{Call, Operand};
use super::columns::Real;
use crate::engine::{Algorithm, EngineError, Span, Tier};
use crate::op::{Dtype, Layout, Op, View};

/// Floats that products and convolutions are tested in.
pub(super) trait Float: Real + Pod + Into<f64> {
    const DTYPE: Dtype;
    /// Of sums of some hundred products, relative to one more than what is expected.
    const TOLERANCE: f64;
    fn from(value: f32) -> Self;
}

impl Float for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const TOLERANCE: f64 = 3e-5;
    fn from(value: f32) -> Self {
        value
    }
}

impl Float for f64 {
    const DTYPE: Dtype = Dtype::F64;
    const TOLERANCE: f64 = 1e-12;
    fn from(value: f32) -> Self {
        value.into()
    }
}

const GUARD: u8 = 0xA5;
const GUARD_BYTES: usize = 256;

/// Bytes with guards on both sides, which a drop checks.
pub(super) struct Memory {
    words: Vec<[u8; 64]>,
    skip: usize,
    bytes: usize,
}

impl Memory {
    /// All bits set: NaN for floats.
    pub fn new(bytes: usize) -> Self {
        let words = vec![[GUARD; 64]; (bytes + 3 * GUARD_BYTES) / 64 + 1];
        let skip = words.as_ptr().align_offset(256) * 64 + GUARD_BYTES;
        let mut memory = Memory { words, skip, bytes };
        memory.get_mut().fill(0xFF);
        memory
    }

    pub fn of<T: Pod>(values: &[T]) -> Self {
        let mut memory = Memory::new(size_of_val(values));
        memory.get_mut().copy_from_slice(bytemuck::cast_slice(values));
        memory
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.skip..][..self.bytes]
    }

    pub fn values<T: Pod>(&self) -> Vec<T> {
        bytemuck::pod_collect_to_vec(&bytemuck::cast_slice::<_, u8>(&self.words)[self.skip..][..self.bytes])
    }

    pub fn span(&self) -> Span {
        Span { tier: Tier::Device, address: self.words.as_ptr() as u64 + self.skip as u64, bytes: self.bytes }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let all = bytemuck::cast_slice::<_, u8>(&self.words);
            let guards = all[..self.skip].iter().chain(&all[self.skip + self.bytes..]);
            assert!(guards.into_iter().all(|&byte| byte == GUARD), "written beyond its end");
        }
    }
}

/// A call on values of its own, with guarded scratch and output.
pub(super) struct Fixture {
    pub call: Call,
    inputs: Vec<Memory>,
    output: Memory,
    scratch: Memory,
}

impl Fixture {
    pub fn new<T: Pod>(
        op: Op,
        algorithm: Algorithm,
        inputs: &[(Vec<T>, View)],
        scratch_bytes: impl Fn(&[View]) -> usize,
    ) -> Self {
        let views: Vec<View> = inputs.iter().map(|(_, view)| *view).collect();
        let made = op.outputs(&views)[0];
        let memories: Vec<Memory> = inputs.iter().map(|(values, _)| Memory::of(values)).collect();
        let (output, scratch) = (Memory::new(made.size_bytes()), Memory::new(scratch_bytes(&views)));
        let operand = |memory: &Memory, view| Operand { span: memory.span(), view };
        let operands: crate::op::Inputs<_> =
            memories.iter().zip(views).map(|(memory, view)| operand(memory, view)).collect();
        let call = Call {
            op,
            algorithm,
            inputs: operands,
            outputs: [operand(&output, made)].into_iter().collect(),
            scratch: scratch.span(),
        };
        Fixture { call, inputs: memories, output, scratch }
    }

    /// What the output is after `run`.
    pub fn run<T: Pod>(self, run: impl FnOnce(&Call) -> Result<(), EngineError>) -> Vec<T> {
        run(&self.call).expect("the call runs");
        let _keep = (&self.inputs, &self.scratch);
        self.output.values()
    }
}

pub(super) fn floats(count: usize, seed: u64) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// The elements of a view, row-major.
pub(super) fn elements<T: Copy>(values: &[T], layout: &Layout) -> Vec<T> {
    let (shape, strides) = (layout.shape().dims(), layout.strides());
    (0..layout.shape().count())
        .map(|mut index| {
            let mut at = layout.offset() as isize;
            for axis in (0..shape.len()).rev() {
                at += (index % shape[axis]) as isize * strides[axis];
                index /= shape[axis];
            }
            values[at as usize]
        })
        .collect()
}

/// Runs `body` in pools of one, two and four threads, and asserts that it gives the same bits; returns them.
pub(super) fn in_pools<T: Pod + Send>(body: impl Fn() -> Vec<T> + Sync) -> Vec<T> {
    let mut results = [1, 2, 4].into_iter().map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads can be started").install(&body)
    });
    let first = results.next().unwrap_or_default();
    for other in results {
        let same = bytemuck::cast_slice::<T, u8>(&first) == bytemuck::cast_slice::<T, u8>(&other);
        assert!(same, "the number of threads changed the result");
    }
    first
}

pub(super) fn assert_near<T: Copy + Into<f64>>(got: &[T], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}: number of elements");
    for (index, (&got, &wanted)) in got.iter().zip(wanted).enumerate() {
        let got = got.into();
        let difference = (got - wanted).abs();
        assert!(
            difference <= tolerance * (1.0 + wanted.abs()),
            "{what}: element {index} is {got}, not {wanted}"
        );
    }
}
