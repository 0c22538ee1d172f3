//! A chart of the lanes' work over time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::charts::{BELOW, Drawn, LEFT, LETTER, Paper, axes, column_of, fill, heading, notes, text};
use super::summary::Report;
use super::theme::{AGAIN, DEVICE, FETCH, HOST, INK, MUTED, ON_FILL, Shade, TRACK};
use super::timeline::{COLUMNS, LaneTime, Piece};
use super::units::share;

/// Height in pixels of the lanes that are always shown.
const HEIGHT: u32 = 272;
/// Where the plot begins: below the heading.
const TOP: i32 = 36;
/// Height of a lane.
const ROW: i32 = 58;
/// Distance from one lane to the next.
const PITCH: i32 = 70;

/// Height in pixels.
pub(super) fn height(report: &Report) -> u32 {
    HEIGHT + (shown(report).count() - SHOWN) as u32 * PITCH as u32
}

/// The lanes that are always shown.
const SHOWN: usize = 3;

/// The lanes that are shown: those of other devices and of the disk if they worked.
fn shown(report: &Report) -> impl Iterator<Item = (usize, &LaneTime)> {
    report.lanes.iter().enumerate().filter(|(index, lane)| *index < SHOWN || lane.busy_ns > 0)
}

/// Draws the chart.
pub(super) fn draw(report: &Report, paper: &Paper<'_>) -> Drawn {
    let legend =
        [(&DEVICE, "op"), (&AGAIN, "op run again"), (&HOST, "copy to the host"), (&FETCH, "copy back")];
    heading(paper, "Lanes over time", &legend)?;
    axes(paper, report, TOP, None)?;
    let names = [
        ("compute", &DEVICE),
        ("offload", &HOST),
        ("fetch", &FETCH),
        ("to peers", &HOST),
        ("from peers", &FETCH),
        ("to disk", &HOST),
        ("from disk", &FETCH),
    ];
    for (row, (index, lane)) in shown(report).enumerate() {
        let (name, shade) = names[index];
        let top = TOP + PITCH * row as i32;
        let track = [(LEFT, top), (LEFT + COLUMNS as i32, top + ROW)];
        paper.draw(&Rectangle::new(track, fill(&TRACK)))?;
        let busy = share(lane.busy_ns as f64, report.window.length_ns() as f64);
        let middle = top + ROW / 2;
        paper.draw(&Text::new(name, (0, middle - 8), text(&INK, HPos::Left, VPos::Center)))?;
        paper.draw(&Text::new(
            format!("busy {busy}"),
            (0, middle + 9),
            text(&MUTED, HPos::Left, VPos::Center),
        ))?;
        match &lane.pieces {
            Some(pieces) => pieces.iter().try_for_each(|each| piece(report, paper, each, shade, top))?,
            None => utilisation(paper, lane, shade, top)?,
        }
    }
    notes(paper, report, TOP, height(report) as i32 - BELOW, false)
}

/// Draws a piece of work, with its name if that fits.
fn piece(report: &Report, paper: &Paper<'_>, piece: &Piece, shade: &Shade, top: i32) -> Drawn {
    let (begin, end) = (column_of(report, piece.begin_ns), column_of(report, piece.end_ns));
    // Neighbours have a gap between them if they are wide enough.
    let end = if end - begin > 3 { end - 1 } else { end.max(begin + 1) };
    let shade = if piece.again { &AGAIN } else { shade };
    paper.draw(&Rectangle::new([(begin, top), (end, top + ROW)], fill(shade)))?;
    if LETTER * piece.name.chars().count() as i32 + 8 < end - begin {
        let middle = ((begin + end) / 2, top + ROW / 2);
        let style = text(&ON_FILL, HPos::Center, VPos::Center);
        paper.draw(&Text::new(piece.name.to_string(), middle, style))?;
    }
    Ok(())
}

/// Draws the part of each column's time in which the lane worked, with ops that were run again on top of the others.
fn utilisation(paper: &Paper<'_>, lane: &LaneTime, shade: &Shade, top: i32) -> Drawn {
    let height = |part: f64| top + ROW - (part.min(1.0) * f64::from(ROW)).round() as i32;
    let all = lane.columns.iter().map(|[op, again]| height(op + again));
    let ops = lane.columns.iter().map(|[op, _]| height(*op));
    if lane.recompute_ns > 0 {
        paper.draw(&Polygon::new(outline(all, top), fill(&AGAIN)))?;
    }
    Ok(paper.draw(&Polygon::new(outline(ops, top), fill(shade)))?)
}

fn outline(heights: impl Iterator<Item = i32>, top: i32) -> Vec<(i32, i32)> {
    let mut path = vec![(LEFT, top + ROW)];
    for (column, height) in heights.enumerate() {
        let at = LEFT + column as i32;
        match path.last_mut() {
            Some(last) if last.1 == height => last.0 = at + 1,
            _ => path.extend([(at, height), (at + 1, height)]),
        }
    }
    path.push((LEFT + COLUMNS as i32, top + ROW));
    path
}
