//! PyTorch's memory snapshots: the keys that its readers look up, and what they take for granted.

use std::collections::HashMap;

use burn_overcommit::engine::Tier;
use burn_overcommit::report::{write_memory_viz_json, write_memory_viz_pickle};
use burn_overcommit::trace::{Event, Recording};
use serde_json::Value;

use super::run::runs;

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

#[test]
fn what_is_allocated_is_freed_at_most_once_and_in_a_segment() {
    for recording in runs() {
        let snapshot = pickled(&recording);
        let traces = list(&snapshot, "device_traces");
        let entries = traces[0].as_array().unwrap();
        let mut segments: HashMap<u64, u64> = HashMap::new();
        let mut blocks: HashMap<u64, u64> = HashMap::new();
        let mut known = true;
        for (index, entry) in entries.iter().enumerate() {
            let (address, size) = (number(entry, "addr"), number(entry, "size"));
            number(entry, "time_us");
            check_frames(entry);
            let mut inside = segments.iter().map(|(&begin, &size)| begin..begin + size);
            let inside = inside.any(|range| range.contains(&address) && address + size <= range.end);
            match entry["action"].as_str().unwrap() {
                "segment_alloc" => assert!(segments.insert(address, size).is_none()),
                "segment_free" => assert_eq!(segments.remove(&address), Some(size)),
                "alloc" => {
                    assert!(inside, "{entry} lies in no segment");
                    assert!(blocks.insert(address, size).is_none(), "{entry} is in use");
                    assert!(!list(entry, "frames").is_empty());
                }
                "free_requested" => {
                    assert!(inside, "{entry} lies in no segment");
                    assert_eq!(entries[index + 1]["action"], "free_completed");
                    assert_eq!(entries[index + 1]["addr"], address);
                    // Only a recording that begins in the middle frees what it did not see come.
                    let freed = blocks.remove(&address);
                    assert!(freed.is_none_or(|freed| freed == size));
                    known &= freed.is_some();
                }
                action => assert_eq!(action, "free_completed"),
            }
        }
        let of_memory = |event: &&Event| {
            matches!(event, Event::Reserve { .. } | Event::Allocate { .. } | Event::Release { .. })
        };
        let began_anew = matches!(recording.events.iter().find(of_memory), Some(Event::Reserve { .. }));
        assert!(known || !began_anew);
        let held = list(&snapshot, "segments").iter().flat_map(|segment| list(segment, "blocks"));
        let held = held.filter(|block| block["state"] == "active_allocated");
        let mut held: Vec<_> = held.map(|block| (number(block, "address"), number(block, "size"))).collect();
        let mut blocks: Vec<_> = blocks.into_iter().collect();
        held.sort_unstable();
        blocks.sort_unstable();
        assert_eq!(held, blocks, "what is there at the end is what was not freed");
    }
}

#[test]
fn frames_name_the_op_that_a_block_is_for() {
    let snapshot = pickled(&runs()[0]);
    let entries = list(&snapshot, "device_traces")[0].as_array().unwrap().clone();
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
