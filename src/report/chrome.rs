//! Chrome's trace-event format, as Perfetto and `chrome://tracing` read it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use bytesize::ByteSize;
use serde::Serialize;
use serde_json::{Value, json};

use super::ledger::{Ledger, Totals};
use super::modules::Modules;
use super::moments::moments;
use crate::engine::Lane;
use crate::trace::{Copied, Event, How, Ran, Recording};

/// The number of the only process.
const PROCESS: u32 = 1;

/// Writes a recording as Chrome trace events, JSON that <https://ui.perfetto.dev> opens: a lane each for ops, copies to the
/// host and copies back, with arrows from a copy out to the copy back; counters of live, allocated, reserved and host
/// bytes; instants for notes and for evictions by forgetting. Times are microseconds since the recording began.
///
/// Memory counters change when the previous op is done; the recording itself has the order of submission.
///
/// ```
/// use burn_overcommit::report::write_chrome;
/// use burn_overcommit::trace::Recording;
///
/// let mut file = Vec::new();
/// write_chrome(&Recording::default(), &mut file)?;
/// assert!(file.starts_with(b"{"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_chrome(recording: &Recording, out: impl Write) -> io::Result<()> {
    let mut trace = Trace { out, entries: 0, counters: [None; 4], offloads: HashMap::new(), flows: 0 };
    trace.begin(recording)?;
    let mut ledger = Ledger::default();
    let moments = moments(&recording.events);
    let modules = Modules::of(&recording.events);
    for (index, event) in recording.events.iter().enumerate() {
        let now_ns = moments[index];
        ledger.take(event);
        let module = match event {
            Event::Recompute(again) => {
                again.storages.first().and_then(|made| modules.of_storage(made.storage))
            }
            _ => modules.of_op(index),
        };
        trace.event(event, now_ns, module)?;
        // Of several changes at one moment, only the last is written.
        if moments.get(index + 1) != Some(&now_ns) {
            trace.count(&ledger.totals(), now_ns)?;
        }
    }
    trace.end()
}

/// One trace event. Fields that its kind does not have are left out.
#[derive(Default, Serialize)]
struct Entry<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    ph: &'static str,
    pid: u32,
    tid: u32,
    /// Microseconds.
    ts: f64,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// The scope of an instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    /// The point at which an arrow ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
}

/// The file, while it is written.
struct Trace<W> {
    out: W,
    entries: usize,
    /// The values of counters that were written last.
    counters: [Option<usize>; 4],
    /// Copies to the host that no copy back has followed.
    offloads: HashMap<u64, Ran>,
    flows: u64,
}

