use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, View};

/// Arguments of the connectionist temporal classification loss (`Ctc` in `ctc.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Ctc {
    out: u64,
    log_probs: u64,
    targets: u64,
    input_lengths: u64,
    target_lengths: u64,
    scratch: u64,
    fault: u64,
    chunk: u64,
    scratch_each: u64,
    steps: u64,
    sequences: u64,
    classes: u64,
    labels: u64,
    blank: u64,
    log_probs_strides: [i64; 3],
    targets_strides: [i64; 2],
    lengths_strides: [i64; 2],
}

/// How many times the work of an addition a place takes at a step.
const PLACE_COST: usize = 64;

const LOSS: &str = "loss";
const GRADIENT: &str = "gradient";

/// Places of a target: a blank before, between and after its labels.
fn places(targets: &View) -> usize {
    2 * targets.shape()[1] + 1
}

/// Numbers for each sequence: a row of places.
fn loss_scratch(inputs: [&View; 2]) -> usize {
    places(inputs[1])
}

/// A row for each step, one more, and one of classes.
fn gradient_scratch([log_probs, targets]: [&View; 2]) -> usize {
    (log_probs.shape()[0] + 1) * places(targets) + log_probs.shape()[2]
}

pub fn loss_scratch_bytes(inputs: &[View]) -> usize {
    scratch_bytes(&inputs[0], loss_scratch([&inputs[0], &inputs[1]]))
}

pub fn gradient_scratch_bytes(inputs: &[View]) -> usize {
    scratch_bytes(&inputs[0], gradient_scratch([&inputs[0], &inputs[1]]))
}

fn scratch_bytes(log_probs: &View, each: usize) -> usize {
    log_probs.shape()[1] * each * log_probs.dtype.size_bytes().max(Dtype::F32.size_bytes())
}

pub fn loss(request: &Request, blank: usize, calls: &mut Calls) {
    let each = loss_scratch([&request.inputs[0].view, &request.inputs[1].view]);
    push(request, LOSS, blank, each, calls);
}

pub fn gradient(request: &Request, blank: usize, calls: &mut Calls) {
    let each = gradient_scratch([&request.inputs[0].view, &request.inputs[1].view]);
    push(request, GRADIENT, blank, each, calls);
}

fn push(request: &Request, kind: &'static str, blank: usize, scratch_each: usize, calls: &mut Calls) {
    let [log_probs, targets, input_lengths, target_lengths] =
        [0, 1, 2, 3].map(|input| &request.inputs[input]);
    let [steps, sequences, classes] = [0, 1, 2].map(|axis| log_probs.view.shape()[axis]);
    let work = PLACE_COST * steps * places(&targets.view);
    let strides = |view: &View, axis: usize| view.layout.strides()[axis] as i64;
    let args = Ctc {
        out: request.outputs[0].first(),
        log_probs: log_probs.first(),
        targets: targets.first(),
        input_lengths: input_lengths.first(),
        target_lengths: target_lengths.first(),
        scratch: request.scratch,
        fault: request.fault,
        chunk: (request.chunk / work.max(1)).max(1) as u64,
        scratch_each: scratch_each as u64,
        steps: steps as u64,
        sequences: sequences as u64,
        classes: classes as u64,
        labels: targets.view.shape()[1] as u64,
        blank: blank as u64,
        log_probs_strides: [0, 1, 2].map(|axis| strides(&log_probs.view, axis)),
        targets_strides: [0, 1].map(|axis| strides(&targets.view, axis)),
        lengths_strides: [input_lengths, target_lengths].map(|lengths| strides(&lengths.view, 0)),
    };
    let name = KernelName::new("ctc", kind, log_probs.view.dtype);
    KernelCall::push(calls, name, args.sequences, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for kind in [LOSS, GRADIENT] {
        names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("ctc", kind, dtype)));
    }
}
