//! Predicts the times of this crate's CUDA kernels from their machine code. A kernel takes the time of its memory
//! traffic or of its instructions, whichever is more, on as many multiprocessors as it has blocks for.
//!
//! The instructions of an element were read off the SASS that NVRTC 13.0 makes for sm_90; the rates are a device's
//! published ones, and what is commonly reached of them. ARCHITECTURE.md says how near an H100 is.
//! The CUDA engine and dry runs on `h100`, `h200` and `rtx4090` are priced by it; replays, bounds and older devices go by the
//! roofline, and [`Props::pricing`](super::Props::pricing) states which.

use serde::{Deserialize, Serialize};

use super::ALIGN_BYTES;
use crate::op::lower::{self, KernelCall, Placed, Request, generated, gpu};
use crate::op::{Binary, Dtype, Inputs, Layout, Op, PerOutput, Program, StepKind, Unary, View};

/// A GPU's rates for this crate's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRates {
    /// The most bytes of device memory that a kernel reads and writes per second.
    pub memory_bytes_per_second: f64,
    /// The most instructions of single threads that are issued per second.
    pub instructions_per_second: f64,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
}

/// The fraction of the vendor's memory bandwidth that a copying kernel reaches: 2.9 of 3.35 TB/s on an H100.
const REACHED_OF_MEMORY: f64 = 0.87;
/// The fraction of issue slots that are used, since threads wait for memory.
const REACHED_OF_ISSUE: f64 = 0.7;
/// Threads whose instructions a multiprocessor issues in a cycle.
const LANES: f64 = 128.0;
/// Blocks of a multiprocessor that hide each other's waits.
const BLOCKS: f64 = 4.0;

impl KernelRates {
    /// The rates of a device, from the vendor's memory bandwidth, the number of multiprocessors, and their clock.
    pub fn of(memory_bytes_per_second: f64, multiprocessors: u32, clock_hz: f64) -> Self {
        KernelRates {
            memory_bytes_per_second: REACHED_OF_MEMORY * memory_bytes_per_second,
            instructions_per_second: REACHED_OF_ISSUE * LANES * f64::from(multiprocessors) * clock_hz,
            multiprocessors,
        }
    }

    /// The kernels of an op and their times; `None` for products and convolutions of floats, which libraries compute.
    /// The model assumes that the first kernel does all of the work, and that others only finish it; but each of an attention's
    /// goes over all scores.
    pub fn prices(&self, op: &Op, inputs: &[View], outputs: &[View]) -> Option<Vec<KernelPrice>> {
        let stand_in = Program::of_one(op, inputs);
        let op = stand_in.as_ref().unwrap_or(op);
        let calls = calls(op, inputs, outputs)?;
        let work = op.work(inputs, &outputs.iter().copied().collect());
        let bytes = work.read_bytes + work.written_bytes;
        let is_pass = matches!(op, Op::AttentionBackward(_));
        let price = |(place, call): (usize, &KernelCall)| match place {
            place if place == 0 || is_pass => self.price(call, bytes, &Facts::of(op, inputs, outputs)),
            _ => KernelPrice { name: call.name.to_string(), blocks: call.blocks, bytes: 0, ns: 0.0 },
        };
        Some(calls.iter().enumerate().map(price).collect())
    }

    fn price(&self, call: &KernelCall, bytes: u64, facts: &Facts) -> KernelPrice {
        let cost = Cost::of(call, facts);
        let filled = f64::from(call.blocks) / (BLOCKS * f64::from(self.multiprocessors));
        let part = if cost.waits_for_blocks { filled.min(1.0) } else { 1.0 };
        let memory = self.memory_bytes_per_second.min(cost.most_bytes_per_second);
        let traffic_s = bytes as f64 / memory * cost.passes;
        let issued_s = cost.instructions * facts.elements / (self.instructions_per_second * part);
        let ns = (traffic_s.max(issued_s) + cost.serial_s) * 1e9;
        KernelPrice { name: call.name.to_string(), blocks: call.blocks, bytes, ns }
    }
}

/// A kernel and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelPrice {
    /// The kernel.
    pub name: String,
    /// The number of its blocks.
    pub blocks: u32,
    /// Bytes of operands that it reads and writes.
    pub bytes: u64,
    /// Its time, without the time of the launch.
    pub ns: f64,
}

