//! What an instruction is lowered to, once: its launches differ in addresses alone.

use std::sync::atomic::AtomicI64;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::call::out_of_range;
use super::kernels::{self, Kernel};
use crate::engine::{EngineError, Instruction, Launch, Span};
use crate::op::lower::{Calls, KernelCall, NO_FAULT, Placed};
use crate::op::{Inputs, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, PerOutput, View};

/// The most addresses of a launch: of inputs, outputs, workspace, and the word for a fault.
const MOST_ADDRESSES: usize = MAX_FUSED_INPUTS + MAX_FUSED_OUTPUTS + 2;

/// How far apart everything seems to lie when an instruction is lowered.
const APART: u64 = 1 << 40;

/// Enough for any kernel's arguments.
type Words = SmallVec<[u64; 192]>;

/// The kernels of an instruction, one after the other.
#[derive(Debug)]
pub(super) struct Lowered(Box<[LoweredKernel]>);

/// A kernel and its arguments, as if everything lay at zero.
#[derive(Debug)]
struct LoweredKernel {
    kernel: Kernel,
    blocks: u32,
    words: Box<[u64]>,
    /// Which words are addresses, and which address each is.
    addresses: Box<[(usize, usize)]>,
}

impl Lowered {
    /// `None` if the op has no kernels of its own. Arguments that are addresses are those that differ once everything lies
    /// elsewhere.
    fn new(instruction: &Instruction, in_place: bool) -> Option<Self> {
        let [here, there] =
            [APART, 2 * APART].map(|apart| lower(instruction, in_place, |place| address(place, apart)));
        let calls = here?.into_iter().zip(there?);
        Some(Lowered(calls.map(|(here, there)| LoweredKernel::new(&here, &there)).collect()))
    }
}

impl LoweredKernel {
    fn new(here: &KernelCall, there: &KernelCall) -> Self {
        let [mut words, others] = [here, there].map(|call| Box::<[u64]>::from(call.args.words()));
        let moved = (0..words.len()).filter(|&word| words[word] != others[word]);
        let addresses: Box<[_]> =
            moved.map(|word| (word, (others[word].wrapping_sub(words[word]) / APART) as usize - 1)).collect();
        for &(word, place) in &addresses {
            words[word] = words[word].wrapping_sub(address(place, APART));
        }
        LoweredKernel { kernel: kernels::lowered(&here.name), blocks: here.blocks, words, addresses }
    }

    /// The arguments where everything is at these addresses.
    fn arguments(&self, addresses: &[u64]) -> Words {
        let mut words = Words::from_slice(&self.words);
        for &(word, place) in &self.addresses {
            words[word] = words[word].wrapping_add(addresses[place]);
        }
        words
    }

    /// # Safety
    /// As for [`Kernel::run`], of the arguments with these addresses.
    unsafe fn run(&self, addresses: &[u64]) {
        let words = self.arguments(addresses);
        // SAFETY: the caller upholds it.
        unsafe { kernels::run_blocks(&self.kernel, bytemuck::cast_slice(&words), self.blocks) };
    }
}

fn address(place: usize, apart: u64) -> u64 {
    (place as u64 + 1) * apart
}

/// The kernel calls of an instruction whose operands lie at these addresses.
fn lower(instruction: &Instruction, in_place: bool, address: impl Fn(usize) -> u64) -> Option<Calls> {
    let Instruction { op, views, outputs, .. } = instruction;
    let (inputs, made) = (views.len(), outputs.len());
    let placed = |place: usize, view: &View| Placed { address: address(place), view: *view };
    let inputs_placed: Inputs<Placed> = (0..).zip(views).map(|(at, view)| placed(at, view)).collect();
    let output = |(at, view)| placed(if in_place && at == 0 { 0 } else { inputs + at }, view);
    let outputs_placed: PerOutput<Placed> = (0..).zip(outputs).map(output).collect();
    let [scratch, fault] = [0, 1].map(|at| address(inputs + made + at));
    kernels::lower(op, &inputs_placed, &outputs_placed, [scratch, fault])
}

/// Whether the first output lies where the first input does, which an op may be lowered by.
fn in_place(launch: &Launch) -> bool {
    let first = |spans: &[Span]| spans.first().map(|span| span.address);
    first(&launch.inputs) == first(&launch.outputs)
}

