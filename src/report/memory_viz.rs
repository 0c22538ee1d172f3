//! PyTorch's memory snapshots, as its viewer and `torch.cuda._memory_viz` read them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::iter::Peekable;
use std::ops::Range;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::ledger::Ledger;
use super::memory_use::{Category, of_storages};
use super::scene::Scene;
use super::segments::Segments;
use crate::engine::Tier;
use crate::trace::{Event, Recording};

/// The size from which PyTorch calls a segment large.
const LARGE_BYTES: u64 = 1 << 20;

/// Writes a recording as a memory snapshot of PyTorch, a pickle for <https://pytorch.org/memory_viz> and for
/// `python -m torch.cuda._memory_viz`: every block of device memory, when it came and went, and for what. A stack's frames
/// are, from within: what the block holds; the op that it was placed for; its module; the last note before. Where the program
/// [names](crate::module) its parameters, blocks have the categories of PyTorch's profiler.
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
    let (scene, memory) = (Scene::new(recording), Memory::of(recording));
    serde_pickle::to_writer(&mut out, &Snapshot::new(&scene, &memory), Default::default())
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
    let (scene, memory) = (Scene::new(recording), Memory::of(recording));
    serde_json::to_writer(&mut out, &Snapshot::new(&scene, &memory))?;
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

/// A segment of device memory, as it is at the end. It came in parts, so that it has no frames of its own.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
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
struct Trace<'a> {
    scene: &'a Scene<'a>,
    memory: &'a Memory,
}

/// What is mapped, and what blocks are in training.
struct Memory {
    segments: Segments,
    /// By the event that allocated the block. Empty if the program does not name its parameters.
    categories: HashMap<usize, Category>,
}

impl Memory {
    fn of(recording: &Recording) -> Self {
        let of_storages = of_storages(&recording.program());
        let mut categories = HashMap::new();
        let (mut ledger, mut placed) = (Ledger::default(), Vec::new());
        for (index, event) in recording.events.iter().enumerate() {
            ledger.take(event);
            match event {
                Event::Allocate { tier: Tier::Device, address, .. } => placed.push((index, *address)),
                // Now it is known what the blocks are for.
                _ if event.ran().is_some() => {
                    let category =
                        |(index, address)| Some((index, *of_storages.get(&ledger.owner(address)?)?));
                    categories.extend(placed.drain(..).filter_map(category));
                }
                _ => {}
            }
        }
        Memory { segments: Segments::of(&recording.events), categories }
    }

    /// The category of what an event allocates or maps. Where any block has one, the viewer wants one called `unknown` as well.
    fn category(&self, event: usize, action: &str) -> Option<&'static str> {
        let known = self.categories.get(&event).filter(|_| action == "alloc");
        (!self.categories.is_empty()).then(|| known.map_or("unknown", |category| category.name()))
    }
}

impl<'a> Snapshot<'a> {
    fn new(scene: &'a Scene<'a>, memory: &'a Memory) -> Self {
        Snapshot {
            segments: segments_at_end(scene, &memory.segments),
            device_traces: vec![Trace { scene, memory }],
            allocator_settings: AllocatorSettings {
                PYTORCH_CUDA_ALLOC_CONF: "",
                max_split_size: -1,
                garbage_collection_threshold: 0.0,
                expandable_segments: true,
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
        let scene = self.scene;
        let mut entries = serializer.serialize_seq(None)?;
        let mut changes = self.memory.segments.changes.iter().peekable();
        for (index, event) in scene.events.iter().enumerate() {
            let entry = |action, address, size: u64, frames| Entry {
                action,
                addr: Number(address),
                size: Number(size),
                stream: 0,
                time_us: Number(scene.moments[index] / 1000),
                pool_id: (0, 0),
                category: self.memory.category(index, action),
                frames,
            };
            while let Some(change) = changes.next_if(|change| change.event == index) {
                let action = if change.maps { "segment_map" } else { "segment_unmap" };
                let Range { start, end } = change.addresses;
                entries.serialize_element(&entry(action, start, end - start, planned(scene, index)))?;
            }
            match *event {
                Event::Allocate { tier: Tier::Device, address, bytes } => {
                    entries.serialize_element(&entry("alloc", address, bytes as u64, came(scene, index)))?;
                }
                // The viewers recognise the two as one only if they follow each other.
                Event::Release { tier: Tier::Device, address, bytes } => {
                    for action in ["free_requested", "free_completed"] {
                        entries.serialize_element(&entry(
                            action,
                            address,
                            bytes as u64,
                            went(scene, index),
                        ))?;
                    }
                }
                _ => {}
            }
        }
        entries.end()
    }
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
    let next = scene.next_op(index);
    let op = next.and_then(|op| match &scene.events[op] {
        Event::Op(op) => Some(op.name.as_ref()),
        _ => None,
    });
    let op =
        op.map(|name| Frame { name: name.into(), filename: "op", line: Number(scene.ops_before(index) + 1) });
    let module = next.and_then(|op| scene.modules.of_op(op));
    let module = module.map(|module| Frame { name: module.into(), filename: "module", line: Number(0) });
    let note = scene.note(index).map(|note| Frame { name: note.into(), filename: "note", line: Number(0) });
    op.into_iter().chain(module).chain(note).collect()
}

/// Each segment that is mapped at the end, with blocks for all of its bytes, free ones included.
fn segments_at_end<'a>(scene: &Scene<'a>, segments: &Segments) -> Vec<SegmentState<'a>> {
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
    segments.at_end().into_iter().map(|addresses| segment_state(addresses, &mut in_use)).collect()
}

fn segment_state<'a>(
    addresses: Range<u64>,
    in_use: &mut Peekable<impl Iterator<Item = BlockState<'a>>>,
) -> SegmentState<'a> {
    let gap = |address, size| BlockState {
        address: Number(address),
        size: Number(size),
        requested_size: Number(0),
        state: "inactive",
        frames: Vec::new(),
    };
    let Range { start, end } = addresses;
    let (mut blocks, mut at) = (Vec::new(), start);
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
        address: Number(start),
        total_size: Number(end - start),
        allocated_size: Number(allocated_size),
        active_size: Number(allocated_size),
        requested_size: Number(requested_size),
        stream: 0,
        segment_type: if end - start > LARGE_BYTES { "large" } else { "small" },
        segment_pool_id: (0, 0),
        is_expandable: true,
        blocks,
        frames: Vec::new(),
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
