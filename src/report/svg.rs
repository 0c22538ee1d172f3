//! Both charts of a report as one image.

use std::io::{self, Write};

use super::charts::{MARGIN, Paper, standalone};
use super::summary::Report;
use super::{lane_chart, memory_chart};

/// Writes both charts of a report as one SVG image, memory above lanes. It follows the reader's preference for light or
/// dark.
///
/// ```
/// use burn_overcommit::report::{Report, write_svg};
/// use burn_overcommit::trace::Recording;
///
/// let mut image = Vec::new();
/// write_svg(&Report::new(&Recording::default(), None), &mut image)?;
/// assert!(image.starts_with(b"<svg"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Errors of the writer.
pub fn write_svg(report: &Report, out: impl Write) -> io::Result<()> {
    let height = memory_chart::HEIGHT + MARGIN + lane_chart::height(report);
    let draw = |paper: &Paper<'_>| {
        let (above, rest) = paper.split_vertically(memory_chart::HEIGHT);
        let (_, below) = rest.split_vertically(MARGIN);
        memory_chart::draw(report, &above)?;
        lane_chart::draw(report, &below)
    };
    standalone(height, draw, out)
}
