//! Statistics in the formats of other programs.

use serde_json::{Map, Value, json};

use super::Stats;
use crate::engine::Lane;
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
#[derive(Clone)]
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
        [self.gauges(), self.totals()].concat()
    }

    fn gauges(&self) -> Vec<Figure> {
        let gauge = |key, value: usize, help| Figure { key, kind: Gauge, help, value: value as u64 };
        vec![
            gauge("allocated_bytes.all.current", self.allocated_bytes, "Device memory in blocks"),
            gauge("allocated_bytes.all.peak", self.peak_allocated_bytes, "Peak of device memory in blocks"),
            gauge(
                "allocated_bytes.all.average",
                self.average_allocated_bytes,
                "Average of device memory in blocks while ops run",
            ),
            gauge("footprint_bytes", self.footprint_bytes, "Highest end of any block of device memory"),
            gauge("reserved_bytes.all.current", self.reserved_bytes, "Device memory mapped"),
            gauge("reserved_bytes.all.peak", self.peak_reserved_bytes, "Peak of device memory mapped"),
            gauge("budget_bytes", self.budget_bytes, "Device memory that may be allocated"),
            gauge("smallest_budget_bytes", self.smallest_budget_bytes, "Smallest budget that all ops fit"),
            gauge("host_bytes.all.current", self.host_bytes, "Bytes in the host tier"),
            gauge("host_bytes.all.peak", self.peak_host_bytes, "Peak of bytes in the host tier"),
            gauge(
                "with_host_bytes.all.peak",
                self.peak_with_host_bytes,
                "Peak of bytes in device memory and the host tier together",
            ),
            gauge("host_limit_bytes", self.host_limit_bytes, "Limit of the host tier"),
            gauge("peer_bytes.all.current", self.peer_bytes, "Bytes in memory of other devices"),
            gauge("peer_bytes.all.peak", self.peak_peer_bytes, "Peak of bytes in memory of other devices"),
            gauge("peer_limit_bytes", self.peer_limit_bytes, "Limit of bytes in memory of other devices"),
            gauge("disk_bytes.all.current", self.disk_bytes, "Bytes in the disk tier"),
            gauge("disk_bytes.all.peak", self.peak_disk_bytes, "Peak of bytes in the disk tier"),
            gauge("disk_limit_bytes", self.disk_limit_bytes, "Limit of the disk tier"),
            gauge("storages", self.storages, "Records of storages"),
        ]
    }

    fn totals(&self) -> Vec<Figure> {
        let counter = |key, value: u64, help| Figure { key, kind: Counter, help, value };
        let counters = &self.counters;
        let slower_ops = self.fallbacks.iter().map(|fallback| fallback.count).sum();
        vec![
            counter("offloaded_bytes.all.allocated", counters.offloaded_bytes, "Bytes copied to the host"),
            counter("fetched_bytes.all.allocated", counters.fetched_bytes, "Bytes copied from the host"),
            counter(
                "prefetched_bytes.all.allocated",
                counters.prefetched_bytes,
                "Bytes copied from the host before an op needed them",
            ),
            counter("to_peers_bytes.all.allocated", counters.to_peers_bytes, "Bytes copied to other devices"),
            counter(
                "from_peers_bytes.all.allocated",
                counters.from_peers_bytes,
                "Bytes copied back from other devices",
            ),
            counter("spilled_bytes.all.allocated", counters.spilled_bytes, "Bytes written to the disk"),
            counter("loaded_bytes.all.allocated", counters.loaded_bytes, "Bytes read from the disk"),
            counter("recomputed_bytes.all.allocated", counters.recomputed_bytes, "Bytes recomputed"),
            counter("encoded_bytes.all.allocated", counters.encoded_bytes, "Bytes encoded in fewer bits"),
            counter(
                "encoded_into_bytes.all.allocated",
                counters.encoded_into_bytes,
                "Bytes that encoded storages took",
            ),
            counter("num_encodings", counters.encodings, "Storages encoded"),
            counter(
                "relocated_bytes.all.allocated",
                counters.relocated_bytes,
                "Bytes moved within device memory",
            ),
            counter("recomputed_ops", counters.recomputed_ops, "Ops run again"),
            counter("num_ops", counters.ops, "Ops submitted"),
            counter("num_guided_ops", counters.guided_ops, "Ops submitted under a plan"),
            counter("num_evictions", counters.evictions, "Storages evicted"),
            counter("num_clean_evictions", counters.clean_evictions, "Storages evicted without a copy"),
            counter("num_drops", counters.drops, "Storages evicted to be recomputed"),
            counter("num_compactions", counters.compactions, "Times that the arena was emptied"),
            counter("num_mapped_pages", counters.mapped_pages, "Mappings of pages"),
            counter("num_plannings", counters.plannings, "Iterations planned"),
            counter("num_plans", counters.plans, "Plans found"),
            counter("num_kept_plans", counters.kept_plans, "Plans of earlier runs"),
            counter("num_ooms", counters.out_of_memory, "Ops, writes and reads refused for want of memory"),
            counter("num_failed_writes", self.failed_writes, "Writes that the disk has not taken"),
            counter("num_failed_ops", counters.failed_ops, "Ops that failed while they ran"),
            counter("num_reads", counters.reads, "Tensors read by the program"),
            counter("num_fallbacks", slower_ops, "Ops computed by slower kernels"),
        ]
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
            let busy = Lane::ALL.map(|lane| (lane.name().to_string(), times.busy_ns[lane as usize].into()));
            let end = [("end".to_string(), Value::from(times.end_ns))];
            object.insert("times_ns".into(), Value::Object(end.into_iter().chain(busy).collect()));
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
