//! Reads a file line by line, with errors that name the line.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::program::TraceError;
use crate::messages;

/// Reads a file line by line, with errors that name the line.
pub(super) struct Lines<'a> {
    path: &'a Path,
    lines: std::io::Lines<BufReader<File>>,
    number: usize,
}

impl<'a> Lines<'a> {
    /// Opens a file before its first line.
    pub fn open(path: &'a Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|reason| TraceError::File { path: path.into(), reason })?;
        Ok(Lines { path, lines: BufReader::new(file).lines(), number: 0 })
    }

    /// The next line.
    pub fn next(&mut self) -> Result<Option<String>, TraceError> {
        let Some(line) = self.lines.next() else { return Ok(None) };
        self.number += 1;
        match line {
            Ok(line) => Ok(Some(line)),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(self.error("it is not text"))
            }
            Err(reason) => Err(TraceError::File { path: self.path.into(), reason }),
        }
    }

    /// An error in the line that was read last.
    pub fn error(&self, reason: impl ToString) -> TraceError {
        TraceError::Line { path: self.path.into(), line: self.number, reason: reason.to_string() }
    }

    /// Warns of something in the file.
    pub fn warn(&self, message: Arguments) {
        messages::tell(log::Level::Warn, format_args!("{}: {message}", self.path.display()));
    }

    /// Parses the line.
    pub fn parse<T: for<'de> Deserialize<'de>>(&self, line: &str) -> Result<T, TraceError> {
        serde_json::from_str(line)
            .map_err(|error| self.error(format!("column {}: {}", error.column(), plain(&error))))
    }
}

/// The message without its place: serde counts lines within the text, not in the file.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_string())
}
