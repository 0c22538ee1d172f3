//! The front door: run an op, read, write, sync. Each device has one runtime: an engine, a pool under a short lock, the
//! runs of elementwise ops that wait for fusion, and the queue of dropped handles.
//!
//! - `api` has the calls that `backend` and users make, and `registry` finds the runtime of a device.
//! - `access` has the program's accesses to host memory.
//! - `collective` reduces tensors of several devices, and `data_parallel` the gradients of a training.
//! - `device` has the runtime and its tensors, and `submission` the way of an op from the call to the pool.
//! - `workers` knows which threads work for a device.
//! - `planning` plans iterations, mostly in the `background` on a throttled thread.
//!
//! ```
//! use burn_overcommit::op::{Dtype, Op, Shape};
//! use burn_overcommit::{OvercommitDevice, runtime};
//!
//! let device = OvercommitDevice::Host(0);
//! let x = runtime::write(&device, &[1, 2, 3], Dtype::U8, Shape::new(&[3]))?;
//! let wider = runtime::run(Op::Copy { dtype: Dtype::I32 }, [x])?;
//! assert_eq!(runtime::read(wider)?.len(), 12);
//! # Ok::<(), burn_overcommit::Error>(())
//! ```

mod access;
mod api;
mod arrivals;
mod background;
mod collective;
mod data_parallel;
mod device;
mod exit;
mod fused;
mod pace;
#[doc(hidden)]
pub mod paper_figures;
mod plan_cache;
mod planning;
mod random;
mod registry;
mod scope;
mod submission;
mod thread;
mod workers;

#[doc(hidden)]
pub use crate::disk_cache::{SEAL_BYTES, sealed};
pub(crate) use api::{claim, run_traced, wait_for};
pub use api::{
    cleanup, create, keep_result, next_seed, note, read, read_count, run, run_pair, run_three, seed, sync,
    write,
};
#[doc(hidden)]
pub use collective::{Patience, sync_collective_within};
pub use collective::{Reduction, all_reduce, reset_collectives, sync_collective};
pub use data_parallel::{begin_training, end_training, reduce_gradient, reduce_of_program, reduce_together};
pub use device::Tensor;
#[cfg(test)]
pub(crate) use planning::is_planning;
pub(crate) use planning::{learned, plan_ahead, plan_times};
#[cfg(feature = "train")]
pub(crate) use registry::stats_and_peak;
#[doc(hidden)]
pub use registry::{assert_invariants, configure_with_engine, ensure_configured, free_bytes};
pub use registry::{configure, recording, reset_stats, stats};
pub(crate) use registry::{peak_op, peak_snapshot};
pub use scope::Scope;
