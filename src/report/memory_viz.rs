//! PyTorch's memory snapshots, as its viewer and `torch.cuda._memory_viz` read them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::iter::Peekable;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::ledger::Ledger;
use super::scene::{Scene, Segment};
use crate::engine::Tier;
use crate::trace::{Event, Recording};

/// The size from which PyTorch calls a segment large.
const LARGE_BYTES: u64 = 1 << 20;

/// Writes a recording as a memory snapshot of PyTorch, a pickle for <https://pytorch.org/memory_viz> and for
/// `python -m torch.cuda._memory_viz`: every block of device memory, when it came and went, and for what. A stack's frames
/// are, from within: what the block holds; the op that it was placed for; the last note before.
///
/// ```
/// use burn_overcommit::report::write_memory_viz_pickle;
/// use burn_overcommit::trace::Recording;
///
/// let mut file = Vec::new();
/// write_memory_viz_pickle(&Recording::default(), &mut file)?;
/// assert_eq!(file.last(), Some(&b'.'));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_memory_viz_pickle(recording: &Recording, mut out: impl Write) -> io::Result<()> {
    let scene = Scene::new(recording);
    serde_pickle::to_writer(&mut out, &Snapshot::new(&scene), Default::default())
        .map_err(io::Error::other)?;
    out.flush()
}

/// Writes the same as [`write_memory_viz_pickle`], as JSON.
///
/// ```
/// use burn_overcommit::report::write_memory_viz_json;
/// use burn_overcommit::trace::Recording;
///
/// let mut file = Vec::new();
/// write_memory_viz_json(&Recording::default(), &mut file)?;
/// assert!(file.starts_with(b"{\"segments\":[]"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_memory_viz_json(recording: &Recording, mut out: impl Write) -> io::Result<()> {
    let scene = Scene::new(recording);
    serde_json::to_writer(&mut out, &Snapshot::new(&scene))?;
    out.flush()
}

/// A number as it is written, which is signed: a pickle stores an unsigned number of more than 31 bits in nine bytes,
/// which the viewer reads as a big integer that it cannot add to others.
struct Number(u64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(i64::try_from(self.0).unwrap_or(i64::MAX))
    }
}

#[derive(Serialize)]
struct Snapshot<'a> {
    segments: Vec<SegmentState<'a>>,
    /// One device. Readers want a list, not the tuple that an array becomes.
    device_traces: Vec<Trace<'a>>,
    allocator_settings: AllocatorSettings,
    external_annotations: Vec<Annotation<'a>>,
}

/// A segment of device memory, as it is at the end.
#[derive(Serialize)]
struct SegmentState<'a> {
    device: u32,
    address: Number,
    total_size: Number,
    allocated_size: Number,
    active_size: Number,
    requested_size: Number,
    stream: u32,
    segment_type: &'static str,
    segment_pool_id: (u32, u32),
    is_expandable: bool,
    blocks: Vec<BlockState<'a>>,
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct BlockState<'a> {
    address: Number,
    size: Number,
    requested_size: Number,
    state: &'static str,
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    action: &'static str,
    addr: Number,
    size: Number,
    stream: u32,
    time_us: Number,
    pool_id: (u32, u32),
    frames: Vec<Frame<'a>>,
}

/// A frame of a stack.
#[derive(Serialize)]
struct Frame<'a> {
    name: Cow<'a, str>,
    /// The kind of thing that the name is for.
    filename: &'static str,
    /// The number of the op or the storage.
    line: Number,
}

#[derive(Serialize)]
struct Annotation<'a> {
    device: u32,
    time_us: Number,
    stage: &'static str,
    name: &'a str,
}

/// Settings of PyTorch's allocator, which this crate's pool does not have.
#[derive(Serialize)]
#[allow(non_snake_case)]
struct AllocatorSettings {
    PYTORCH_CUDA_ALLOC_CONF: &'static str,
    max_split_size: i64,
    garbage_collection_threshold: f64,
    expandable_segments: bool,
    pinned_num_register_threads: u32,
    release_lock_on_cudamalloc: bool,
    pinned_use_cuda_host_register: bool,
    roundup_power2_divisions: Vec<()>,
}

