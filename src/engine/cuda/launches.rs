//! How an op gets into a stream: by a library where one is there for it, else by kernels.

use super::CudaEngine;
use super::convolutions::{columns, is_convolution};
use super::driver::{Called, Stream};
use super::kept::{self, Kept};
use super::scratch::Scratch;
use crate::engine::call::{Call, Operand};
use crate::engine::lowered::{Lowered, is_in_place};
use crate::engine::{ALIGN_BYTES, Algorithm, Launch, Span, Tier};
use crate::op::lower::{self, Calls, KernelCall, Placed, Request, generated, gpu};
use crate::op::{Inputs, Op, Outputs, PerOutput, View};

const NO_CUBLASLT: &str = "cuBLASLt was not found";
const NO_CUDNN: &str = "cuDNN was not found";

const NOT_BY_CUBLASLT: &str = "cuBLASLt has no algorithm for it as it lies";
const NOT_BY_CUDNN: &str = "cuDNN has no algorithm for it as it lies";

/// Whether a library did it, or else why not.
fn or_why(is_done: bool, reason: &'static str) -> (bool, Option<&'static str>) {
    (is_done, (!is_done).then_some(reason))
}

impl CudaEngine {
    /// How an op's kernels are called: for floats that no lowering covers, directly.
    fn lower(&self, request: &Request) -> Result<Calls, String> {
        let op = request.op;
        if let Op::Traced(_) = op {
            return Err("has no kernel of its own".into());
        }
        Ok(gpu::lower(request).unwrap_or_else(|| {
            lower::lower_directly(&Request { chunk: gpu::direct_chunk(op, request), ..*request })
        }))
    }

