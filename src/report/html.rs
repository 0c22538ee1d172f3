//! A report as a page of HTML, in one file that loads nothing else.

use std::borrow::Cow;
use std::io::{self, Write};

use super::charts::inline;
use super::decisions::Cost;
use super::leaving::Leaving;
use super::peak::Resident;
use super::summary::Report;
use super::units::{count, counted, share, size, time};
use super::{lane_chart, memory_chart, theme};
use crate::engine::Lane;

/// Rows of the longer tables.
const MAX_LISTED: usize = 12;

/// Writes a report as a page of HTML, one file without scripts that loads nothing: headline figures, memory and lanes over
/// time, what was in memory at the peak, and what the policy's decisions cost. It follows the reader's preference for light
/// or dark. See [`Report`] for an example.
///
/// # Errors
/// Errors of the writer.
pub fn write_html(report: &Report, mut out: impl Write) -> io::Result<()> {
    let title = escaped(&report.title);
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(
        out,
        "<title>{title}</title>\n<style>\n{}{}</style>",
        theme::style_sheet(),
        include_str!("page.css")
    )?;
    writeln!(out, "</head>\n<body>\n<main>\n<h1>{title}</h1>")?;
    subtitle(report, &mut out)?;
    figures(report, &mut out)?;
    let memory = inline("Memory over time", memory_chart::HEIGHT, |paper| memory_chart::draw(report, paper))?;
    let lanes =
        inline("Lanes over time", lane_chart::height(report), |paper| lane_chart::draw(report, paper))?;
    for chart in [memory, lanes] {
        writeln!(out, "<section>\n<div class=\"scroll\">{chart}</div></section>")?;
    }
    decisions(report, &mut out)?;
    leaving(report, &mut out)?;
    repeated(report, &mut out)?;
    residents(report, &mut out)?;
    writeln!(out, "<footer>Memory is shown as of the op that it was placed for.")?;
    if report.header.simulated {
        writeln!(out, "Times are a simulation's.")?;
    }
    writeln!(out, "Written by burn-overcommit {}.</footer>", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "</main>\n</body>\n</html>")?;
    out.flush()
}

fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '"', '\'']) {
        return text.into();
    }
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe.into()
}

fn subtitle(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let header = &report.header;
    let device = Some(header.device.clone()).filter(|device| *device != report.title);
    let policy = Some(format!("policy {}", header.policy)).filter(|_| !header.policy.is_empty());
    let simulated = header.simulated.then(|| "simulated".to_string());
    let parts = [device, simulated, policy, Some(report.part.clone()), Some(counted(report.ops, "op"))];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    writeln!(out, "<p class=\"quiet\">{}</p>", escaped(&parts.join(" · ")))?;
    if let Some(failure) = report.outcome.as_ref().and_then(|outcome| outcome.failure.as_ref()) {
        writeln!(out, "<p class=\"failure\"><b>It did not get to its end.</b>\n{}</p>", escaped(failure))?;
    }
    if report.ops_after_read > 0 {
        let ops = counted(report.ops_after_read, "op");
        writeln!(
            out,
            "<p class=\"failure\"><b>It read a tensor before its end.</b>\nA simulation has no data, so the {ops} after \
             that may not be those of a real run.</p>"
        )?;
    }
    Ok(())
}

/// The headline figures.
fn figures(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let budget = report.header.budget_bytes;
    let live = report.outcome.as_ref().map_or(report.live_peak_bytes, |outcome| outcome.live_peak_bytes);
    let of_live = match budget < live {
        true => format!("{} of what is live at most", share(budget as f64, live as f64)),
        false => "more than is ever live".into(),
    };
    let of_budget = share(report.peak.bytes as f64, budget as f64);
    let again_ns = report.lanes[Lane::Compute as usize].recompute_ns;
    let ops_again: usize = report.decisions.repeated.iter().map(|op| op.count).sum();
    let class =
        if report.outcome.as_ref().is_some_and(|outcome| outcome.overhead.is_some()) { "" } else { " six" };
    writeln!(out, "<dl class=\"figures{class}\">")?;
    let mut figure = |name: &str, value: String, more: String| {
        writeln!(out, "<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>")
    };
    figure("Budget", size(budget), of_live)?;
    figure("Live at most", size(live), "without any workspace".into())?;
    figure("Peak in device memory", size(report.peak.bytes), format!("{of_budget} of the budget"))?;
    figure(if report.whole { "Time" } else { "Step" }, time(report.step_ns), escaped(&report.part).into())?;
    if let Some((outcome, overhead)) =
        report.outcome.as_ref().and_then(|outcome| Some((outcome, outcome.overhead?)))
    {
        figure(
            "Overhead",
            format!("{overhead:.2}×"),
            format!("of {} with all memory", time(outcome.base_ns)),
        )?;
        let bound = outcome.bound.map_or("none".into(), |bound| format!("{bound:.2}×"));
        figure("Lower bound", bound, "no schedule has less overhead".into())?;
    }
    figure(
        "Copied to the host",
        size(report.offloaded_bytes),
        format!("{} copied back", size(report.fetched_bytes)),
    )?;
    figure("Run again", counted(ops_again, "op"), format!("in {}", time(again_ns)))?;
    writeln!(out, "</dl>")
}