/// The kernels of an op, as the CUDA engine calls them.
pub(super) fn calls(op: &Op, inputs: &[View], outputs: &[View]) -> Option<lower::Calls> {
    let placed = |view: &View| Placed { address: ALIGN_BYTES as u64, view: *view };
    let inputs: Inputs<Placed> = inputs.iter().map(placed).collect();
    let outputs: PerOutput<Placed> = outputs.iter().map(placed).collect();
    let [scratch, fault] = [ALIGN_BYTES as u64; 2];
    let (inputs, outputs) = (inputs.as_slice(), outputs.as_slice());
    gpu::lower(&Request { op, inputs, outputs, scratch, fault, chunk: 0, threads: gpu::THREADS })
}

/// Properties of an op on which the number of instructions for each element depends.
struct Facts<'a> {
    program: Option<&'a Program>,
    inputs: f64,
    elements: f64,
    /// Dimensions that an index is divided into, if several operands have the same layout.
    dimensions: f64,
    /// Whether an operand is not in the order of the elements.
    is_strided: bool,
    /// Indices that a single thread walks through.
    walked: f64,
    /// Elements of a row, of the first input.
    row: f64,
    /// Of an attention: the widths of a query and of a value.
    widths: [f64; 2],
}

impl<'a> Facts<'a> {
    fn of(op: &'a Op, inputs: &[View], outputs: &[View]) -> Self {
        let all = || inputs.iter().chain(outputs);
        let mut elements = all().map(|view| view.shape().count()).max().unwrap_or(0);
        let alike = all().map(|view| &view.layout).filter(|layout| layout.shape().count() == elements);
        let dimensions = dimensions(&alike.collect::<Vec<_>>());
        let program = if let Op::Fused { program, .. } = op { Some(program) } else { None };
        let walked = match *op {
            Op::Scatter { axis, .. } => inputs[1].shape()[axis],
            Op::SelectUpdate { axis, .. } => {
                inputs[1].shape().count() / lower::update_teams(&outputs[0], &inputs[2], axis)
            }
            _ => 0,
        };
        let mut widths = [0.0; 2];
        if let Op::Attention(attention) | Op::AttentionBackward(attention) = op {
            elements = attention.pairs(inputs) as usize;
            widths = [0, 2].map(|input| inputs[input].shape()[3] as f64);
        }
        Facts {
            program,
            inputs: inputs.len() as f64,
            elements: elements as f64,
            dimensions: dimensions as f64,
            is_strided: dimensions > 1,
            walked: walked as f64,
            row: inputs.first().and_then(|view| view.shape().dims().last()).map_or(1.0, |&size| size as f64),
            widths,
        }
    }
}

/// The number of dimensions after merging neighbouring dimensions that can be merged in all layouts. Layouts of
/// another shape than the first are ignored.
fn dimensions(layouts: &[&Layout]) -> usize {
    let Some(first) = layouts.first() else { return 1 };
    let shape = first.shape();
    let alike: Vec<_> = layouts.iter().filter(|layout| layout.shape() == shape).collect();
    let dims: Vec<usize> = (0..shape.rank()).filter(|&axis| shape[axis] > 1).collect();
    let joins = |pair: &[usize]| {
        let size = shape[pair[1]] as isize;
        alike.iter().all(|layout| layout.strides()[pair[0]] == layout.strides()[pair[1]] * size)
    };
    1 + dims.windows(2).filter(|pair| !joins(pair)).count()
}

/// The cost of a kernel for an element, and limits of its speed.
struct Cost {
    instructions: f64,
    /// The number of passes over its bytes.
    passes: f64,
    most_bytes_per_second: f64,
    /// The number of its blocks. If they do not fill the device, the kernel takes longer.
    waits_for_blocks: bool,
    /// The time of the work that a single thread does, in seconds.
    serial_s: f64,
}

/// The most that a block moves if a thread reads one element after the other: 2.9 GB/s.
const BLOCK_BYTES_PER_SECOND: f64 = 2.9e9;
/// Bandwidth of the kernels that leave most threads of a block idle: places of extremes, pools.
const ARG_BYTES_PER_SECOND: f64 = 0.3e12;
const POOL_BYTES_PER_SECOND: f64 = 1e12;
/// Time of a thread for each of the indices that it walks through: each read waits for the one before.
const WALK_S: f64 = 0.9e-6;

