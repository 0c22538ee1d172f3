//! Spans and events of the feature `tracing`.

use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::half_of_memory::{LAYERS, MATRIX_BYTES, WIDTH, device, train};
use burn::tensor::Tensor;
use burn_overcommit::{Overcommit, stats};
use support::process::is_alone;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps what it is told: a line for each span, each of its later fields, and each event.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Kept {
    fn line(&self, begin: String, visit: impl FnOnce(&mut Line)) -> u64 {
        let mut line = Line(begin);
        visit(&mut line);
        let mut lines = self.0.lock().unwrap();
        lines.push(line.0);
        lines.len() as u64
    }

    fn with(&self, part: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).cloned().collect()
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "burn_overcommit"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        Id::from_u64(self.line(format!("span {name}"), |line| span.record(line)))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.line(format!("in {}:", span.into_u64()), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let parent = event.parent().map_or(0, Id::into_u64);
        self.line(format!("event {} in {parent}:", event.metadata().level()), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn iterations_plans_departures_and_failures_are_told() {
    // Whether a subscriber wants an event is decided once in a process, when a thread first meets the event.
    if !is_alone(module_path!(), "iterations_plans_departures_and_failures_are_told") {
        return;
    }
    let kept = Kept::default();
    tracing::subscriber::with_default(kept.clone(), || {
        let device = device(5);
        train(&device, 10, |_| ());
        let planned = kept.with("message=planned");
        assert!(!planned.is_empty() && planned[0].starts_with("event INFO"), "{planned:?}");
        let iterations = kept.with("span iteration");
        assert!(iterations.len() >= 3 && iterations[0].contains("device=host:5"), "{iterations:?}");
        let offloaded = kept.with("offloaded_bytes=");
        assert_eq!(offloaded.len(), iterations.len() - 1, "all but the last are over");
        let evictions = kept.with("message=evicted");
        assert_eq!(evictions.len() as u64, stats(&device).unwrap().counters.evictions);
        assert!(evictions.iter().any(|line| !line.contains(" in 0:")), "some are of an iteration");

        let departures = || kept.with("departed from the plan").len();
        let before = departures();
        let _other = Tensor::<Overcommit, 2>::ones([WIDTH / 2, WIDTH], &device).argsort(0);
        assert_eq!(departures(), before + 1, "the plan has no such op");
        let refused = catch_unwind(AssertUnwindSafe(|| {
            Tensor::<Overcommit, 1>::ones([LAYERS * MATRIX_BYTES], &device).sort(0)
        }));
        let told = kept.with("message=out of memory");
        assert!(refused.is_err() && told[0].starts_with("event WARN"), "{told:?}");
    });
}