/// A table, with the names and kinds of its columns.
fn table(out: &mut impl Write, columns: &[(&str, &str)]) -> io::Result<()> {
    write!(out, "<div class=\"scroll\"><table>\n<thead><tr>")?;
    for (class, name) in columns {
        write!(out, "<th class=\"{class}\">{name}</th>")?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")
}

fn numbers(out: &mut impl Write, cells: &[String]) -> io::Result<()> {
    cells.iter().try_for_each(|cell| write!(out, "<td class=\"number\">{cell}</td>"))
}

fn decisions(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let decisions = &report.decisions;
    let rows = [
        ("host", "Offloaded: copied to the host, and back when needed", &decisions.offload),
        ("fetch", "Left to its host copy, and fetched when needed", &decisions.clean),
        ("again", "Dropped, and recomputed when needed", &decisions.drop),
        ("none", "No decision: what the program wrote and read itself", &decisions.program),
    ];
    writeln!(out, "<section>\n<h2>What evictions cost</h2>")?;
    let columns = [
        ("name", "what became of the bytes"),
        ("number", "times"),
        ("number", "bytes"),
        ("number", "predicted"),
        ("number", "computing"),
        ("number", "offloading"),
        ("number", "fetching"),
    ];
    table(out, &columns)?;
    for (colour, name, cost) in rows {
        let Cost { count: times, bytes, predicted_ns, spent_ns } = *cost;
        write!(out, "<tr><td class=\"name\"><span class=\"key {colour}\"></span>{name}</td>")?;
        let predicted = if colour == "none" { "–".into() } else { time(predicted_ns) };
        let spent = spent_ns.map(|ns| if ns == 0 { "–".into() } else { time(ns) });
        let [computing, offloading, fetching] = spent;
        numbers(out, &[count(times), size(bytes), predicted, computing, offloading, fetching])?;
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")?;
    writeln!(
        out,
        "<p class=\"quiet\">Predicted is what the policy took each eviction to cost when it chose: copies out and back, or \
         ops to run again. The times are those that lanes spent; lanes work side by side. A copy back counts for the \
         last eviction of its bytes.</p>\n</section>"
    )
}

fn leaving(report: &Report, out: &mut impl Write) -> io::Result<()> {
    if report.leaving.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section>\n<h2>What leaves device memory</h2>")?;
    let mut columns = vec![
        ("name", "made by"),
        ("name", "module"),
        ("name", "how"),
        ("number", "times"),
        ("number", "each"),
        ("number", "away for"),
        ("number", "run again"),
        ("number", "waited for"),
        ("bar", ""),
        ("name", "why"),
    ];
    let has_modules = report.leaving.iter().any(|leaving| leaving.module.is_some());
    columns.retain(|column| has_modules || column.1 != "module");
    table(out, &columns)?;
    let most = report.leaving[0].cost_ns() as f64;
    for leaving in report.leaving.iter().take(MAX_LISTED) {
        let Leaving { made_by, size_bytes, count: times, away_ns, recompute_ns, wait_ns, .. } = leaving;
        write!(out, "<tr><td class=\"name\">{}</td>", escaped(made_by))?;
        if has_modules {
            write!(out, "<td class=\"name\">{}</td>", escaped(leaving.module.as_deref().unwrap_or("")))?;
        }
        write!(out, "<td class=\"name\">{}</td>", leaving.how_in_words())?;
        let away = time(away_ns.checked_div(*times as u64).unwrap_or(0));
        numbers(out, &[count(*times), size(*size_bytes), away, time(*recompute_ns), time(*wait_ns)])?;
        let width = width(leaving.cost_ns() as f64, most);
        let colour = if recompute_ns > wait_ns { "again" } else { "fetch" };
        write!(out, "<td class=\"bar\"><span class=\"{colour}\" style=\"width:{width:.1}%\"></span></td>")?;
        writeln!(out, "<td class=\"name\">{}</td></tr>", leaving.why())?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let waits = time(report.wait_ns);
    writeln!(
        out,
        "<p class=\"quiet\">Away for: how long one of them is, on average. Ops wait for {waits} in all.</p>"
    )?;
    writeln!(out, "</section>")
}

fn repeated(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let repeated = &report.decisions.repeated;
    if repeated.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section>\n<h2>Ops that were run again</h2>")?;
    let columns = [
        ("name", "op"),
        ("number", "times"),
        ("number", "bytes made again"),
        ("number", "time"),
        ("number", "of the step"),
        ("bar", ""),
    ];
    table(out, &columns)?;
    let longest_ns = repeated[0].spent_ns;
    for op in repeated.iter().take(MAX_LISTED) {
        write!(out, "<tr><td class=\"name\">{}</td>", escaped(&op.name))?;
        let part = share(op.spent_ns as f64, report.step_ns as f64);
        numbers(out, &[count(op.count), size(op.bytes), time(op.spent_ns), part])?;
        bar(out, op.spent_ns as f64, longest_ns as f64, "again")?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let rest = &repeated[repeated.len().min(MAX_LISTED)..];
    if !rest.is_empty() {
        let (times, ns) = (rest.iter().map(|op| op.count).sum(), rest.iter().map(|op| op.spent_ns).sum());
        let (kinds, times) = (counted(rest.len(), "other"), counted(times, "time"));
        writeln!(out, "<p class=\"quiet\">And {kinds}, {times}, {}.</p>", time(ns))?;
    }
    writeln!(out, "</section>")
}

fn residents(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let peak = &report.peak;
    if peak.residents.is_empty() {
        return Ok(());
    }
    let for_op = peak.op.as_ref().map_or(String::new(), |op| format!(", for {}", escaped(op)));
    let at = time(peak.at_ns.saturating_sub(report.window.begin_ns));
    writeln!(out, "<section>\n<h2>In device memory at the peak</h2>")?;
    writeln!(out, "<p class=\"quiet\">{} in use after {at}{for_op}.</p>", size(peak.bytes))?;
    let mut columns = vec![
        ("name", "made by"),
        ("name", "module"),
        ("number", "storages"),
        ("number", "each"),
        ("number", "together"),
        ("bar", ""),
        ("name", "what became of each"),
    ];
    let has_modules = peak.residents.iter().any(|resident| resident.module.is_some());
    columns.retain(|column| has_modules || column.1 != "module");
    table(out, &columns)?;
    let together = |resident: &Resident| resident.size_bytes * resident.count;
    let most = peak.residents.first().map_or(0, together);
    for resident in peak.residents.iter().take(MAX_LISTED) {
        write!(out, "<tr><td class=\"name\">{}</td>", escaped(&resident.made_by))?;
        if has_modules {
            write!(out, "<td class=\"name\">{}</td>", escaped(resident.module.as_deref().unwrap_or("")))?;
        }
        let bytes = together(resident);
        numbers(out, &[count(resident.count), size(resident.size_bytes), size(bytes)])?;
        let fate = &resident.fate;
        let colour = match fate {
            _ if fate.dropped + fate.recomputed > 0 => "again",
            _ if fate.offloaded + fate.clean > 0 => "host",
            _ => "device",
        };
        write!(
            out,
            "<td class=\"bar\"><span class=\"{colour}\" style=\"width:{:.1}%\"></span></td>",
            width(bytes as f64, most as f64)
        )?;
        writeln!(out, "<td class=\"name\">{}</td></tr>", fate.words())?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let rest = &peak.residents[peak.residents.len().min(MAX_LISTED)..];
    if !rest.is_empty() {
        let storages = rest.iter().map(|resident| resident.count).sum();
        let bytes = size(rest.iter().map(together).sum());
        writeln!(
            out,
            "<p class=\"quiet\">And {}, {bytes} together.</p>",
            counted(storages, "smaller storage")
        )?;
    }
    writeln!(out, "</section>")
}

/// The last cell of a row.
fn bar(out: &mut impl Write, part: f64, whole: f64, colour: &str) -> io::Result<()> {
    let width = width(part, whole);
    writeln!(out, "<td class=\"bar\"><span class=\"{colour}\" style=\"width:{width:.1}%\"></span></td></tr>")
}

fn width(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}
