//! PyTorch's memory snapshots: the keys that its readers look up, and what they take for granted.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use burn_overcommit::engine::Tier;
use burn_overcommit::replay::{Replay, Settings};
use burn_overcommit::report::{write_memory_viz_json, write_memory_viz_pickle};
use burn_overcommit::trace::{Event, Recording};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, SimProfile, configure, recording};
use serde_json::Value;

use super::run::{runs, training_step};

fn pickled(recording: &Recording) -> Value {
    let mut file = Vec::new();
    write_memory_viz_pickle(recording, &mut file).unwrap();
    serde_pickle::from_slice(&file, Default::default()).unwrap()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of}"))
}

fn list<'a>(of: &'a Value, key: &str) -> &'a Vec<Value> {
    of[key].as_array().unwrap_or_else(|| panic!("{key} of {of}"))
}

fn check_frames(of: &Value) {
    for frame in list(of, "frames") {
        assert!(
            frame["name"].is_string() && frame["filename"].is_string() && frame["line"].is_u64(),
            "{frame}"
        );
    }
}

#[test]
fn the_pickle_and_the_json_say_the_same() {
    for recording in runs() {
        let mut file = Vec::new();
        write_memory_viz_json(&recording, &mut file).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&file).unwrap(), pickled(&recording));
    }
}

#[test]
fn segments_are_covered_by_their_blocks() {
    for recording in runs() {
        for segment in list(&pickled(&recording), "segments") {
            assert!(segment["segment_type"].is_string() && segment["device"] == 0 && segment["stream"] == 0);
            let (mut at, mut allocated) = (number(segment, "address"), 0);
            let end = at + number(segment, "total_size");
            for block in list(segment, "blocks") {
                assert_eq!(number(block, "address"), at, "blocks lie side by side");
                check_frames(block);
                assert!(number(block, "requested_size") <= number(block, "size"));
                match block["state"].as_str().unwrap() {
                    "active_allocated" => allocated += number(block, "size"),
                    state => assert_eq!(state, "inactive"),
                }
                at += number(block, "size");
            }
            assert_eq!(at, end);
            let sizes = (number(segment, "allocated_size"), number(segment, "active_size"));
            assert_eq!(sizes, (allocated, allocated));
        }
    }
}

/// The entries of the only device.
fn entries(snapshot: &Value) -> &Vec<Value> {
    list(snapshot, "device_traces")[0].as_array().unwrap()
}

/// A run with views of pages, as they are on a real device, and runs with all memory and with a slab.
fn runs_by_addresses() -> Vec<Recording> {
    let program = training_step(12);
    let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
    let replay = Replay::new(&program, profile, 3).unwrap();
    let live_peak_bytes = replay.live_peak_bytes();
    let runs = [(1 << 49, None), (live_peak_bytes / 2, Some(true)), (live_peak_bytes / 2, Some(false))];
    let mut recordings: Vec<Recording> = runs
        .into_iter()
        .map(|(budget_bytes, page_mapping)| {
            let settings = Settings { page_mapping, ..Settings::new(budget_bytes) };
            replay.record(&settings).unwrap().1
        })
        .collect();
    recordings.extend([false, true].map(real_run));
    recordings
}

/// Tensors of many sizes that come and go on the processor, in less memory than they take.
fn real_run(page_mapping: bool) -> Recording {
    let device = OvercommitDevice::Host(if page_mapping { 41 } else { 40 });
    configure(&device, Config::new().budget("24 MiB").page_mapping(page_mapping).record()).unwrap();
    let mut tensors: Vec<Tensor<Overcommit, 1>> = Vec::new();
    for step in 0..60 {
        let length = 1000 + 70_001 * (step * 7 % 11);
        tensors.push(Tensor::ones([length], &device).exp().sort(0));
        if step % 3 == 2 {
            tensors.swap_remove(step % tensors.len()).into_data();
        }
    }
    drop(tensors);
    recording(&device).unwrap()
}

/// Goes back from the end through all entries, as the viewer does. It finds each block in a segment and merges segments that touch.
struct Viewer {
    segments: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, u64>,
    most_reserved: u64,
}

impl Viewer {
    fn at_end(snapshot: &Value) -> Self {
        let mut viewer = Viewer { segments: BTreeMap::new(), blocks: BTreeMap::new(), most_reserved: 0 };
        for segment in list(snapshot, "segments") {
            assert_eq!(segment["is_expandable"], true);
            viewer.map(number(segment, "address"), number(segment, "total_size"));
            for block in list(segment, "blocks").iter().filter(|block| block["state"] == "active_allocated") {
                viewer.blocks.insert(number(block, "address"), number(block, "size"));
            }
        }
        viewer.check();
        viewer
    }

    fn map(&mut self, address: u64, size: u64) {
        let (mut begin, mut end) = (address, address + size);
        if let Some((&before, &until)) = self.segments.range(..end).next_back() {
            assert!(until <= begin, "{address} is mapped twice");
            begin = if until == begin { before } else { begin };
        }
        end = self.segments.remove(&end).unwrap_or(end);
        self.segments.insert(begin, end);
        self.most_reserved = self.most_reserved.max(self.reserved());
    }