/// Computes a launch on the calling thread and, where there is enough work, on rayon's. Convolutions and products are not here.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch), until this returns.
pub(super) unsafe fn run(launch: &Launch) -> Result<(), EngineError> {
    let (instruction, in_place) = (&*launch.instruction, in_place(launch));
    let error = |reason: String| EngineError::Kernel { op: instruction.op.name(), reason };
    let kept = instruction.lowered[usize::from(in_place)].get(|| Lowered::new(instruction, in_place));
    let lowered: &Lowered = kept.ok_or_else(|| error("has no kernel of its own".into()))?;
    let fault = AtomicI64::new(NO_FAULT);
    let spans = launch.inputs.iter().chain(&launch.outputs).chain([&launch.scratch]);
    let addresses: ArrayVec<u64, MOST_ADDRESSES> =
        spans.map(|span| span.address).chain([fault.as_ptr() as u64]).collect();
    // SAFETY: lowering made the arguments for these kernels (a test compares the structs), from spans that the caller vouches
    // for, and from `fault`, which outlives the calls.
    lowered.0.iter().for_each(|kernel| unsafe { kernel.run(&addresses) });
    match fault.into_inner() {
        NO_FAULT => Ok(()),
        index => Err(out_of_range(&instruction.op, &instruction.views, index)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostEngine, HostOptions, LaneMode};
    use super::*;
    use crate::engine::Algorithm;
    use crate::op::{
        Binary, Dtype, Layout, MAX_RANK, MAX_SCALARS, Op, Program, Reduce, Scalar, Shape, Source, Step,
        StepKind, Unary,
    };

    fn ops() -> Vec<(Op, Vec<View>)> {
        let view = |dtype, dims: &[usize]| View::contiguous(dtype, Shape::new(dims));
        let matrix = view(Dtype::F32, &[24, 40]);
        let part = View { layout: matrix.layout.slice(1, 3, 20, 1), ..matrix };
        let column = View { layout: Layout::contiguous(Shape::new(&[40])).expand(*matrix.shape()), ..matrix };
        let product =
            Step { kind: StepKind::Binary(Binary::Mul), sources: [Source::Input(0), Source::Input(1)] };
        let scaled =
            Step { kind: StepKind::Binary(Binary::Add), sources: [Source::Step(0), Source::Scalar(0)] };
        // Of values that look like addresses.
        let scalars = [3 << 40; MAX_SCALARS];
        let program = Program::new(&[product, scaled], &[0, 1], None);
        let row = view(Dtype::F32, &[1, 200_000]);
        vec![
            (Op::Unary(Unary::Exp), vec![matrix]),
            (Op::BinaryScalar(Binary::Add, Scalar::from(2.0)), vec![part]),
            (Op::Fused { program, scalars }, vec![matrix, column]),
            (Op::Copy { dtype: Dtype::F32 }, vec![View { layout: matrix.layout.permute(&[1, 0]), ..matrix }]),
            (Op::Reduce { kind: Reduce::Sum, axis: 1 }, vec![row]),
            (Op::Select { axis: 0 }, vec![matrix, view(Dtype::I32, &[7])]),
            (Op::SliceAssign { starts: [0; MAX_RANK], steps: [1; MAX_RANK] }, vec![matrix, part]),
        ]
    }

    #[test]
    fn at_any_addresses_it_is_what_is_lowered_there() {
        let engine =
            HostEngine::new(HostOptions { mode: LaneMode::Deferred { seed: 0 }, ..HostOptions::default() });
        for (op, views) in ops() {
            let instruction = Instruction::new(&engine, op, Algorithm::default(), &views);
            for in_place in [false, true] {
                let lowered = Lowered::new(&instruction, in_place).expect("it has kernels");
                let mut addresses: Vec<u64> =
                    (0..16).map(|place| 0x7f3a_0123_4000 - 0x9100 * place).collect();
                if in_place {
                    addresses[views.len()] = addresses[0];
                }
                let there = lower(&instruction, in_place, |place| addresses[place]).expect("as above");
                let own = lowered.0.iter().map(|kernel| kernel.arguments(&addresses).to_vec());
                let expected: Vec<_> = there.iter().map(|call| call.args.words().to_vec()).collect();
                assert_eq!(own.collect::<Vec<_>>(), expected, "{op:?}");
            }
        }
    }
}