impl Cost {
    fn of(call: &KernelCall, facts: &Facts) -> Self {
        let name = call.name.to_string();
        let family = name.split('_').next().expect("a name has a part");
        // Halves are widened and rounded in between.
        let halves = if is_half(call) { 1.0 } else { 0.0 };
        let simple = |instructions: f64| Cost {
            instructions,
            passes: 1.0,
            most_bytes_per_second: f64::INFINITY,
            waits_for_blocks: false,
            serial_s: 0.0,
        };
        let limited = |bytes_per_second| Cost { most_bytes_per_second: bytes_per_second, ..simple(0.0) };
        match family {
            "fused" => fused(facts, call, simple),
            "attention" => Cost { waits_for_blocks: true, ..simple(attention(&name, facts, halves)) },
            "fill" => simple(12.0),
            "random" => simple(45.0),
            "reduce" => limited(f64::from(call.blocks) * BLOCK_BYTES_PER_SECOND).with(9.0),
            "best" => limited(ARG_BYTES_PER_SECOND.min(f64::from(call.blocks) * BLOCK_BYTES_PER_SECOND)),
            "transpose" => simple(36.0),
            "pool" => limited(POOL_BYTES_PER_SECOND),
            "softmax" | "layer" | "rms" => Cost { passes: 1.2, ..simple(1.2 * (70.0 + 20.0 * halves)) },
            "norm" => Cost { passes: 1.3, ..simple(1.3 * 60.0) },
            "gather" => simple(30.0 + 56.0 * facts.dimensions),
            "scatter" => Cost { serial_s: WALK_S * facts.walked, ..simple(0.0) },
            _ => simple(pointwise(call, family, facts, halves)),
        }
    }

    fn with(self, instructions: f64) -> Self {
        Cost { instructions, ..self }
    }
}

fn is_half(call: &KernelCall) -> bool {
    matches!(call.name.instance(), Dtype::F16 | Dtype::BF16)
}

/// Elements that a thread takes at once are 16 bytes of the widest operand.
fn pointwise(call: &KernelCall, family: &str, facts: &Facts, halves: f64) -> f64 {
    const VECTORS: [&str; 6] = ["binary", "unary", "compare", "clamp", "mask", "copy"];
    const OTHERS: [&str; 3] = ["where", "signs", "bools"];
    let name = call.name.to_string();
    let is_function = ["gelu", "tanh", "exp", "pow"].iter().any(|function| name.contains(function));
    let of_element = 6.0 + 10.0 * halves + if is_function { 25.0 } else { 0.0 };
    match family {
        _ if VECTORS.contains(&family) => {
            let width = 16.0 / call.name.widest_bytes() as f64;
            (40.0 + 25.0 * facts.dimensions) / width + of_element
        }
        _ if OTHERS.contains(&family) => 20.0 + 54.0 * facts.dimensions + of_element,
        _ => 50.0,
    }
}

/// Of a pair of a query and a key, by the pass: products as wide as a query and as wide as a value, and the exponential with
/// what is around it. A tensor core's product takes a 64th of an instruction for each multiply-add, its loads about three
/// times as many; by FMA the loads are a fifth of the products.
fn attention(name: &str, facts: &Facts, halves: f64) -> f64 {
    let [of_query, of_value, around] = match name {
        name if name.contains("query") => [2.0, 1.0, 7.0],
        name if name.contains("key") => [2.0, 2.0, 7.0],
        _ => [1.0, 1.0, 8.0],
    };
    let products = of_query * facts.widths[0] + of_value * facts.widths[1];
    around + products * if halves > 0.0 { 0.06 } else { 1.2 }
}

/// A program that a kernel is generated for: places are found once for all elements that a thread takes at once.
fn fused(facts: &Facts, call: &KernelCall, simple: impl Fn(f64) -> Cost) -> Cost {
    let program = facts.program.expect("only programs are run by this kernel");
    let halves = if is_half(call) { 1.0 } else { 0.0 };
    let places = if facts.is_strided { 25.0 * facts.dimensions } else { 0.0 };
    // Of what has one value for each row, each thread computes all; to reduce a row, it also adds up its elements.
    let of_row = gpu::THREADS as f64 / facts.row;
    let steps = program.steps().iter().map(|step| match step.kind {
        _ if !step.is_row => (1.0, function(step.kind)),
        StepKind::Row(_) => (1.0, of_row * function(step.kind)),
        _ => (of_row, of_row * function(step.kind)),
    });
    let (steps, functions) = steps.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    let read_once = generated::read_once(call);
    let inputs = facts.inputs - read_once.unwrap_or(0) as f64;
    let moved = inputs + program.outputs().len() as f64;
    let of_element = 2.0 * moved + 2.0 * steps + functions + halves * (inputs + 3.0 * steps);
    let width = generated::width(call) as f64;
    let around = match (program.ending(), read_once) {
        // Places are found once for a row.
        (Some(_), Some(_)) => 10.0,
        (Some(_), None) => 25.0 + places,
        (None, _) => 20.0 + places,
    };
    let waits_for_blocks = program.ending().is_some() || program.has_rows();
    Cost { waits_for_blocks, ..simple(around / width + of_element) }
}

