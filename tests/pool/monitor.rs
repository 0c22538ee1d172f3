//! What is told of memory while a program runs: statistics for other programs, and metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::half_of_memory::{device, train};
use burn_overcommit::{Counters, prometheus, stats};

#[test]
fn the_looks_of_a_monitor_change_nothing() {
    let counted = |index, is_watched: bool| -> Counters {
        let device = device(index);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            if is_watched {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(!prometheus(&[stats(&device).unwrap()]).is_empty());
                        thread::yield_now();
                    }
                });
            }
            train(&device, 12, |_| ());
            is_over.store(true, Ordering::Relaxed);
        });
        stats(&device).unwrap().counters
    };
    let alone = counted(0, false);
    assert!(alone.evictions > 0 && alone.plans > 0, "{alone:?}");
    assert_eq!(counted(1, true), alone);
}

#[test]
fn statistics_are_told_in_the_formats_of_others() {
    let devices = [device(2), device(3)];
    train(&devices[0], 2, |_| ());
    let told = devices.map(|device| stats(&device).unwrap());
    let json: serde_json::Value = serde_json::from_str(&told[0].to_json()).unwrap();
    for (key, value) in told[0].entries() {
        assert_eq!(json[key], value, "{key}");
    }
    assert_eq!((json["device"].as_str(), json["times_ns"].is_null()), (Some("host:2"), true));

    let text = prometheus(&told);
    assert!(text.contains(&format!(
        "\novercommit_evictions_total{{device=\"host:2\"}} {}\n",
        told[0].counters.evictions
    )));
    assert!(text.contains("\novercommit_evictions_total{device=\"host:3\"} 0\n"), "{text}");
    assert!(text.contains(&format!(
        "\novercommit_peak_allocated_bytes{{device=\"host:2\"}} {}\n",
        told[0].peak_allocated_bytes
    )));
    // Each name is declared once, before its samples.
    let mut declared: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap();
            assert!(!declared.contains(&name), "{name} is declared twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            declared.push(name);
        } else if !line.starts_with('#') {
            let (name, sample) = line.split_once('{').unwrap();
            assert_eq!(declared.last(), Some(&name), "{line}");
            let value = sample.split_once("\"} ").unwrap().1;
            assert!(value.parse::<u64>().is_ok(), "{line}");
        }
    }
    assert_eq!(declared.len(), told[0].entries().len());
}

#[test]
fn metrics_show_what_a_step_did() {
    use burn::data::dataloader::Progress;
    use burn::train::metric::{Metric, MetricMetadata, Numeric, NumericEntry};
    use burn_overcommit::metrics::{MemoryFigure, MemoryMetric};

    let device = device(4);
    let mut metrics = MemoryFigure::ALL.map(|figure| MemoryMetric::new(&device, figure).unwrap());
    let mut shown: [Vec<f64>; MemoryFigure::ALL.len()] = Default::default();
    let mut before = stats(&device).unwrap().counters;
    train(&device, 8, |iteration| {
        let now = stats(&device).unwrap();
        for (metric, shown) in metrics.iter_mut().zip(&mut shown) {
            let progress = || Progress { items_processed: iteration, items_total: 8 };
            let (progress, global_progress) = (progress(), progress());
            let metadata = MetricMetadata { progress, global_progress, iteration: Some(iteration), lr: None };
            let entry = metric.update(&(), &metadata);
            let value = metric.value().current();
            let serialized = NumericEntry::deserialize(&entry.serialized).unwrap();
            assert_eq!(serialized.current(), value, "what is saved is what is shown");
            shown.push(value);
        }
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        let of_step = [
            now.counters.offloaded_bytes - before.offloaded_bytes,
            now.counters.recomputed_bytes - before.recomputed_bytes,
        ];
        assert_eq!([shown[2][iteration], shown[3][iteration]], of_step.map(mib));
        assert_eq!(shown[4][iteration], mib(now.budget_bytes as u64));
        assert!(shown[0][iteration] > 0.0 && shown[0][iteration] <= shown[4][iteration]);
        before = now.counters;
    });
    assert!(shown[2].iter().chain(&shown[3]).any(|&mib| mib > 0.0), "something left device memory");
    let NumericEntry::Aggregated { aggregated_value, count } = metrics[2].running_value() else {
        panic!("an average of the epoch")
    };
    assert!(count == 8 && (aggregated_value - shown[2].iter().sum::<f64>() / 8.0).abs() < 1e-9);
    metrics[2].clear();
    assert!(matches!(metrics[2].running_value(), NumericEntry::Aggregated { count: 0, .. }));
    let names = metrics.map(|metric| metric.name().to_string());
    assert_eq!(names[0], "Device memory (host:4)");
}
