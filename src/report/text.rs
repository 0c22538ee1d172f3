//! Tables and paragraphs of plain text, as wide as the formatter says: `{explanation:80}`. Without a width, a row is a line.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

pub(super) const LEFT: CellAlignment = CellAlignment::Left;
pub(super) const RIGHT: CellAlignment = CellAlignment::Right;

/// Writes rows in columns without lines between them.
pub(super) fn write_table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    alignments: [CellAlignment; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> fmt::Result {
    write_columns(f, 2, alignments, rows)
}

/// Writes a paragraph.
pub(super) fn write_paragraph(f: &mut fmt::Formatter<'_>, text: String) -> fmt::Result {
    write_columns(f, 0, [LEFT], [[text]])
}

/// Writes paragraphs with a dash before each.
pub(super) fn write_list(f: &mut fmt::Formatter<'_>, items: Vec<String>) -> fmt::Result {
    write_columns(f, 1, [LEFT, LEFT], items.into_iter().map(|item| ["-".to_string(), item]))
}

fn write_columns<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    gap: u16,
    alignments: [CellAlignment; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> fmt::Result {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if let Some(width) = f.width() {
        // The gap after the last column is cut off.
        let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(gap);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.add_rows(rows);
    for (column, alignment) in table.column_iter_mut().zip(alignments) {
        column.set_cell_alignment(alignment);
        column.set_padding((0, gap));
    }
    writeln!(f, "{}", table.trim_fmt())
}
