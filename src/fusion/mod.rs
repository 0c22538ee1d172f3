//! Runs of elementwise ops, which are fused into few ops.
//!
//! A thread's elementwise ops on floats of one type, and of one shape or as many elements in the same order, are not
//! submitted at once. Each returns a *promise*, a handle without a storage, and joins the thread's *run*. When the run
//! ends, steps whose results nobody needs are left out, and the others are submitted as few `Op::Fused`: programs of at
//! most 24 steps, 8 inputs, 6 outputs and 12 scalars, by value in the op. A tensor filled with one value is a step too, so
//! that it is never in memory if only other steps read it. Scalars are stored outside of the steps, so that a scalar that
//! changes from one training step to the next makes no new instruction. To the pool a fused op is an op like any other.
//!
//! - *A result that is cheap to compute again* is not stored until something else than a step reads it ([`again`]): the sum, product
//!   or sign of one large tensor and small ones, on a GPU functions of it too. And an op whose operands all repeat along the same axes computes each value
//!   once ([`narrow`]).
//! - *A run ends* after 24 ops; at an op that does not belong to it, a read, or anything else that the program asks of
//!   the device; in another checkpointed scope; and when another thread needs one of its promises. All of this follows
//!   from program order, not from time or free memory.
//! - *Which steps become one op* is decided in [`partition`]: those that belong together, or, up to 64 KiB each, all that
//!   a program can have. A step that stays alone is submitted as the op that the program asked for. [`reduction`]
//!   describes the sums, means and maxima that a run can end in, [`rows`] those that it goes on after, on a GPU. The
//!   gradient of a convolution's input waits in the place of a run ([`deferred`]).
//! - *A small op* that reads nothing of the run and has at most a sixteenth of its bytes overtakes it: what a norm
//!   computes for each channel does not end the run over its image. Small elementwise ops form a run of their own on the
//!   way, so that an optimizer's step for a bias is one op, whatever waits.
//! - *The budget* allows a fused op what its steps need. Where the fused op as a whole does not fit, its steps run one
//!   by one, by the same kernel. So the smallest budget is that of the steps, and an op that does not fit by itself is
//!   refused by the call that asks for it.
//! - *A run holds its inputs.* An input that the program drops meanwhile is consumed by the last op that reads it,
//!   through whichever views it was read before. So a step takes no more memory in a run than by itself.
//! - *An error* of the engine, or of a full host tier, comes with the call that ends the run. Steps that were not
//!   submitted go on waiting with their inputs. They are tried again when the run next ends, unless their handles are
//!   gone by then.
//! - *The bits* are those of the ops by themselves: each step rounds to the element type (`kernels/fused.cu`, which
//!   interprets a program, 256 elements at a time, on the host; CUDA generates one for each program). The exception is a NaN's sign on
//!   the host: a sum of two NaN has that of the first, and the compiler chooses which one is first, and may choose
//!   otherwise for what is left of a row. So this sign can also depend on whether a program fits the budget as one op.
//! - *No steps* are functions that take many registers, since all programs would pay for them; the gradient of a
//!   rectifier, which by itself can read signs, unless its operand is not stored; most powers; clamps, comparisons, casts
//!   and integers.
//! - *The name* of a fused op is `fused`, `fused_sum`, `fused_mean` or `fused_max` by what it ends in, `fused_rows` if it
//!   reduces rows on its way, or `fused_add` if it adds two tensors, which can be the end of a branch, by which layers are
//!   found.
//!
//! `Config::fusion` turns runs on and off; by default they are on. Decision records 38 and 52 to 56 have the reasons.

mod again;
mod deferred;
mod narrow;
mod partition;
mod reduction;
mod rows;
mod run;
mod shelf;
mod submission;
mod tensor;
mod threads;

pub use tensor::{FusionTarget, FusionTensor, TensorMaker};
pub use threads::ThreadRuns;