    fn unmap(&mut self, address: u64, size: u64) {
        let (begin, end) = self.segment_of(address, size);
        self.segments.remove(&begin);
        for (begin, end) in [(begin, address), (address + size, end)] {
            if begin < end {
                self.segments.insert(begin, end);
            }
        }
    }

    fn segment_of(&self, address: u64, size: u64) -> (u64, u64) {
        let before = self.segments.range(..=address).next_back().map(|(&begin, &end)| (begin, end));
        before
            .filter(|&(_, end)| address + size <= end)
            .unwrap_or_else(|| panic!("{address} is in no segment"))
    }

    fn reserved(&self) -> u64 {
        self.segments.iter().map(|(begin, end)| end - begin).sum()
    }

    fn go_back(&mut self, entry: &Value) {
        let (address, size) = (number(entry, "addr"), number(entry, "size"));
        match entry["action"].as_str().unwrap() {
            "segment_map" => self.unmap(address, size),
            "segment_unmap" => self.map(address, size),
            "alloc" => assert_eq!(self.blocks.remove(&address), Some(size), "{entry} is not there"),
            "free_completed" => assert!(self.blocks.insert(address, size).is_none(), "{entry} was there"),
            action => {
                assert_eq!(action, "free_requested");
                assert!(self.blocks.contains_key(&address));
            }
        }
    }

    fn check(&self) {
        for (&address, &size) in &self.blocks {
            self.segment_of(address, size);
        }
        let ends = self.blocks.iter().map(|(address, size)| address + size);
        assert!(ends.zip(self.blocks.keys().skip(1)).all(|(end, &next)| end <= next), "blocks overlap");
    }
}

#[test]
fn the_viewer_finds_each_block_in_a_segment_and_no_more_memory_than_the_budget() {
    for recording in runs().into_iter().chain(runs_by_addresses()) {
        let snapshot = pickled(&recording);
        let entries = entries(&snapshot);
        let mut viewer = Viewer::at_end(&snapshot);
        for (index, entry) in entries.iter().enumerate().rev() {
            number(entry, "time_us");
            check_frames(entry);
            if entry["action"] == "free_requested" {
                assert_eq!(
                    (&entries[index + 1]["action"], &entries[index + 1]["addr"]),
                    (&"free_completed".into(), &entry["addr"])
                );
            }
            assert!(entry["action"] != "alloc" || !list(entry, "frames").is_empty());
            viewer.go_back(entry);
            viewer.check();
        }
        assert!(viewer.most_reserved <= recording.header.budget_bytes as u64);
        let most = recording.events.iter().filter_map(|event| match event {
            Event::Reserve { tier: Tier::Device, bytes } => Some(*bytes as u64),
            _ => None,
        });
        assert!(most.max().is_none_or(|most| viewer.most_reserved <= most));
        let of_memory = |event: &&Event| {
            matches!(event, Event::Reserve { .. } | Event::Allocate { .. } | Event::Release { .. })
        };
        let began_anew = matches!(recording.events.iter().find(of_memory), Some(Event::Reserve { .. }));
        assert!(
            !began_anew || (viewer.blocks.is_empty() && viewer.segments.is_empty()),
            "nothing was there before"
        );
    }
}

#[test]
fn frames_name_the_op_that_a_block_is_for() {
    let snapshot = pickled(&runs()[0]);
    let entries = entries(&snapshot);
    let names = |entry: &Value| -> Vec<String> {
        let text = |frame: &Value| {
            format!("{}:{}", frame["filename"].as_str().unwrap(), frame["name"].as_str().unwrap())
        };
        list(entry, "frames").iter().map(text).collect()
    };
    let has = |wanted: &str| entries.iter().any(|entry| names(entry).iter().any(|name| name == wanted));
    for wanted in [
        "op:matmul",
        "op:matmul backward",
        "recompute:relu <&\">",
        "fetch of storage:matmul",
        "note:backward",
    ] {
        assert!(has(wanted), "{wanted}");
    }
    assert!(has("evict storage:Drop of what relu <&\"> made"));
    let annotations = list(&snapshot, "external_annotations");
    assert_eq!(annotations.iter().filter(|annotation| annotation["name"] == "iteration 3").count(), 2);
}

/// Of nine bytes, the opcode `LONG1` makes a big integer in the viewer's JavaScript, which it cannot add to others.
#[test]
fn no_number_takes_more_than_eight_bytes() {
    let (tier, bytes) = (Tier::Device, 5 << 30);
    let events = vec![
        Event::Reserve { tier, bytes },
        Event::Allocate { tier, address: 0x7f00_0000_0000, bytes },
        Event::Release { tier, address: 0x7f00_0000_0000, bytes },
    ];
    let mut file = Vec::new();
    write_memory_viz_pickle(&Recording { events, ..Recording::default() }, &mut file).unwrap();
    let longs = |length: u8| file.windows(2).filter(|pair| **pair == [0x8a, length]).count();
    assert!(longs(8) > 8);
    assert_eq!(longs(9), 0);
}
