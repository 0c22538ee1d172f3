//! A chart of memory over time. Upwards it shows bytes in device memory, downwards bytes that the program holds and
//! that are not there.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::charts::{BELOW, Drawn, LEFT, Paper, axes, column_of, fill, heading, notes, text};
use super::summary::Report;
use super::theme::{AGAIN, BUDGET, DEVICE, HOST, INK, MUTED, SURFACE, Shade};
use super::timeline::{Bytes, COLUMNS};
use super::units::{size, size_unit};

/// Height in pixels.
pub(super) const HEIGHT: u32 = 430;
/// Where the plot begins: below the heading and the notes.
const TOP: i32 = 56;
/// Height of the plot.
const PLOT: i32 = HEIGHT as i32 - TOP - BELOW;
/// Space above the budget in the plot, for its label.
const HEADROOM: f64 = 26.0;
/// A budget of this many times the peak is not shown.
const FAR: usize = 3;

/// The vertical axis.
struct Scale {
    up_bytes: f64,
    down_bytes: f64,
}

impl Scale {
    fn new(report: &Report) -> Self {
        let budget = if far(report) { 0 } else { report.header.budget_bytes };
        let top = budget.max(report.peak.bytes).max(1) as f64;
        let below = report.memory.iter().map(|bytes| bytes.host_only + bytes.dropped).max().unwrap_or(0);
        let down_bytes = below as f64 * 1.04;
        let all = (top + down_bytes) / (1.0 - HEADROOM / f64::from(PLOT));
        Scale { up_bytes: all - down_bytes, down_bytes }
    }

    /// The row of a number of bytes in the drawing area; bytes below the line are negative.
    fn at(&self, bytes: f64) -> i32 {
        let part = (self.up_bytes - bytes) / (self.up_bytes + self.down_bytes);
        TOP + (part * f64::from(PLOT)).round() as i32
    }
}

fn far(report: &Report) -> bool {
    report.header.budget_bytes / FAR > report.peak.bytes
}

/// Draws the chart.
pub(super) fn draw(report: &Report, paper: &Paper<'_>) -> Drawn {
    let legend = [
        (&DEVICE, "in device memory"),
        (&HOST, "only in host memory"),
        (&AGAIN, "dropped, to be recomputed"),
        (&BUDGET, "budget"),
    ];
    heading(paper, "Memory over time", &legend)?;
    let scale = Scale::new(report);
    let most = scale.up_bytes.max(scale.down_bytes);
    let (unit, unit_bytes) = size_unit(most as usize);
    let range = -scale.down_bytes / unit_bytes..scale.up_bytes / unit_bytes;
    axes(paper, report, TOP, Some((range, unit)))?;
    area(report, paper, &scale, &DEVICE, |bytes| (0.0, bytes.device as f64))?;
    let host_only = |bytes: &Bytes| -(bytes.host_only as f64);
    area(report, paper, &scale, &HOST, |bytes| (host_only(bytes), 0.0))?;
    let lost = |bytes: &Bytes| -((bytes.host_only + bytes.dropped) as f64);
    area(report, paper, &scale, &AGAIN, |bytes| (lost(bytes), host_only(bytes)))?;
    let line = [(LEFT, scale.at(0.0)), (LEFT + COLUMNS as i32, scale.at(0.0))];
    paper.draw(&PathElement::new(line, MUTED.day.stroke_width(1)))?;
    notes(paper, report, TOP, TOP + PLOT, true)?;
    budget_and_peak(report, paper, &scale)
}

/// The area between two curves, as steps.
fn area(
    report: &Report,
    paper: &Paper<'_>,
    scale: &Scale,
    shade: &Shade,
    between: impl Fn(&Bytes) -> (f64, f64),
) -> Drawn {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for (column, bytes) in report.memory.iter().enumerate() {
        let (from, to) = between(bytes);
        let at = LEFT + column as i32;
        step(&mut low, at, scale.at(from));
        step(&mut high, at, scale.at(to));
    }
    if low.iter().zip(&high).all(|(low, high)| low.1 == high.1) && low.len() == high.len() {
        return Ok(());
    }
    high.extend(low.into_iter().rev());
    Ok(paper.draw(&Polygon::new(high, fill(shade)))?)
}

/// Continues at this height; a step of the same height as the one before prolongs it.
fn step(path: &mut Vec<(i32, i32)>, at: i32, height: i32) {
    match path.last_mut() {
        Some(last) if last.1 == height => last.0 = at + 1,
        _ => path.extend([(at, height), (at + 1, height)]),
    }
}

fn budget_and_peak(report: &Report, paper: &Paper<'_>, scale: &Scale) -> Drawn {
    let (left, right) = (LEFT, LEFT + COLUMNS as i32);
    let (peak_at, peak_height) = (column_of(report, report.peak.at_ns), scale.at(report.peak.bytes as f64));
    let budget = size(report.header.budget_bytes);
    let at_right = peak_at < (left + right) / 2;
    let (at, side) = if at_right { (right - 8, HPos::Right) } else { (left + 8, HPos::Left) };
    let mut headroom = scale.at(report.peak.bytes as f64) - 13;
    if far(report) {
        let words = format!("budget {budget}, far above");
        paper.draw(&Text::new(words, (at, TOP + 13), text(&BUDGET, side, VPos::Center)))?;
    } else {
        let height = scale.at(report.header.budget_bytes as f64);
        let line = [(left, height), (right, height)];
        paper.draw(&PathElement::new(line, BUDGET.day.stroke_width(2)))?;
        let words = format!("budget {budget}");
        paper.draw(&Text::new(words, (at, height - 13), text(&BUDGET, side, VPos::Center)))?;
        // There is no room for text between the two.
        if peak_height - height < 30 {
            headroom = height - 13;
        }
    }
    // The text is beside its moment, which often has a line of its own, and apart from other text.
    let words = format!("peak {}", size(report.peak.bytes));
    let (at, side) = if at_right { (peak_at + 8, HPos::Left) } else { (peak_at - 8, HPos::Right) };
    paper.draw(&Text::new(words, (at, headroom), text(&INK, side, VPos::Center)))?;
    paper.draw(&Circle::new((peak_at, peak_height), 6, fill(&SURFACE)))?;
    Ok(paper.draw(&Circle::new((peak_at, peak_height), 4, fill(&INK)))?)
}
