//! The page and its charts: whole, self-contained, and the same figures as the run's own.

use std::collections::HashMap;

use burn_overcommit::Policy;
use burn_overcommit::replay::ITERATIONS;
use burn_overcommit::report::{Report, write_html, write_svg};
use burn_overcommit::trace::{Event, Recording};
use bytesize::ByteSize;

use super::run::{run, runs};

fn page(report: &Report) -> String {
    let mut page = Vec::new();
    write_html(report, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

fn image(report: &Report) -> String {
    let mut image = Vec::new();
    write_svg(report, &mut image).unwrap();
    String::from_utf8(image).unwrap()
}

/// Every tag is closed in its turn.
fn check_tags(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in text.split('<').skip(1) {
        let tag = part.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {part}")).0;
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of turn");
        } else if !tag.ends_with('/') && !tag.starts_with('!') && name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

/// The headline figures by name.
fn figures(page: &str) -> HashMap<String, String> {
    let figures = page.split("<dt>").skip(1).map(|part| {
        let (name, rest) = part.split_once("</dt><dd>").unwrap();
        (name.to_string(), rest.split_once("<small>").unwrap().0.to_string())
    });
    figures.collect()
}

#[test]
fn pages_are_whole_and_load_nothing() {
    for recording in runs() {
        for report in [Report::new(&recording, None), Report::whole(&recording, None)] {
            let (page, image) = (page(&report), image(&report));
            check_tags(&page);
            check_tags(&image);
            for text in [&page, &image] {
                let text = text.replace("http://www.w3.org/2000/svg", "");
                for absent in ["http", "<script", "@import", "url(", "NaN", "inf"] {
                    assert!(!text.contains(absent), "{absent}");
                }
                assert!(text.contains("prefers-color-scheme:dark"));
            }
            for title in ["Memory over time", "Lanes over time"] {
                assert!(page.contains(title) && image.contains(title));
            }
        }
    }
}

#[test]
fn names_are_text_and_not_tags() {
    let (outcome, recording) = run(12, 0.4, Policy::Recompute);
    let report = Report::new(&recording, Some(&outcome)).titled("a <b> & \"c\"");
    let page = page(&report);
    check_tags(&page);
    assert!(page.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"));
    assert!(page.contains("relu &lt;&amp;&quot;&gt;") && !page.contains("relu <"));
}

#[test]
fn the_figures_are_those_of_the_last_iteration() {
    for policy in [Policy::Auto, Policy::TensorCache, Policy::Recompute, Policy::EvictAll] {
        let (outcome, recording) = run(12, 0.4, policy);
        let page = page(&Report::new(&recording, Some(&outcome)));
        assert!(page.contains(&format!("iteration {ITERATIONS} of {ITERATIONS}")));
        let figures = figures(&page);
        let size = |bytes: usize| ByteSize(bytes as u64).to_string();
        assert_eq!(figures["Budget"], size(outcome.budget_bytes));
        assert_eq!(figures["Live at most"], size(outcome.live_peak_bytes));
        assert_eq!(figures["Peak in device memory"], size(outcome.peak_bytes));
        assert_eq!(figures["Copied to the host"], size(outcome.offloaded_bytes as usize));
        assert_eq!(figures["Run again"], format!("{} ops", outcome.recomputed_ops));
        assert_eq!(figures["Overhead"], format!("{:.2}×", outcome.overhead.unwrap()));
        assert_eq!(figures["Lower bound"], format!("{:.2}×", outcome.bound.unwrap()));
    }
}

/// Without an outcome, what a recording says of itself is the same.
#[test]
fn a_recording_alone_says_how_long_a_step_took() {
    let (outcome, recording) = run(12, 0.4, Policy::Auto);
    let [with, without] =
        [Some(&outcome), None].map(|outcome| figures(&page(&Report::new(&recording, outcome))));
    for name in ["Step", "Live at most", "Peak in device memory", "Run again"] {
        assert_eq!(with[name], without[name], "{name}");
    }
}

#[test]
fn a_run_that_failed_says_why() {
    let (outcome, _) = run(12, 0.4, Policy::Auto);
    let failure = Some("out of <device memory>".to_string());
    let mut failed = outcome;
    (failed.feasible, failed.failure, failed.step_ns, failed.overhead) = (false, failure, None, None);
    let page = page(&Report::new(&Recording::default(), Some(&failed)));
    check_tags(&page);
    assert!(page.contains("out of &lt;device memory&gt;"));
}

#[test]
fn a_simulated_program_that_read_before_its_end_is_flagged() {
    let mut recording = run(3, 1.0, Policy::Auto).1;
    recording.events.retain(|event| !matches!(event, Event::Read(_)));
    let flagged = |recording: &Recording| {
        let mut page = Vec::new();
        write_html(&Report::new(recording, None), &mut page).unwrap();
        String::from_utf8(page).unwrap().contains("It read a tensor before its end.")
    };
    recording.header.simulated = true;
    assert!(!flagged(&recording));
    let Some(Event::Op(op)) = recording.events.iter().find(|event| matches!(event, Event::Op(_))) else {
        panic!("a run has ops");
    };
    let read = Event::Read(op.outputs[0].storage);
    recording.events.push(read.clone());
    assert!(!flagged(&recording), "after the last op");
    let op = recording.events.iter().position(|event| matches!(event, Event::Op(_))).unwrap();
    recording.events.insert(op + 1, read);
    assert!(flagged(&recording));
    recording.header.simulated = false;
    assert!(!flagged(&recording), "real data");
}