    /// Puts a call into a stream, by a library where one is there for it.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    pub(super) unsafe fn submit(&self, stream: &Stream, call: &Call, fault: u64) -> Called<()> {
        let views: Inputs<View> = call.inputs.iter().map(|operand| operand.view).collect();
        if let Some((decode, view, of_values)) = call.op.in_two(&views) {
            // All at once: by parts a library would add up in another order.
            let mut scratch = Scratch::new(call.scratch);
            let values = Operand { span: scratch.take(view.size_bytes())?, view };
            let form = call.inputs.iter().enumerate().filter(|(place, _)| *place != 1);
            let outputs = [Operand { view: decode.outputs(&views)[0], ..values }].into_iter().collect();
            let inputs = form.map(|(_, &operand)| operand).collect();
            let decode = Call { op: decode, inputs, outputs, ..call.clone() };
            let inputs = [values, call.inputs[1]].into_iter().collect();
            let then = Call { op: of_values, inputs, scratch: scratch.rest(), ..call.clone() };
            // SAFETY: the caller's; the values are in the call's workspace, apart from what is left of it.
            return unsafe {
                self.launch_kernels(stream, &decode, fault).and_then(|()| self.submit(stream, &then, fault))
            };
        }
        let copy = |from: Operand, to: Operand| {
            let op = Op::Copy { dtype: from.view.dtype };
            let (inputs, outputs) = ([from].into_iter().collect(), [to].into_iter().collect());
            let scratch = Span::empty(Tier::Device);
            let call = Call { op, algorithm: Algorithm::default(), inputs, outputs, scratch };
            // SAFETY: from an operand of the call to another, or to its workspace.
            unsafe { self.launch_kernels(stream, &call, 0) }
        };
        // SAFETY: the arguments were made for the kernel, from operands of the call and its workspace.
        let kernels = |call: &KernelCall| unsafe { self.launch_kernel(stream, call) };
        // SAFETY: the caller's.
        unsafe {
            let (is_done, fallback) = match (call.op, &self.products, &self.convolutions) {
                (Op::Matmul, ..) if views[0].dtype.is_integer() => (false, None),
                (Op::Matmul, Some(products), _) => {
                    or_why(products.run(stream, call, &copy)?, NOT_BY_CUBLASLT)
                }
                (Op::Matmul, None, _) => (false, Some(NO_CUBLASLT)),
                (op, _, Some(convolutions)) if is_convolution(&op) => {
                    or_why(convolutions.run(stream, call, &copy)?, NOT_BY_CUDNN)
                }
                (op, Some(products), None) if is_convolution(&op) => {
                    (columns::run(products, stream, call, &copy, &kernels)?, Some(NO_CUDNN))
                }
                (op, None, None) if is_convolution(&op) => (false, Some(NO_CUDNN)),
                _ => (false, None),
            };
            if let Some(reason) = fallback {
                self.fallbacks.note(call.op.name(), reason);
            }
            if is_done { Ok(()) } else { self.launch_kernels(stream, call, fault) }
        }
    }

    /// Puts the kernels of a call into a stream.
    ///
    /// # Safety
    /// As for [`Engine::launch`].
    unsafe fn launch_kernels(&self, stream: &Stream, call: &Call, fault: u64) -> Called<()> {
        let inputs: Inputs<Placed> = call.inputs.iter().map(Operand::placed).collect();
        let outputs: PerOutput<Placed> = call.outputs.iter().map(Operand::placed).collect();
        let request = Request {
            op: &call.op,
            inputs: &inputs,
            outputs: &outputs,
            scratch: call.scratch.address,
            fault,
            chunk: 0,
            threads: gpu::THREADS,
        };
        // SAFETY: lowering made the arguments, `scripts/check-kernels` compares the structs, from spans that the caller
        // vouches for and from `fault`, which is mapped as long as the engine lives.
        self.lower(&request)?.iter().try_for_each(|call| unsafe { self.launch_kernel(stream, call) })
    }

    /// # Safety
    /// The arguments were made for the kernel, from memory as [`Engine::launch`] asks.
    unsafe fn launch_kernel(&self, stream: &Stream, call: &KernelCall) -> Called<()> {
        let kernel = self.modules.kernel(&call.name)?;
        // SAFETY: the caller's.
        unsafe { stream.launch(kernel, call.blocks, gpu::THREADS as u32, call.args.bytes()) }
    }

    /// The kernels of a launch, lowered once for its instruction; `None` where a library does it, or more than one op.
    pub(super) fn kept<'a>(&self, launch: &'a Launch) -> Option<&'a Kept> {
        let (instruction, in_place) = (&*launch.instruction, is_in_place(launch));
        instruction.lowered[usize::from(in_place)].get(|| {
            let is_product = instruction.op == Op::Matmul && !instruction.views[0].dtype.is_integer();
            if is_product
                || is_convolution(&instruction.op)
                || instruction.op.in_two(&instruction.views).is_some()
            {
                return None;
            }
            let lower = |op: &Op, inputs: &[Placed], outputs: &[Placed], [scratch, fault]: [u64; 2]| {
                let request =
                    Request { op, inputs, outputs, scratch, fault, chunk: 0, threads: gpu::THREADS };
                self.lower(&request).ok()
            };
            Lowered::new(instruction, in_place, &lower, kept::LoadedKernel::new)
        })
    }

    /// Loads what an op of these inputs takes: kernels, and a library's own.
    pub(super) fn make_ready(&self, op: &Op, views: &[View]) {
        if let Some((decode, values, then)) = op.in_two(views) {
            let form: Inputs<View> = [&views[..1], &views[2..]].concat().into();
            self.make_ready(&decode, &form);
            return self.make_ready(&then, &[values, views[1]]);
        }
        let outputs = op.outputs(views);
        if self.by_library(op, Algorithm::default(), views, &outputs).is_some() {
            return;
        }
        let placed = |view: &View| Placed { address: ALIGN_BYTES as u64, view: *view };
        let inputs: Inputs<Placed> = views.iter().map(placed).collect();
        let outputs: PerOutput<Placed> = outputs.iter().map(placed).collect();
        let (scratch, fault) = (ALIGN_BYTES as u64, ALIGN_BYTES as u64);
        let (inputs, outputs) = (inputs.as_slice(), outputs.as_slice());
        let request = Request { op, inputs, outputs, scratch, fault, chunk: 0, threads: gpu::THREADS };
        // What fails here fails again at the launch, which tells it.
        let calls = self.lower(&request);
        for call in calls.iter().flatten().filter(|call| !generated::is_fused(call)) {
            let _ = self.modules.kernel(&call.name);
        }
    }

    /// Workspace of an op by a library; nothing if none does it.
    pub(super) fn by_library(
        &self,
        op: &Op,
        algorithm: Algorithm,
        inputs: &[View],
        outputs: &Outputs,
    ) -> Option<usize> {
        match (op, &self.products, &self.convolutions) {
            (Op::Matmul, Some(products), _) => products.scratch_bytes(inputs),
            (op, _, Some(convolutions)) if is_convolution(op) => {
                convolutions.scratch_bytes(op, algorithm, inputs, &outputs[0])
            }
            (op, Some(products), None) if is_convolution(op) => {
                columns::scratch_bytes(products, op, inputs, &outputs[0])
            }
            _ => None,
        }
    }
}
