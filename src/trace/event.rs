//! What can happen in a run, in the order it was submitted.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::engine::{Lane, Tier};
use crate::op::Work;

/// What a trace says of itself, in its first line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format: 1.
    pub trace: u32,
    /// Where the program ran, for people.
    pub device: String,
    /// Device memory it could use.
    pub budget_bytes: usize,
    /// Host memory it could use.
    pub host_limit_bytes: usize,
    /// The memory policy.
    pub policy: String,
    /// Whether the times are the world's, or a simulation's.
    pub simulated: bool,
}

/// Storages are numbered from zero in the order they are made; no number is used twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    // What the program did.
    /// It submitted an op.
    Op(OpEvent),
    /// It has a storage on the device that is there all the time, such as a weight.
    Constant(Made),
    /// It made a tensor of its own data, in host memory.
    Write(Made),
    /// It waited for a tensor's data.
    Read(u64),
    /// It dropped the last handle of a storage.
    Free(u64),
    /// It waited for all work.
    Sync,
    /// It said where it is, such as the beginning of the backward pass.
    Note(String),

    // What the pool did.
    /// It ran an op of its own accord.
    Recompute(Recomputed),
    /// It moved a storage's bytes.
    Copy(Copied),
    /// It took a storage's device memory.
    Evict(Evicted),
    /// A block of a tier is in use from now on.
    Allocate {
        /// The tier.
        tier: Tier,
        /// Its first byte.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// The block at this address is free again.
    Release {
        /// The tier.
        tier: Tier,
        /// Its first byte.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// So much of a tier is mapped from now on.
    Reserve {
        /// The tier.
        tier: Tier,
        /// All that is.
        bytes: usize,
    },
}

/// A storage and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Its number.
    pub storage: u64,
    /// Its exact size.
    pub bytes: usize,
}

/// When a piece of work ran, in nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// How many pieces its lane had been given, itself included.
    #[serde(skip)]
    pub sequence: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

/// An op, and all that a replay must know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpEvent {
    /// For people.
    pub name: Cow<'static, str>,
    /// Storages it read; one may come twice.
    pub inputs: Vec<u64>,
    /// Inputs, by place, of which it took the last handle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumed: Vec<usize>,
    /// Inputs, by place, whose memory its first output may take if consumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<usize>,
    /// What it made.
    pub outputs: Vec<Made>,
    /// Its workspace.
    #[serde(default)]
    pub scratch_bytes: usize,
    /// What it costs.
    pub work: Work,
    /// Whether it gives the same bits when run again.
    #[serde(default = "yes")]
    pub exact: bool,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

fn yes() -> bool {
    true
}

/// An op that the pool ran of its own accord: again, because what it had made was dropped, or to encode or decode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recomputed {
    /// The op.
    pub name: Cow<'static, str>,
    /// The storages that it brought back, or made.
    pub storages: Vec<Made>,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

/// A copy between tiers, or within device memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// [`Lane::Offload`] or [`Lane::Fetch`].
    pub lane: Lane,
    /// Whose bytes.
    pub storage: u64,
    /// How many.
    pub bytes: usize,
    /// Whether they were moved within device memory, and not to or from the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within: bool,
    /// When it ran.
    #[serde(default)]
    pub ran: Ran,
}

/// A policy's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evicted {
    /// Whose memory was taken.
    pub storage: u64,
    /// How much.
    pub bytes: usize,
    /// The op that had made it.
    pub made_by: Cow<'static, str>,
    /// What became of the bytes.
    pub how: How,
    /// What that was predicted to cost: copies out and back, or the ops to run again.
    pub cost_ns: u64,
}

/// What became of evicted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// They were copied to the host.
    Offload,
    /// The host had them already.
    Clean,
    /// They were forgotten, to be recomputed.
    Drop,
    /// They are kept in fewer bits.
    Encode,
}
