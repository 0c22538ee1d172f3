//! Events of a run, in the order in which they were submitted.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::engine::{Lane, Tier};
use crate::op::Work;

/// The first line of a trace.
/// See [`Recording`](super::Recording) for an example.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format: 1.
    pub trace: u32,
    /// The device on which the program ran, for people.
    pub device: String,
    /// The budget.
    pub budget_bytes: usize,
    /// The limit of the host tier.
    pub host_limit_bytes: usize,
    /// The most bytes of other devices that may be used; 0 if none may.
    #[serde(default)]
    pub peer_limit_bytes: usize,
    /// The limit of the disk tier; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disk_limit_bytes: usize,
    /// The memory policy.
    pub policy: String,
    /// Whether times are real, and not a simulation's.
    pub simulated: bool,
}

/// An event. Storages are numbered from zero in the order in which they are made, and no number is used twice.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::trace::{Event, How};
/// use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, recording};
///
/// let device = OvercommitDevice::Host(0);
/// configure(&device, Config::new().budget("8 KiB").record())?;
/// let x = Tensor::<Overcommit, 1>::ones([1024], &device).exp();
/// let y = Tensor::<Overcommit, 1>::ones([1024], &device).log();
/// (x.clone().into_data(), y.into_data(), x.into_data());
/// for event in recording(&device)?.events {
///     match event {
///         Event::Op(op) => println!("{} made {:?} at {} ns", op.name, op.outputs, op.ran.begin_ns),
///         Event::Evict(evicted) if evicted.how == How::Drop => println!("{} was dropped", evicted.made_by),
///         _ => {}
///     }
/// }
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    // Requests of the program.
    /// The program submitted an op.
    Op(OpEvent),
    /// The program has a storage that is always on the device, such as a weight.
    Constant(Made),
    /// The program made a tensor from its own data, in host memory.
    Write(Made),
    /// The program waited for a tensor's data.
    Read(u64),
    /// The program dropped the last handle of a storage.
    Free(u64),
    /// The program waited for all work.
    Sync,
    /// The program noted a point in its run, such as the beginning of the backward pass.
    Note(String),

    // Decisions of the pool.
    /// The pool ran an op that the program had not submitted.
    Recompute(Recomputed),
    /// The pool copied or moved a storage's bytes.
    Copy(Copied),
    /// The pool evicted a storage from device memory.
    Evict(Evicted),
    /// A block of a tier is allocated.
    Allocate {
        /// The tier.
        tier: Tier,
        /// Its first byte.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// The block at this address is freed.
    Release {
        /// The tier.
        tier: Tier,
        /// Its first byte.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// The mapped memory of a tier has changed.
    Reserve {
        /// The tier.
        tier: Tier,
        /// All mapped bytes of the tier.
        bytes: usize,
    },
}

/// A storage and its size.
/// See [`Event`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Its number.
    pub storage: u64,
    /// Its exact size.
    pub bytes: usize,
}

/// When a piece of work ran, in nanoseconds since the recording began.
/// See [`Event`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// The number of pieces that were submitted to its lane, itself included.
    #[serde(skip)]
    pub sequence: u64,
    /// When it began to run.
    pub begin_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

/// An op, with all that a replay needs to know of it.
/// See [`Event`] for an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpEvent {
    /// The op's name, for people.
    pub name: Cow<'static, str>,
    /// Storages that it read. A storage may be listed twice.
    pub inputs: Vec<u64>,
    /// Inputs, by place, whose last handle it consumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumed: Vec<usize>,
    /// Inputs, by place, whose memory an output may take if they are consumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<usize>,
    /// Inputs, by place, that are parameters of the model, if the program [names](crate::module) them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<usize>,
    /// Storages that it made.
    pub outputs: Vec<Made>,
    /// Its workspace.
    #[serde(default)]
    pub scratch_bytes: usize,
    /// Its work, from which its time is predicted.
    pub work: Work,
    /// Whether it gives the same bits when run again.
    #[serde(default = "yes")]
    pub exact: bool,
    /// The path of the [module](crate::module) that it belongs to, if the program names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Cow<'static, str>>,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

impl OpEvent {
    /// The inputs, by place, whose memory outputs take: the first output that of the first of them, and so on. `fits` states
    /// whether the memory of a storage is as large as an output of so many bytes.
    pub fn overwritten(&self, fits: impl Fn(u64, usize) -> bool) -> Vec<usize> {
        let mut overwritten = Vec::new();
        for made in &self.outputs {
            let is_possible = |place: &&usize| {
                self.in_place.contains(place)
                    && !overwritten.contains(*place)
                    && fits(self.inputs[**place], made.bytes)
            };
            let Some(&place) = self.consumed.iter().find(is_possible) else { break };
            overwritten.push(place);
        }
        overwritten
    }
}

fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}

fn yes() -> bool {
    true
}

/// An op that the pool ran by itself, to rematerialize dropped storages, or to encode or decode.
/// See [`Event`] for an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recomputed {
    /// The op.
    pub name: Cow<'static, str>,
    /// Storages that it rematerialized or made.
    pub storages: Vec<Made>,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

/// A copy between tiers, or within device memory.
/// See [`Event`] for an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// [`Lane::Offload`] or [`Lane::Fetch`]; [`Lane::ToPeer`] or [`Lane::FromPeer`]; [`Lane::Spill`] or [`Lane::Load`] between host memory and the disk.
    pub lane: Lane,
    /// The storage.
    pub storage: u64,
    /// Number of bytes.
    pub bytes: usize,
    /// Whether they were moved within device memory, and not to or from the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within: bool,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

/// A policy's decision.
/// See [`Event`] for an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evicted {
    /// The evicted storage.
    pub storage: u64,
    /// Its bytes.
    pub bytes: usize,
    /// The op that made it.
    pub made_by: Cow<'static, str>,
    /// The eviction method.
    pub how: How,
    /// The predicted cost: copies out and back, or the ops to run again.
    pub cost_ns: u64,
}

/// An eviction method.
/// See [`Event`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The bytes were copied to the host.
    Offload,
    /// The host had the bytes already.
    Clean,
    /// The bytes were dropped, to be recomputed.
    Drop,
    /// The bytes were encoded in fewer bits.
    Encode,
}
