//! Parts that all charts share: the drawing area, titles, legends, and the axis of time.

use std::error::Error;
use std::io::{self, Write};

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::summary::Report;
use super::theme::{self, AGAIN, BUDGET, DEVICE, FETCH, GRID, HOST, INK, MUTED, SURFACE, Shade};
use super::timeline::COLUMNS;
use super::units::time_unit;

/// Width of all charts, in pixels.
pub(super) const WIDTH: u32 = 1120;
/// Margin around charts in an image of their own.
pub(super) const MARGIN: u32 = 16;
/// Space for the labels of the vertical axis.
pub(super) const LEFT: i32 = 92;
/// Space for the labels of the axis of time.
pub(super) const BELOW: i32 = 26;
/// Size of most text, in pixels of a chart.
pub(super) const TEXT: f64 = 15.5;
/// Estimated width of a letter of that size.
pub(super) const LETTER: i32 = 7;

/// Colours of lines, in turn.
pub(super) const SHADES: [&Shade; 6] = [&DEVICE, &AGAIN, &HOST, &FETCH, &INK, &BUDGET];

pub(super) type Drawn = Result<(), Box<dyn Error>>;
pub(super) type Paper<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Writes an image of this height plus margins, with its own style sheet.
pub(super) fn standalone(
    height: u32,
    draw: impl FnOnce(&Paper<'_>) -> Drawn,
    mut out: impl Write,
) -> io::Result<()> {
    let image = drawn(WIDTH + 2 * MARGIN, height + 2 * MARGIN, |paper| {
        draw(&paper.margin(MARGIN, MARGIN, MARGIN, MARGIN))
    })?;
    let begin = image.find('>').map_or(0, |end| end + 1);
    let (opening, rest) = image.split_at(begin);
    let opening = opening.replacen("<svg ", "<svg class=\"chart\" ", 1);
    write!(out, "{opening}\n<style>\n{}</style>{rest}", theme::style_sheet())?;
    out.flush()
}

/// A chart as part of a page, as wide as there is room, described by `label`.
pub(super) fn inline(label: &str, height: u32, draw: impl FnOnce(&Paper<'_>) -> Drawn) -> io::Result<String> {
    let image = drawn(WIDTH, height, draw)?;
    let sized = format!("<svg width=\"{WIDTH}\" height=\"{height}\"");
    Ok(image.replacen(&sized, &format!("<svg class=\"chart\" role=\"img\" aria-label=\"{label}\""), 1))
}

fn drawn(width: u32, height: u32, draw: impl FnOnce(&Paper<'_>) -> Drawn) -> io::Result<String> {
    let mut image = String::new();
    let paper = SVGBackend::with_string(&mut image, (width, height)).into_drawing_area();
    let all = || -> Drawn {
        paper.fill(&SURFACE.day)?;
        draw(&paper)?;
        Ok(paper.present()?)
    };
    all().map_err(|error| io::Error::other(error.to_string()))?;
    drop(paper);
    Ok(image)
}

/// The style of text with this colour and anchor.
pub(super) fn text(shade: &Shade, across: HPos, along: VPos) -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&shade.day).pos(Pos::new(across, along))
}

/// The style of an area of this colour.
pub(super) fn fill(shade: &Shade) -> ShapeStyle {
    shade.day.filled()
}

/// Draws a title at the left, and a legend of the colours at the right.
pub(super) fn heading(paper: &Paper<'_>, title: &str, legend: &[(&Shade, &str)]) -> Drawn {
    let bold = ("sans-serif", 19.0).into_font().style(FontStyle::Bold).color(&INK.day);
    paper.draw(&Text::new(title.to_string(), (0, 12), bold.pos(Pos::new(HPos::Left, VPos::Center))))?;
    let width = |label: &str| 20 + LETTER * label.chars().count() as i32 + 22;
    let mut at = WIDTH as i32 - 18 + 22 - legend.iter().map(|(_, label)| width(label)).sum::<i32>();
    for (shade, label) in legend {
        paper.draw(&Rectangle::new([(at, 6), (at + 12, 18)], fill(shade)))?;
        paper.draw(&Text::new(label.to_string(), (at + 19, 12), text(&MUTED, HPos::Left, VPos::Center)))?;
        at += width(label);
    }
    Ok(())
}

/// Draws the axis of time, and with `sizes` an axis of bytes. `sizes` is its range, in units, and the unit.
pub(super) fn axes(
    paper: &Paper<'_>,
    report: &Report,
    top: i32,
    sizes: Option<(std::ops::Range<f64>, &str)>,
) -> Drawn {
    let (unit, unit_ns) = time_unit(report.window.length_ns());
    let end = report.window.length_ns() as f64 / unit_ns;
    let (range, size_unit) = sizes.clone().unwrap_or((0.0..1.0, ""));
    let mut chart = ChartBuilder::on(paper)
        .margin_top(top)
        .margin_right(WIDTH as i32 - LEFT - COLUMNS as i32)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(0.0..end, range)?;
    let time_label = |value: &f64| format!("{} {unit}", rounded(*value));
    let size_label = |value: &f64| format!("{} {size_unit}", rounded(value.abs()));
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(9)
        .y_labels(7)
        .x_label_formatter(&time_label)
        .y_label_formatter(&size_label)
        .bold_line_style(GRID.day)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID.day)
        .label_style(("sans-serif", TEXT).into_font().color(&MUTED.day));
    if sizes.is_none() {
        mesh.disable_y_mesh().disable_y_axis().y_labels(0);
    }
    Ok(mesh.draw()?)
}

/// A number without trailing zeros.
fn rounded(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// The column of a time in the drawing area.
pub(super) fn column_of(report: &Report, at_ns: u64) -> i32 {
    let since_ns = at_ns.saturating_sub(report.window.begin_ns).min(report.window.length_ns());
    LEFT + (COLUMNS as f64 * since_ns as f64 / report.window.length_ns() as f64).round() as i32
}

/// Draws the program's notes: for each a line from `top` to `bottom`, and its text above if there is room.
pub(super) fn notes(paper: &Paper<'_>, report: &Report, top: i32, bottom: i32, labels: bool) -> Drawn {
    let mut marks: Vec<(i32, String)> = Vec::new();
    for (at_ns, note) in &report.notes {
        let at = column_of(report, *at_ns);
        match marks.last_mut() {
            Some((last, text)) if at - *last < 3 => *text = format!("{text} · {note}"),
            _ => marks.push((at, note.clone())),
        }
    }
    let mut free_from = LEFT;
    for (at, note) in marks {
        let style = MUTED.day.mix(0.55).stroke_width(1);
        paper.draw(&DashedPathElement::new([(at, top), (at, bottom)], 3, 3, style))?;
        let width = LETTER * note.chars().count() as i32;
        let begin = at.min(LEFT + COLUMNS as i32 - width);
        if labels && begin >= free_from {
            free_from = begin + width + 10;
            paper.draw(&Text::new(note, (begin, top - 9), text(&MUTED, HPos::Left, VPos::Center)))?;
        }
    }
    Ok(())
}
