//! Runs to write about.

use std::collections::HashMap;
use std::sync::Mutex;

use burn_overcommit::op::{Dtype, Work};
use burn_overcommit::replay::{ITERATIONS, Outcome, Replay, Settings};
use burn_overcommit::trace::{Event, Made, OpEvent, Program, Ran, Recording};
use burn_overcommit::{Policy, SimProfile};

/// Bytes of an activation.
const ACTIVATION: usize = 4 << 20;
/// Bytes of a weight.
const WEIGHT: usize = 1 << 20;

/// An op of so many microseconds.
fn op(name: &'static str, inputs: Vec<u64>, made: Made, scratch_bytes: usize, time_us: u64) -> Event {
    let work = Work {
        flops: 0,
        read_bytes: 0,
        written_bytes: made.bytes as u64,
        dtype: Dtype::F32,
        measured_ns: Some(time_us * 1000),
    };
    Event::Op(OpEvent {
        name: name.into(),
        inputs,
        consumed: Vec::new(),
        in_place: Vec::new(),
        parameters: Vec::new(),
        outputs: vec![made],
        scratch_bytes,
        work,
        exact: true,
        module: None,
        ran: Ran::default(),
    })
}

/// A step through `layers` layers and back: a dear op and a cheap one each.
pub fn training_step(layers: u64) -> Program {
    let mut events = Vec::new();
    let mut made = 0..;
    let mut make = |bytes| Made { storage: made.next().unwrap(), bytes };
    let weights: Vec<Made> = (0..layers).map(|_| make(WEIGHT)).collect();
    events.extend(weights.iter().map(|&weight| Event::Constant(weight)));
    let input = make(ACTIVATION);
    events.push(Event::Write(input));
    let mut activations = vec![input.storage];
    for weight in &weights {
        let product = make(ACTIVATION);
        events.push(op(
            "matmul",
            vec![activations[activations.len() - 1], weight.storage],
            product,
            1 << 18,
            900,
        ));
        let active = make(ACTIVATION);
        events.push(op("relu <&\">", vec![product.storage], active, 0, 90));
        activations.extend([product.storage, active.storage]);
    }
    events.push(Event::Note("backward".into()));
    let mut gradient = make(ACTIVATION);
    events.push(op("loss", vec![activations.pop().unwrap()], gradient, 0, 100));
    let last = 2 * layers + layers;
    events.push(Event::Free(last));
    for weight in weights.iter().rev() {
        let product = activations.pop().unwrap();
        let (before, input) = (gradient.storage, activations.pop().unwrap());
        gradient = make(ACTIVATION);
        let inputs = vec![before, product, input, weight.storage];
        events.push(op("matmul backward", inputs, gradient, 0, 1800));
        events.extend([product, input, before].map(Event::Free));
    }
    events.push(Event::Read(gradient.storage));
    events.push(Event::Free(gradient.storage));
    Program { events, loops: true }
}

/// A run of it under a part of the memory it asks for.
pub fn run(layers: u64, part: f64, policy: Policy) -> (Outcome, Recording) {
    let program = training_step(layers);
    let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
    let replay = Replay::new(&program, profile, ITERATIONS).unwrap();
    let budget_bytes = (replay.live_peak_bytes() as f64 * part) as usize;
    let (outcome, recording) = replay.record(&Settings { policy, ..Settings::new(budget_bytes) }).unwrap();
    assert!(outcome.feasible, "{:?}", outcome.failure);
    (outcome, recording)
}

/// Runs that do all there is to do: move, forget, both.
pub fn runs() -> Vec<Recording> {
    static RUNS: Mutex<Vec<Recording>> = Mutex::new(Vec::new());
    let mut runs = RUNS.lock().unwrap();
    if runs.is_empty() {
        let policies = [Policy::Auto, Policy::TensorCache, Policy::Recompute, Policy::EvictAll];
        runs.extend(policies.map(|policy| run(12, 0.4, policy).1));
        // The second half alone, as of a run that was already under way.
        let half = runs[0].events[runs[0].events.len() / 2..].to_vec();
        let half = Recording { header: runs[0].header.clone(), events: half };
        runs.extend([half, Recording::default()]);
    }
    runs.clone()
}

/// How many events of each kind a recording has, by the name that its file has for them.
pub fn kinds(recording: &Recording) -> HashMap<String, usize> {
    let mut kinds = HashMap::new();
    for event in &recording.events {
        let kind = match serde_json::to_value(event).unwrap() {
            serde_json::Value::Object(object) => object.keys().next().unwrap().clone(),
            other => other.as_str().unwrap().to_string(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}