impl<W: Write> Trace<W> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        serde_json::to_writer(&mut self.out, &recording.header)?;
        write!(self.out, ",\"traceEvents\":[")?;
        let name = match recording.header.device.as_str() {
            "" => "burn-overcommit",
            device => device,
        };
        self.metadata("process_name", 0, json!({ "name": name }))?;
        for lane in Lane::ALL {
            self.metadata("thread_name", thread(lane), json!({ "name": lane.name() }))?;
            self.metadata("thread_sort_index", thread(lane), json!({ "sort_index": thread(lane) }))?;
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }

    fn event(&mut self, event: &Event, now_ns: u64, module: Option<&str>) -> io::Result<()> {
        let of_module = |mut args: Value| {
            if let Some(module) = module {
                args["module"] = module.into();
            }
            args
        };
        match event {
            Event::Op(op) => {
                let outputs: Vec<u64> = op.outputs.iter().map(|made| made.storage).collect();
                let bytes: usize = op.outputs.iter().map(|made| made.bytes).sum();
                let args = json!({
                    "inputs": op.inputs, "outputs": outputs, "bytes": bytes, "scratch_bytes": op.scratch_bytes,
                });
                self.work(Lane::Compute, "op", op.name.as_ref(), op.ran, of_module(args))
            }
            Event::Recompute(recomputed) => {
                let outputs: Vec<u64> = recomputed.storages.iter().map(|made| made.storage).collect();
                let bytes: usize = recomputed.storages.iter().map(|made| made.bytes).sum();
                let args = json!({ "outputs": outputs, "bytes": bytes });
                let name = format!("recompute {}", recomputed.name);
                self.work(Lane::Compute, "recompute", name, recomputed.ran, of_module(args))
            }
            Event::Copy(copied) => self.copy(copied),
            Event::Evict(evicted) if evicted.how == How::Drop => {
                let args = json!({
                    "storage": evicted.storage, "bytes": evicted.bytes, "predicted_us": microseconds(evicted.cost_ns),
                });
                let name = format!("drop {}", evicted.made_by);
                self.instant("evict", name, now_ns, "t", Some(args))
            }
            Event::Note(text) => self.instant("note", text.as_str(), now_ns, "p", None),
            _ => Ok(()),
        }
    }

    fn copy(&mut self, copied: &Copied) -> io::Result<()> {
        let way = match copied.lane {
            _ if copied.within => "move",
            lane => lane.name(),
        };
        let name = format!("{way} {} of storage {}", ByteSize(copied.bytes as u64), copied.storage);
        let args = json!({ "storage": copied.storage, "bytes": copied.bytes });
        self.work(copied.lane, way, name, copied.ran, args)?;
        if copied.within || copied.lane.is_of_disk() {
            return Ok(());
        }
        if copied.lane.takes_away() {
            self.offloads.insert(copied.storage, copied.ran);
        } else if let Some(offloaded) = self.offloads.remove(&copied.storage) {
            self.arrow(offloaded, copied.ran)?;
        }
        Ok(())
    }

    /// Writes an arrow from a copy to the host to the copy back. Its ends must lie inside the copies, so it does not
    /// begin or end at the end of one.
    fn arrow(&mut self, offloaded: Ran, fetched: Ran) -> io::Result<()> {
        self.flows += 1;
        let begin_ns = offloaded.begin_ns.max(offloaded.end_ns.saturating_sub(1));
        let ends = [("s", Lane::Offload, begin_ns), ("f", Lane::Fetch, fetched.begin_ns)];
        for (ph, lane, at_ns) in ends {
            self.write(Entry {
                name: "back again".into(),
                cat: "move",
                ph,
                tid: thread(lane),
                ts: microseconds(at_ns),
                id: Some(self.flows),
                bp: Some("e"),
                ..Entry::default()
            })?;
        }
        Ok(())
    }

    fn work<'a>(
        &mut self,
        lane: Lane,
        cat: &'static str,
        name: impl Into<Cow<'a, str>>,
        ran: Ran,
        args: Value,
    ) -> io::Result<()> {
        self.write(Entry {
            name: name.into(),
            cat,
            ph: "X",
            tid: thread(lane),
            ts: microseconds(ran.begin_ns),
            dur: Some(microseconds(ran.end_ns.saturating_sub(ran.begin_ns))),
            args: Some(args),
            ..Entry::default()
        })
    }

    fn instant<'a>(
        &mut self,
        cat: &'static str,
        name: impl Into<Cow<'a, str>>,
        now_ns: u64,
        scope: &'static str,
        args: Option<Value>,
    ) -> io::Result<()> {
        self.write(Entry {
            name: name.into(),
            cat,
            ph: "i",
            tid: thread(Lane::Compute),
            ts: microseconds(now_ns),
            s: Some(scope),
            args,
            ..Entry::default()
        })
    }

    /// Writes the counters that have changed.
    fn count(&mut self, totals: &Totals, now_ns: u64) -> io::Result<()> {
        let values = [
            ("live", totals.live_bytes),
            ("allocated", totals.device_bytes),
            ("reserved", totals.reserved_bytes),
            ("host", totals.host_bytes),
        ];
        for (index, (name, bytes)) in values.into_iter().enumerate() {
            if self.counters[index] != Some(bytes) {
                self.counters[index] = Some(bytes);
                self.write(Entry {
                    name: name.into(),
                    ph: "C",
                    ts: microseconds(now_ns),
                    args: Some(json!({ "bytes": bytes })),
                    ..Entry::default()
                })?;
            }
        }
        Ok(())
    }

    fn metadata(&mut self, name: &'static str, tid: u32, args: Value) -> io::Result<()> {
        self.write(Entry { name: name.into(), ph: "M", tid, args: Some(args), ..Entry::default() })
    }

    fn write(&mut self, entry: Entry) -> io::Result<()> {
        self.out.write_all(if self.entries == 0 { b"\n" } else { b",\n" })?;
        self.entries += 1;
        Ok(serde_json::to_writer(&mut self.out, &Entry { pid: PROCESS, ..entry })?)
    }
}

fn thread(lane: Lane) -> u32 {
    lane as u32 + 1
}

/// Converts nanoseconds to microseconds so that a reader that truncates to nanoseconds gets the same number back.
/// Otherwise neighbouring pieces might seem to overlap, and Perfetto shows only the first of two that overlap.
fn microseconds(ns: u64) -> f64 {
    let nearest = ns as f64 / 1e3;
    if ((nearest * 1e3) as u64) < ns { nearest.next_up() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::microseconds;

    #[test]
    fn no_nanosecond_is_lost_by_cutting_off() {
        let found = |ns: u64| (microseconds(ns) * 1e3) as u64;
        for ns in (1_000_000..1_200_000).chain((0..u64::from(u32::MAX) << 8).step_by(9_999_991)) {
            assert_eq!(found(ns), ns);
        }
    }
}
