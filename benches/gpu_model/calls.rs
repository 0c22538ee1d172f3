//! The kernel calls of launches as text, for a program that runs them.

use std::collections::HashSet;
use std::fmt::Write;

use burn_overcommit::engine::{Launch, Span};
use burn_overcommit::op::View;
use burn_overcommit::op::lower::{self, KernelCall, Placed, Request, gpu};

/// Where storages begin, and how far they reach at the most: a process has nothing of its own there. Two may lie at one place.
const BEGIN: u64 = 1 << 36;
const REACH: u64 = 1 << 38;

fn address(span: &Span) -> u64 {
    BEGIN + span.address % REACH
}

/// A line for each call: the label, the kernel and its file, its blocks, and the words of its arguments. Calls of the same op on the same views
/// are alike, so each is there once.
pub fn of(label: &str, launches: &[Launch]) -> String {
    let mut known = HashSet::new();
    let mut text = String::new();
    for launch in launches.iter().filter(|launch| known.insert(launch.instruction.signature)) {
        for call in kernel_calls(launch) {
            let KernelCall { name, blocks, .. } = &call;
            write!(text, "{label} {name} {} {blocks}", name.file()).expect("a string takes all");
            call.args.words().iter().for_each(|word| write!(text, " {word:x}").expect("as above"));
            text.push('\n');
        }
    }
    text
}

fn kernel_calls(launch: &Launch) -> Vec<KernelCall> {
    let instruction = &launch.instruction;
    let placed = |(span, view): (&Span, &View)| Placed { address: address(span), view: *view };
    let inputs: Vec<Placed> = launch.inputs.iter().zip(&instruction.views).map(placed).collect();
    let outputs: Vec<Placed> = launch.outputs.iter().zip(&instruction.outputs).map(placed).collect();
    let op = &instruction.op;
    let (scratch, fault) = (address(&launch.scratch), BEGIN);
    let (inputs, outputs, chunk) = (inputs.as_slice(), outputs.as_slice(), gpu::chunk(op, &inputs));
    let request = Request { op, inputs, outputs, scratch, fault, chunk, threads: gpu::THREADS };
    lower::lower(&request).map_or(Vec::new(), |calls| calls.to_vec())
}