/// Writes the history of a device, entry by entry.
struct Trace<'a>(&'a Scene<'a>);

impl<'a> Snapshot<'a> {
    fn new(scene: &'a Scene<'a>) -> Self {
        Snapshot {
            segments: segments_at_end(scene),
            device_traces: vec![Trace(scene)],
            allocator_settings: AllocatorSettings {
                PYTORCH_CUDA_ALLOC_CONF: "",
                max_split_size: -1,
                garbage_collection_threshold: 0.0,
                expandable_segments: false,
                pinned_num_register_threads: 1,
                release_lock_on_cudamalloc: false,
                pinned_use_cuda_host_register: false,
                roundup_power2_divisions: Vec::new(),
            },
            external_annotations: annotations(scene),
        }
    }
}

impl Serialize for Trace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let scene = self.0;
        let mut entries = serializer.serialize_seq(None)?;
        for segment in scene.segments.iter().filter(|segment| segment.from.is_none()) {
            entries.serialize_element(&segment_entry(scene, segment, "segment_alloc", 0))?;
        }
        for (index, event) in scene.events.iter().enumerate() {
            let block = |action, address, size: usize, frames| Entry {
                action,
                addr: Number(address),
                size: Number(size as u64),
                stream: 0,
                time_us: Number(scene.moments[index] / 1000),
                pool_id: (0, 0),
                frames,
            };
            match *event {
                Event::Allocate { tier: Tier::Device, address, bytes } => {
                    entries.serialize_element(&block("alloc", address, bytes, came(scene, index)))?;
                }
                // The viewers recognise the two as one only if they follow each other.
                Event::Release { tier: Tier::Device, address, bytes } => {
                    for action in ["free_requested", "free_completed"] {
                        entries.serialize_element(&block(action, address, bytes, went(scene, index)))?;
                    }
                }
                Event::Reserve { tier: Tier::Device, .. } => {
                    let of = |at: Option<usize>| at == Some(index);
                    for segment in scene.segments.iter().filter(|segment| of(segment.until)) {
                        entries.serialize_element(&segment_entry(scene, segment, "segment_free", index))?;
                    }
                    for segment in scene.segments.iter().filter(|segment| of(segment.from)) {
                        entries.serialize_element(&segment_entry(scene, segment, "segment_alloc", index))?;
                    }
                }
                _ => {}
            }
        }
        entries.end()
    }
}

fn segment_entry<'a>(scene: &Scene<'a>, segment: &Segment, action: &'static str, index: usize) -> Entry<'a> {
    let time_us = Number(scene.moments.get(index).map_or(0, |ns| ns / 1000));
    let (addr, size) = (Number(segment.address), Number(segment.bytes));
    Entry { action, addr, size, stream: 0, time_us, pool_id: (0, 0), frames: planned(scene, index) }
}

/// The reason for which a block was allocated.
fn came<'a>(scene: &Scene<'a>, index: usize) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    match scene.next_work(index).map(|work| &scene.events[work]) {
        Some(Event::Copy(copied)) => {
            let name = scene.made_by(copied.storage).into();
            let filename = if copied.within { "move of storage" } else { "fetch of storage" };
            frames.push(Frame { name, filename, line: Number(copied.storage) });
        }
        Some(Event::Recompute(recomputed)) => {
            let line = recomputed.storages.first().map_or(0, |made| made.storage);
            frames.push(Frame {
                name: recomputed.name.as_ref().into(),
                filename: "recompute",
                line: Number(line),
            });
        }
        _ => {}
    }
    frames.extend(planned(scene, index));
    frames
}

/// The reason for which a block was released.
fn went<'a>(scene: &Scene<'a>, index: usize) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    if let Some(Event::Evict(evicted)) = index.checked_sub(1).map(|before| &scene.events[before]) {
        let name = format!("{:?} of what {} made", evicted.how, evicted.made_by).into();
        frames.push(Frame { name, filename: "evict storage", line: Number(evicted.storage) });
    }
    frames.extend(planned(scene, index));
    frames
}