/// Instructions of a thread where a block's threads add up what each of them has of a row: 24 additions of what others have, and
/// three waits.
const ROW_INSTRUCTIONS: f64 = 60.0;

/// Instructions of a step beyond those of an addition.
fn function(kind: StepKind) -> f64 {
    match kind {
        StepKind::Unary(Unary::Recip) => 12.0,
        StepKind::Unary(Unary::Exp) => 14.0,
        StepKind::Unary(Unary::Sqrt) => 16.0,
        StepKind::Unary(Unary::InverseSqrt) => 28.0,
        StepKind::Unary(Unary::Log | Unary::Tanh | Unary::Erf | Unary::Sigmoid) => 25.0,
        StepKind::Unary(Unary::Log1p) => 30.0,
        StepKind::Unary(Unary::LogSigmoid | Unary::Gelu) => 40.0,
        StepKind::Binary(Binary::Div | Binary::ReverseDiv) => 16.0,
        StepKind::Binary(Binary::GeluBackward) => 60.0,
        StepKind::Draw => 9.0,
        StepKind::Row(_) => ROW_INSTRUCTIONS,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Reduce, Shape, Update};

    const RATES: KernelRates =
        KernelRates { memory_bytes_per_second: 1e12, instructions_per_second: 1e13, multiprocessors: 100 };

    fn view(dims: &[usize]) -> View {
        View::contiguous(Dtype::F32, Shape::new(dims))
    }

    fn priced(op: Op, inputs: &[View]) -> Vec<KernelPrice> {
        RATES.prices(&op, inputs, &op.outputs(inputs)).expect("it has kernels")
    }

    #[test]
    fn the_slower_of_traffic_and_instructions_counts() {
        let (add, whole) = (Op::Binary(Binary::Add), view(&[1 << 10, 1 << 10]));
        let turned = View { layout: whole.layout.permute(&[1, 0]), ..whole };
        let of = |rates: KernelRates, inputs: &[View]| {
            let prices = rates.prices(&add, inputs, &add.outputs(inputs)).expect("it has a kernel");
            (prices[0].bytes, prices[0].ns.round())
        };
        let elements = f64::from(1 << 20);
        assert_eq!(of(RATES, &[whole, whole]), (3 << 22, (12.0 * elements / 1e3).round()), "traffic");
        let slow = KernelRates { instructions_per_second: 1e12, ..RATES };
        assert_eq!(of(slow, &[whole, whole]).1, (13.0 * elements / 1e3).round(), "instructions");
        assert_eq!(of(slow, &[turned, whole]).1, (25.5 * elements / 1e3).round(), "those for two dimensions");
    }

    #[test]
    fn few_blocks_and_walks_take_longer() {
        let sum = Op::Reduce { kind: Reduce::Sum, axis: 1 };
        let of = |dims: &[usize]| priced(sum, &[view(dims)])[0].ns;
        assert!(of(&[1, 1 << 12]) > 100.0 * of(&[1 << 20, 4]) / 1024.0);
        let update = |op, index: &[usize]| {
            let index = View::contiguous(Dtype::I32, Shape::new(index));
            let prices = priced(op, &[view(&[64, 8]), index, view(&[index.shape()[0], 8])]);
            prices.iter().map(|price| price.ns).sum::<f64>()
        };
        let elements = |count| update(Op::Scatter { axis: 0, update: Update::Add }, &[count, 8]);
        let slices = |count| update(Op::SelectUpdate { axis: 0, update: Update::Add }, &[count]);
        assert!(elements(4096) > 3.9 * elements(1024), "a thread walks all indices");
        assert!(elements(4096) > 50.0 * slices(4096), "64 teams share them");
    }

    #[test]
    fn libraries_have_their_own_prices() {
        assert_eq!(RATES.prices(&Op::Matmul, &[view(&[8, 8]); 2], &[view(&[8, 8])]), None);
    }
}
