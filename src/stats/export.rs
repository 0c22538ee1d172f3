//! Statistics in the formats of other programs.

use serde_json::{Map, Value, json};

use super::Stats;
use Kind::{Counter, Gauge};

/// What a figure does over time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It rises and falls.
    Gauge,
    /// It only rises, until the statistics are reset.
    Counter,
}

/// A figure of the statistics.
struct Figure {
    /// Its key in PyTorch's `torch.cuda.memory_stats`, or one in that style.
    key: &'static str,
    kind: Kind,
    help: &'static str,
    value: u64,
}

impl Figure {
    /// Its name in the style of Prometheus, whose counters end with `_total`.
    fn name(&self) -> String {
        let (base, which) = self.key.split_once(".all.").unwrap_or((self.key, "current"));
        let base = base.strip_prefix("num_").unwrap_or(base);
        match (self.kind, which) {
            (Counter, _) => format!("overcommit_{base}_total"),
            (Gauge, "current") => format!("overcommit_{base}"),
            (Gauge, which) => format!("overcommit_{which}_{base}"),
        }
    }
}

impl Stats {
    fn figures(&self) -> Vec<Figure> {
        let counters = &self.counters;
        let slower_ops = self.fallbacks.iter().map(|fallback| fallback.count).sum();
        let rows: &[(&'static str, Kind, &'static str, u64)] = &[
            ("allocated_bytes.all.current", Gauge, "Device memory in blocks", self.allocated_bytes as u64),
            (
                "allocated_bytes.all.peak",
                Gauge,
                "Peak of device memory in blocks",
                self.peak_allocated_bytes as u64,
            ),
            (
                "allocated_bytes.all.average",
                Gauge,
                "Average of device memory in blocks while ops run",
                self.average_allocated_bytes as u64,
            ),
            (
                "footprint_bytes",
                Gauge,
                "Highest end of any block of device memory",
                self.footprint_bytes as u64,
            ),
            ("reserved_bytes.all.current", Gauge, "Device memory mapped", self.reserved_bytes as u64),
            (
                "reserved_bytes.all.peak",
                Gauge,
                "Peak of device memory mapped",
                self.peak_reserved_bytes as u64,
            ),
            ("budget_bytes", Gauge, "Device memory that may be allocated", self.budget_bytes as u64),
            (
                "smallest_budget_bytes",
                Gauge,
                "Smallest budget that all ops fit",
                self.smallest_budget_bytes as u64,
            ),
            ("host_bytes.all.current", Gauge, "Bytes in the host tier", self.host_bytes as u64),
            ("host_bytes.all.peak", Gauge, "Peak of bytes in the host tier", self.peak_host_bytes as u64),
            ("host_limit_bytes", Gauge, "Limit of the host tier", self.host_limit_bytes as u64),
            ("storages", Gauge, "Records of storages", self.storages as u64),
            ("offloaded_bytes.all.allocated", Counter, "Bytes copied to the host", counters.offloaded_bytes),
            ("fetched_bytes.all.allocated", Counter, "Bytes copied from the host", counters.fetched_bytes),
            (
                "prefetched_bytes.all.allocated",
                Counter,
                "Bytes copied from the host before an op needed them",
                counters.prefetched_bytes,
            ),
            ("recomputed_bytes.all.allocated", Counter, "Bytes recomputed", counters.recomputed_bytes),
            ("encoded_bytes.all.allocated", Counter, "Bytes encoded in fewer bits", counters.encoded_bytes),
            (
                "encoded_into_bytes.all.allocated",
                Counter,
                "Bytes that encoded storages took",
                counters.encoded_into_bytes,
            ),
            ("num_encodings", Counter, "Storages encoded", counters.encodings),
            (
                "relocated_bytes.all.allocated",
                Counter,
                "Bytes moved within device memory",
                counters.relocated_bytes,
            ),
            ("recomputed_ops", Counter, "Ops run again", counters.recomputed_ops),
            ("num_ops", Counter, "Ops submitted", counters.ops),
            ("num_evictions", Counter, "Storages evicted", counters.evictions),
            ("num_clean_evictions", Counter, "Storages evicted without a copy", counters.clean_evictions),
            ("num_drops", Counter, "Storages evicted to be recomputed", counters.drops),
            ("num_compactions", Counter, "Times that the arena was emptied", counters.compactions),
            ("num_mapped_pages", Counter, "Mappings of pages", counters.mapped_pages),
            ("num_plannings", Counter, "Iterations planned", counters.plannings),
            ("num_plans", Counter, "Plans found", counters.plans),
            ("num_kept_plans", Counter, "Plans of earlier runs", counters.kept_plans),
            ("num_ooms", Counter, "Ops, writes and reads refused for want of memory", counters.out_of_memory),
            ("num_failed_ops", Counter, "Ops that failed while they ran", counters.failed_ops),
            ("num_reads", Counter, "Tensors read by the program", counters.reads),
            ("num_fallbacks", Counter, "Ops computed by slower kernels", slower_ops),
        ];
        rows.iter().map(|&(key, kind, help, value)| Figure { key, kind, help, value }).collect()
    }

    /// The figures under the keys of PyTorch's `torch.cuda.memory_stats`, and further ones under keys in that style.
    pub fn entries(&self) -> Vec<(&'static str, u64)> {
        self.figures().into_iter().map(|figure| (figure.key, figure.value)).collect()
    }

    /// All of it as a JSON object: the [entries](Self::entries), with `device`, `planning` in words, `fallbacks`, and on a
    /// simulated device `times_ns`.
    ///
    /// ```
    /// use burn_overcommit::{OvercommitDevice, stats};
    ///
    /// let json = stats(&OvercommitDevice::Host(0))?.to_json();
    /// assert!(json.contains(r#""device":"host:0""#) && json.contains(r#""num_ops":0"#));
    /// # Ok::<(), burn_overcommit::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        let mut object: Map<String, Value> =
            self.entries().into_iter().map(|(key, value)| (key.to_string(), value.into())).collect();
        object.insert("device".into(), self.device.to_string().into());
        object.insert("planning".into(), self.planning.to_string().into());
        let fallbacks = self.fallbacks.iter();
        let fallbacks = fallbacks.map(|of| json!({"op": of.op, "reason": of.reason, "count": of.count}));
        object.insert("fallbacks".into(), fallbacks.collect());
        if let Some(times) = self.times {
            let [compute, offload, fetch] = times.busy_ns;
            let times = json!({"end": times.end_ns, "compute": compute, "offload": offload, "fetch": fetch});
            object.insert("times_ns".into(), times);
        }
        Value::Object(object).to_string()
    }
}

/// The figures in the text format of Prometheus, labelled with their devices: what an endpoint of your program may answer.
///
/// ```
/// use burn_overcommit::{OvercommitDevice, prometheus, stats};
///
/// let text = prometheus(&[stats(&OvercommitDevice::Host(0))?]);
/// assert!(text.contains("overcommit_evictions_total{device=\"host:0\"} 0\n"));
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn prometheus(stats: &[Stats]) -> String {
    let figures: Vec<_> = stats.iter().map(Stats::figures).collect();
    let mut text = String::new();
    for (row, Figure { kind, help, .. }) in figures.first().into_iter().flatten().enumerate() {
        let name = figures[0][row].name();
        let kind = if *kind == Counter { "counter" } else { "gauge" };
        text += &format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n");
        for (of, figures) in stats.iter().zip(&figures) {
            text += &format!("{name}{{device=\"{}\"}} {}\n", of.device, figures[row].value);
        }
    }
    text
}
