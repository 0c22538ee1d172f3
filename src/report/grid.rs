//! A chart of time over budget, for choosing a budget or a device.

use std::io::{self, Write};

use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, VPos};

use super::charts::{Drawn, LEFT, Paper, SHADES, TEXT, WIDTH, heading, standalone, text};
use super::theme::{GRID, MUTED, Shade};
use super::units::{size_unit, time_unit};

/// Height in pixels.
const HEIGHT: u32 = 480;
/// Space for the labels of the axes.
const BELOW: i32 = 52;
/// Space for the heading.
const TOP: i32 = 40;

/// A device with a budget, and how long a step takes there.
/// See [`write_grid`] for an example.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct GridPoint {
    /// The device.
    pub device: String,
    /// The budget.
    pub budget_bytes: usize,
    /// The time of a step; `None` if it does not fit.
    pub step_ns: Option<u64>,
    /// The time that no schedule beats; `None` if no schedule works.
    pub bound_ns: Option<u64>,
    /// What is busy for the largest part of a step: `compute`, `link`, `peers`, `disk` or `network`; `None` if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<&'static str>,
    /// The most bytes in memory of other devices, if that may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_bytes: Option<usize>,
    /// The largest part of the disk that is used, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<usize>,
}

impl GridPoint {
    /// A point of the grid.
    pub fn new(
        device: impl Into<String>,
        budget_bytes: usize,
        step_ns: Option<u64>,
        bound_ns: Option<u64>,
    ) -> Self {
        GridPoint {
            device: device.into(),
            budget_bytes,
            step_ns,
            bound_ns,
            limited_by: None,
            peer_bytes: None,
            disk_bytes: None,
        }
    }
}

/// Writes the time of a step over budgets as an SVG image, with a line for each device and a dashed one for the time that no
/// schedule beats there. A line ends where budgets become too small. The image follows the reader's preference for light or
/// dark.
///
/// ```
/// use burn_overcommit::report::{GridPoint, write_grid};
///
/// let points = [1, 2, 3].map(|gib| GridPoint::new("h100", gib << 30, Some(5_000_000 / gib as u64), Some(1_000_000)));
/// let mut image = Vec::new();
/// write_grid(&points, &mut image)?;
/// assert!(image.starts_with(b"<svg"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_grid(points: &[GridPoint], out: impl Write) -> io::Result<()> {
    standalone(HEIGHT, |paper| draw(points, paper), out)
}

fn draw(points: &[GridPoint], paper: &Paper<'_>) -> Drawn {
    let mut devices: Vec<&str> = points.iter().map(|point| point.device.as_str()).collect();
    devices.dedup();
    let shades = || devices.iter().zip(SHADES.iter().cycle());
    let legend: Vec<(&Shade, &str)> = shades()
        .map(|(device, shade)| (*shade, *device))
        .chain([(&MUTED, "dashed: no schedule below")])
        .collect();
    heading(paper, "Time of a step over budget", &legend)?;

    let times = || points.iter().flat_map(|point| [point.step_ns, point.bound_ns]).flatten();
    let (slowest_ns, fastest_ns) = (times().max().unwrap_or(2), times().min().unwrap_or(1));
    let (unit, unit_ns) = time_unit(slowest_ns);
    let most_bytes = points.iter().map(|point| point.budget_bytes).max().unwrap_or(1);
    let (size_name, unit_bytes) = size_unit(most_bytes);
    let across = |point: &GridPoint| point.budget_bytes as f64 / unit_bytes;
    let least = points.iter().map(across).fold(f64::INFINITY, f64::min);
    let (slowest, fastest) = (slowest_ns as f64 / unit_ns * 1.05, fastest_ns as f64 / unit_ns * 0.95);
    let budgets = least.min(most_bytes as f64 / unit_bytes * 0.99)..most_bytes as f64 / unit_bytes;
    let mut chart = ChartBuilder::on(paper)
        .margin_top(TOP)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(budgets, fastest..slowest)?;
    chart
        .configure_mesh()
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&|bytes| format!("{bytes:.1} {size_name}"))
        .y_label_formatter(&|time| format!("{time:.0} {unit}"))
        .bold_line_style(GRID.day)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID.day)
        .label_style(("sans-serif", TEXT).into_font().color(&MUTED.day))
        .draw()?;
    let below = (WIDTH as i32 / 2, HEIGHT as i32 - 10);
    paper.draw(&Text::new("device memory", below, text(&MUTED, HPos::Center, VPos::Center)))?;

    for (device, shade) in shades() {
        let curve = |time: fn(&GridPoint) -> Option<u64>| {
            let of_device = points.iter().filter(|point| point.device == *device);
            let mut curve: Vec<(f64, f64)> =
                of_device.filter_map(|point| Some((across(point), time(point)? as f64 / unit_ns))).collect();
            curve.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve
        };
        let steps = curve(|point| point.step_ns);
        chart.draw_series(LineSeries::new(steps.iter().copied(), shade.day.stroke_width(2)))?;
        chart.draw_series(steps.iter().map(|&point| Circle::new(point, 3, shade.day.filled())))?;
        let bound = curve(|point| point.bound_ns);
        chart.draw_series(DashedLineSeries::new(bound, 5, 4, shade.day.stroke_width(1)))?;
    }
    Ok(())
}
