//! A chart that compares policies over budgets.

use std::io::{self, Write};

use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, VPos};

use super::charts::{Drawn, LEFT, Paper, SHADES, WIDTH, heading, standalone, text};
use super::theme::{GRID, MUTED, Shade};
use crate::replay::Outcome;

/// Height in pixels.
const HEIGHT: u32 = 480;
/// Space for the labels of the axes.
const BELOW: i32 = 52;
/// Space for the heading.
const TOP: i32 = 40;

/// Writes the overhead of policies over budgets as an SVG image, with a line for each policy and one for the bound
/// that no schedule beats. Both axes show ratios. A line ends where budgets become too small for the policy. The
/// image follows the reader's preference for light or dark.
///
/// ```
/// use burn_overcommit::report::write_comparison;
///
/// let mut image = Vec::new();
/// write_comparison(&[], &mut image)?;
/// assert!(image.starts_with(b"<svg"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_comparison(outcomes: &[Outcome], out: impl Write) -> io::Result<()> {
    standalone(HEIGHT, |paper| draw(outcomes, paper), out)
}

fn draw(outcomes: &[Outcome], paper: &Paper<'_>) -> Drawn {
    let mut policies: Vec<&'static str> = Vec::new();
    for outcome in outcomes {
        if !policies.contains(&outcome.policy) {
            policies.push(outcome.policy);
        }
    }
    let shades = || policies.iter().zip(SHADES.iter().cycle());
    let legend: Vec<(&Shade, &str)> =
        shades().map(|(policy, shade)| (*shade, *policy)).chain([(&MUTED, "no schedule below")]).collect();
    heading(paper, "Overhead over budget", &legend)?;

    let share =
        |outcome: &Outcome| 100.0 * outcome.budget_bytes as f64 / outcome.live_peak_bytes.max(1) as f64;
    let shares = outcomes.iter().map(share);
    let (least, most) =
        shares.fold((100.0f64, 100.0f64), |(least, most), share| (least.min(share), most.max(share)));
    let slowest = outcomes.iter().filter_map(|outcome| outcome.overhead).fold(1.5, f64::max);
    let mut chart = ChartBuilder::on(paper)
        .margin_top(TOP)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(most..least.min(most - 1.0), (1.0..slowest * 1.05).log_scale().base(2.0))?;
    let label = |size: f64| ("sans-serif", size).into_font().color(&MUTED.day);
    chart
        .configure_mesh()
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&|share| format!("{share:.0} %"))
        .y_label_formatter(&|overhead| format!("{overhead} x"))
        .bold_line_style(GRID.day)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID.day)
        .label_style(label(super::charts::TEXT))
        .draw()?;
    let what = Text::new(
        "budget, as a share of what is live at most",
        (WIDTH as i32 / 2, HEIGHT as i32 - 10),
        text(&MUTED, HPos::Center, VPos::Center),
    );
    paper.draw(&what)?;

    for (policy, shade) in shades() {
        let of_policy = outcomes.iter().filter(|outcome| outcome.policy == *policy);
        let mut points: Vec<(f64, f64)> =
            of_policy.filter_map(|outcome| Some((share(outcome), outcome.overhead?))).collect();
        points.sort_by(|a, b| b.0.total_cmp(&a.0));
        chart.draw_series(LineSeries::new(points.iter().copied(), shade.day.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, shade.day.filled())))?;
    }
    let mut bounds: Vec<(f64, f64)> =
        outcomes.iter().filter_map(|outcome| Some((share(outcome), outcome.bound?))).collect();
    bounds.sort_by(|a, b| b.0.total_cmp(&a.0));
    bounds.dedup();
    chart.draw_series(DashedLineSeries::new(bounds, 5, 4, MUTED.day.stroke_width(2)))?;
    Ok(())
}