/// The op that an event is for, and its place in the program.
fn planned<'a>(scene: &Scene<'a>, index: usize) -> Vec<Frame<'a>> {
    let op = scene.next_op(index).and_then(|op| match &scene.events[op] {
        Event::Op(op) => Some(op.name.as_ref()),
        _ => None,
    });
    let op =
        op.map(|name| Frame { name: name.into(), filename: "op", line: Number(scene.ops_before(index) + 1) });
    let note = scene.note(index).map(|note| Frame { name: note.into(), filename: "note", line: Number(0) });
    op.into_iter().chain(note).collect()
}

/// Each segment that is mapped at the end, with blocks for all of its bytes, free ones included.
fn segments_at_end<'a>(scene: &Scene<'a>) -> Vec<SegmentState<'a>> {
    let mut ledger = Ledger::default();
    let mut came_at = HashMap::new();
    for (index, event) in scene.events.iter().enumerate() {
        ledger.take(event);
        if let Event::Allocate { tier: Tier::Device, address, .. } = event {
            came_at.insert(*address, index);
        }
    }
    let in_use: Vec<BlockState> = ledger
        .device_blocks()
        .into_iter()
        .map(|(address, block)| {
            let exact = block.storage.and_then(|number| ledger.storage(number)).map(|storage| storage.bytes);
            BlockState {
                address: Number(address),
                size: Number(block.bytes as u64),
                requested_size: Number(exact.unwrap_or(block.bytes) as u64),
                state: "active_allocated",
                frames: came(scene, came_at[&address]),
            }
        })
        .collect();
    let mut in_use = in_use.into_iter().peekable();
    let mut mapped: Vec<&Segment> = scene.segments.iter().filter(|segment| segment.until.is_none()).collect();
    mapped.sort_by_key(|segment| segment.address);
    mapped.into_iter().map(|segment| segment_state(scene, segment, &mut in_use)).collect()
}

fn segment_state<'a>(
    scene: &Scene<'a>,
    segment: &Segment,
    in_use: &mut Peekable<impl Iterator<Item = BlockState<'a>>>,
) -> SegmentState<'a> {
    let gap = |address, size| BlockState {
        address: Number(address),
        size: Number(size),
        requested_size: Number(0),
        state: "inactive",
        frames: Vec::new(),
    };
    let end = segment.address + segment.bytes;
    let (mut blocks, mut at) = (Vec::new(), segment.address);
    let (mut allocated_size, mut requested_size) = (0, 0);
    while let Some(block) = in_use.next_if(|block| block.address.0 < end) {
        if block.address.0 > at {
            blocks.push(gap(at, block.address.0 - at));
        }
        at = block.address.0 + block.size.0;
        allocated_size += block.size.0;
        requested_size += block.requested_size.0;
        blocks.push(block);
    }
    if at < end {
        blocks.push(gap(at, end - at));
    }
    SegmentState {
        device: 0,
        address: Number(segment.address),
        total_size: Number(segment.bytes),
        allocated_size: Number(allocated_size),
        active_size: Number(allocated_size),
        requested_size: Number(requested_size),
        stream: 0,
        segment_type: if segment.bytes > LARGE_BYTES { "large" } else { "small" },
        segment_pool_id: (0, 0),
        is_expandable: false,
        blocks,
        frames: planned(scene, segment.from.unwrap_or(0)),
    }
}

/// Each note lasts until the next.
fn annotations<'a>(scene: &Scene<'a>) -> Vec<Annotation<'a>> {
    let mut notes: Vec<(u64, &str)> = Vec::new();
    for (index, event) in scene.events.iter().enumerate() {
        if let Event::Note(text) = event {
            notes.push((scene.moments[index] / 1000, text.as_str()));
        }
    }
    let end_us = scene.moments.last().map_or(0, |ns| ns / 1000);
    let ends = notes.iter().skip(1).map(|note| note.0).chain([end_us]);
    let pairs = notes.iter().zip(ends).flat_map(|(&(begin_us, name), end_us)| {
        [("START", begin_us), ("END", end_us)].map(|(stage, time_us)| Annotation {
            device: 0,
            time_us: Number(time_us),
            stage,
            name,
        })
    });
    pairs.collect()
}
