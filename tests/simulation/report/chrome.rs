//! Chrome's trace-event format: the required keys and types of each kind of event, and what Perfetto makes of them.

use std::collections::HashMap;

use burn_overcommit::engine::Tier;
use burn_overcommit::report::write_chrome;
use burn_overcommit::trace::{Event, How, Recording};
use serde_json::Value;

use super::run::{kinds, runs};

fn written(recording: &Recording) -> Vec<Value> {
    let mut file = Vec::new();
    write_chrome(recording, &mut file).unwrap();
    let mut trace: Value = serde_json::from_slice(&file).unwrap();
    assert!(trace["otherData"].is_object());
    match trace["traceEvents"].take() {
        Value::Array(events) => events,
        other => panic!("{other}"),
    }
}

fn of_kind<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["ph"] == kind)
}

/// As Perfetto reads them: what is less than one is cut off.
fn nanoseconds(of: &Value) -> u64 {
    (of.as_f64().unwrap() * 1000.0) as u64
}

#[test]
fn every_event_has_what_its_kind_needs() {
    for recording in runs() {
        let events = written(&recording);
        for event in &events {
            let has = |key: &str, right: fn(&Value) -> bool| assert!(right(&event[key]), "{key} of {event}");
            let time = |value: &Value| value.as_f64().is_some_and(|time| time >= 0.0);
            has("name", Value::is_string);
            has("pid", Value::is_u64);
            has("tid", Value::is_u64);
            has("ts", time);
            match event["ph"].as_str().unwrap() {
                "X" => has("dur", time),
                "C" => has("args", |args| args.as_object().unwrap().values().all(Value::is_u64)),
                "M" => has("args", |args| args["name"].is_string() || args["sort_index"].is_u64()),
                "i" => has("s", |scope| matches!(scope.as_str(), Some("t" | "p"))),
                "s" | "f" => {
                    has("id", Value::is_u64);
                    has("cat", Value::is_string);
                }
                other => panic!("a kind that is not of ours: {other}"),
            }
        }
    }
}

#[test]
fn all_work_is_there_once_on_named_lanes() {
    for recording in runs() {
        let (events, kinds) = (written(&recording), kinds(&recording));
        let lanes: HashMap<u64, &str> = of_kind(&events, "M")
            .filter(|event| event["name"] == "thread_name")
            .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
            .collect();
        let count = |lane: &str, category: &str| {
            of_kind(&events, "X")
                .filter(|event| lanes[&event["tid"].as_u64().unwrap()] == lane && event["cat"] == category)
                .count()
        };
        let expected = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
        assert_eq!(count("compute", "op"), expected("op"));
        assert_eq!(count("compute", "recompute"), expected("recompute"));
        let moves = ["compute", "offload", "fetch"].map(|lane| (lane, "move"));
        let copies = [("offload", "offload"), ("fetch", "fetch")].into_iter().chain(moves);
        let copies = copies.map(|(lane, category)| count(lane, category));
        assert_eq!(copies.sum::<usize>(), expected("copy"));
        let drops =
            recording.events.iter().filter(|event| matches!(event, Event::Evict(e) if e.how == How::Drop));
        let notes = expected("note");
        assert_eq!(of_kind(&events, "i").count(), drops.count() + notes);
    }
}

#[test]
fn lanes_do_not_overlap_themselves() {
    for recording in runs() {
        let events = written(&recording);
        let mut lanes: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        for event in of_kind(&events, "X") {
            let (begin, length) = (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
            lanes.entry(event["tid"].as_u64().unwrap()).or_default().push((begin, begin + length));
        }
        for (lane, mut pieces) in lanes {
            pieces.sort_unstable();
            assert!(pieces.windows(2).all(|pair| pair[0].1 <= pair[1].0), "lane {lane}");
        }
    }
}

/// Bytes in blocks that are not released.
fn left(recording: &Recording, of: Tier) -> u64 {
    let mut blocks = HashMap::new();
    for event in &recording.events {
        match event {
            Event::Allocate { tier, address, bytes } if *tier == of => {
                blocks.insert(address, *bytes as u64);
            }
            Event::Release { tier, address, .. } if *tier == of => {
                blocks.remove(address);
            }
            _ => {}
        }
    }
    blocks.values().sum()
}

#[test]
fn counters_go_forward_in_time_and_end_at_what_is_left() {
    for recording in runs() {
        let events = written(&recording);
        let mut series: HashMap<&str, Vec<(f64, u64)>> = HashMap::new();
        for event in of_kind(&events, "C") {
            let point = (event["ts"].as_f64().unwrap(), event["args"]["bytes"].as_u64().unwrap());
            series.entry(event["name"].as_str().unwrap()).or_default().push(point);
        }
        assert!(recording.events.is_empty() || series.len() == 4);
        for (name, points) in series {
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}");
            // A number below zero would have become a huge one.
            assert!(points.iter().all(|&(_, bytes)| bytes < 1 << 40), "{name}");
            let last = points.last().unwrap().1;
            match name {
                "allocated" => assert_eq!(last, left(&recording, Tier::Device)),
                "host" => assert_eq!(last, left(&recording, Tier::Host)),
                _ => {}
            }
            let most = points.iter().map(|point| point.1).max().unwrap();
            assert!(name != "allocated" || most as usize <= recording.header.budget_bytes, "{most}");
        }
    }
}

#[test]
fn arrows_go_from_an_offload_to_the_next_fetch_of_the_same_storage() {
    let mut arrows = 0;
    for recording in runs() {
        let events = written(&recording);
        let within = |event: &Value, lane: u64| {
            let at = nanoseconds(&event["ts"]);
            let holds = |piece: &&Value| {
                let begin = nanoseconds(&piece["ts"]);
                piece["tid"] == lane && (begin..begin + nanoseconds(&piece["dur"])).contains(&at)
            };
            of_kind(&events, "X").find(holds).unwrap_or_else(|| panic!("{event} is in no piece of work"))
        };
        let mut begun: HashMap<u64, &Value> = HashMap::new();
        for event in events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f") {
            let id = event["id"].as_u64().unwrap();
            let piece = within(event, event["tid"].as_u64().unwrap());
            if event["ph"] == "s" {
                assert!(begun.insert(id, piece).is_none(), "a second arrow {id}");
                continue;
            }
            assert_eq!(event["bp"], "e");
            let from = begun.remove(&id).expect("an arrow begins before it ends");
            assert_eq!((&from["cat"], &piece["cat"]), (&"offload".into(), &"fetch".into()));
            assert_eq!(from["args"]["storage"], piece["args"]["storage"]);
            assert!(nanoseconds(&from["ts"]) < nanoseconds(&piece["ts"]));
            arrows += 1;
        }
        assert!(begun.is_empty(), "arrows without ends");
    }
    assert!(arrows > 10);
}
