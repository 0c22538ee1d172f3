//! The lowered form of an instruction, made once: its launches differ only in addresses.

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::{Instruction, Launch, Span};
use crate::op::lower::{Calls, KernelCall, Placed};
use crate::op::{Inputs, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, Op, PerOutput, View};

/// The most addresses of a launch: inputs, outputs, workspace, and the word for a fault.
const MAX_ADDRESSES: usize = MAX_FUSED_INPUTS + MAX_FUSED_OUTPUTS + 2;

/// The distance between the assumed addresses with which an instruction is lowered.
const APART: u64 = 1 << 40;

/// Enough for any kernel's arguments.
pub(super) type Words = SmallVec<[u64; 216]>;

/// An engine's function that lowers an op. The last two addresses are those of the workspace and of the word for a
/// fault.
pub(super) type Lower<'a> = &'a dyn Fn(&Op, &[Placed], &[Placed], [u64; 2]) -> Option<Calls>;

/// The kernels of an instruction, in order; `K` is an engine's data about a kernel.
#[derive(Debug)]
pub(super) struct Lowered<K>(Box<[LoweredKernel<K>]>);

/// A kernel and its arguments, in which every address is relative to zero.
#[derive(Debug)]
pub(super) struct LoweredKernel<K> {
    pub kernel: K,
    pub blocks: u32,
    words: Box<[u64]>,
    /// The words that are addresses, and which address each is.
    addresses: Box<[(usize, usize)]>,
}

impl<K> Lowered<K> {
    /// Lowers an instruction; `None` if the op has no kernels of its own. Arguments that are addresses are found by
    /// lowering twice with different addresses. `in_place` states that the first output lies where the first input
    /// does, since the lowering of some ops depends on it.
    pub fn new(
        instruction: &Instruction,
        in_place: bool,
        lower: Lower,
        kernel: impl Fn(&KernelCall) -> K,
    ) -> Option<Self> {
        let [here, there] = [APART, 2 * APART]
            .map(|apart| calls(instruction, in_place, lower, |place| address(place, apart)));
        let both = here?.into_iter().zip(there?);
        let kernels = both.map(|(here, there)| LoweredKernel::new(kernel(&here), &here, &there));
        Some(Lowered(kernels.collect()))
    }

    pub fn kernels(&self) -> &[LoweredKernel<K>] {
        &self.0
    }
}

impl<K> LoweredKernel<K> {
    fn new(kernel: K, here: &KernelCall, there: &KernelCall) -> Self {
        let [mut words, others] = [here, there].map(|call| Box::<[u64]>::from(call.args.words()));
        let moved = (0..words.len()).filter(|&word| words[word] != others[word]);
        let addresses: Box<[_]> =
            moved.map(|word| (word, (others[word].wrapping_sub(words[word]) / APART) as usize - 1)).collect();
        for &(word, place) in &addresses {
            words[word] = words[word].wrapping_sub(address(place, APART));
        }
        LoweredKernel { kernel, blocks: here.blocks, words, addresses }
    }

    /// The arguments for these [addresses].
    pub fn arguments(&self, addresses: &[u64]) -> Words {
        let mut words = Words::from_slice(&self.words);
        for &(word, place) in &self.addresses {
            words[word] = words[word].wrapping_add(addresses[place]);
        }
        words
    }
}

fn address(place: usize, apart: u64) -> u64 {
    (place as u64 + 1) * apart
}

/// The kernel calls of an instruction whose operands lie at these addresses.
pub(super) fn calls(
    instruction: &Instruction,
    in_place: bool,
    lower: Lower,
    address: impl Fn(usize) -> u64,
) -> Option<Calls> {
    let Instruction { op, views, outputs, .. } = instruction;
    let (inputs, made) = (views.len(), outputs.len());
    let placed = |place: usize, view: &View| Placed { address: address(place), view: *view };
    let inputs_placed: Inputs<Placed> = (0..).zip(views).map(|(at, view)| placed(at, view)).collect();
    let output = |(at, view)| placed(if in_place && at == 0 { 0 } else { inputs + at }, view);
    let outputs_placed: PerOutput<Placed> = (0..).zip(outputs).map(output).collect();
    let [scratch, fault] = [0, 1].map(|at| address(inputs + made + at));
    lower(op, &inputs_placed, &outputs_placed, [scratch, fault])
}

/// Whether the first output lies where the first input does.
pub(super) fn is_in_place(launch: &Launch) -> bool {
    let first = |spans: &[Span]| spans.first().map(|span| span.address);
    first(&launch.inputs) == first(&launch.outputs)
}

/// The addresses of a launch, that of the word for a fault last.
pub(super) fn addresses(launch: &Launch, fault: u64) -> ArrayVec<u64, MAX_ADDRESSES> {
    let spans = launch.inputs.iter().chain(&launch.outputs).chain([&launch.scratch]);
    spans.map(|span| span.address).chain([fault]).collect()
}
