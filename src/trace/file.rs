//! Traces as files: a line of JSON for the header, one for each event, and after each block of events one with the number of events
//! so far, by which a truncated file is recognised. A process that is killed leaves a trace up to its last block.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::event::{Event, Header};
use super::journal::Recording;
use super::lines::Lines;
use super::program::{Checker, Program, TraceError};
use super::simrd;

/// The version that this crate writes and reads.
const VERSION: u32 = 1;

/// The last line of a block.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// The number of events so far.
    events: usize,
}

/// Any line but the first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    End { end: End },
    Event(Box<Event>),
}

/// A trace that is written block by block.
pub(crate) struct TraceFile {
    file: BufWriter<File>,
    events: usize,
}

impl TraceFile {
    /// Makes the file, or replaces what was there.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(&mut file, header)?;
        file.write_all(b"\n")?;
        Ok(TraceFile { file, events: 0 })
    }

    /// Writes a block.
    pub fn append(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            serde_json::to_writer(&mut self.file, event)?;
            self.file.write_all(b"\n")?;
        }
        self.events += events.len();
        writeln!(self.file, "{}", serde_json::json!({ "end": End { events: self.events } }))?;
        self.file.flush()
    }
}

/// What was read of a trace.
#[derive(Default)]
struct Reading {
    events: Vec<Event>,
    checker: Checker,
    /// The number of events in whole blocks.
    whole: Option<usize>,
}

impl Reading {
    /// Takes a line.
    fn take(&mut self, line: &str, lines: &Lines) -> Result<(), TraceError> {
        match lines.parse(line)? {
            Line::Event(event) => {
                self.checker.check(&event).map_err(|reason| lines.error(reason))?;
                self.events.push(*event);
            }
            Line::End { end } if end.events != self.events.len() => {
                let reason =
                    format!("{} events were written, and {} are here", end.events, self.events.len());
                return Err(lines.error(reason));
            }
            Line::End { end } => self.whole = Some(end.events),
        }
        Ok(())
    }
}

impl Recording {
    /// Writes the trace to a file and replaces what was there.
    ///
    /// # Errors
    /// An error of the system.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        let path = path.as_ref();
        TraceFile::create(path, &self.header)
            .and_then(|mut file| file.append(&self.events))
            .map_err(|reason| TraceError::File { path: path.into(), reason })
    }

    /// Reads a trace that [`save`](Recording::save) wrote, or a process that was recorded by its environment. If that was killed,
    /// the trace ends with the last block that it wrote, and a warning says so.
    ///
    /// # Errors
    /// If the file cannot be read, has another format, or is damaged or truncated. The error names the line and the
    /// reason.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let mut lines = Lines::open(path.as_ref())?;
        let first = lines.next()?.ok_or_else(|| lines.error("the file is empty"))?;
        Recording::read(&first, &mut lines)
    }

    fn read(first: &str, lines: &mut Lines) -> Result<Self, TraceError> {
        let header: Header = lines.parse(first)?;
        if header.trace != VERSION {
            return Err(
                lines.error(format!("version {} of the format; this program reads {VERSION}", header.trace))
            );
        }
        let mut reading = Reading::default();
        while let Some(line) = lines.next()? {
            if let Err(error) = reading.take(&line, lines) {
                // Whoever is killed leaves half a line.
                match lines.next()? {
                    None if reading.whole.is_some() => break,
                    _ => return Err(error),
                }
            }
        }
        let Reading { mut events, whole, .. } = reading;
        let whole =
            whole.ok_or_else(|| lines.error("the trace was cut off after this line: there is no end"))?;
        if whole < events.len() {
            lines.warn(format_args!(
                "the program was ended while it ran; its last {} events are not whole, and left out",
                events.len() - whole
            ));
        }
        events.truncate(whole);
        Ok(Recording { header, events })
    }
}

impl Program {
    /// Reads a program from a trace of this crate or from a log of the DTR simulator; the first line tells which.
    ///
    /// # Errors
    /// If the file cannot be read, has neither format, or is damaged or truncated. The error names the line and the
    /// reason.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let mut lines = Lines::open(path.as_ref())?;
        let first = lines.next()?.ok_or_else(|| lines.error("the file is empty"))?;
        match first.contains("\"INSTRUCTION\"") {
            true => simrd::read(first, &mut lines),
            false => Ok(Recording::read(&first, &mut lines)?.program()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Made, OpEvent, Ran};

    fn recording() -> Recording {
        let op = OpEvent {
            name: "exp".into(),
            inputs: vec![0],
            consumed: vec![0],
            in_place: vec![0],
            parameters: Vec::new(),
            outputs: vec![Made { storage: 1, bytes: 40 }],
            scratch_bytes: 0,
            work: crate::op::Work {
                flops: 10,
                read_bytes: 40,
                written_bytes: 40,
                dtype: crate::op::Dtype::F32,
                measured_ns: None,
            },
            exact: true,
            module: None,
            ran: Ran { sequence: 0, begin_ns: 5, end_ns: 9 },
        };
        let events =
            vec![Event::Write(Made { storage: 0, bytes: 40 }), Event::Op(op), Event::Read(1), Event::Free(1)];
        Recording { header: Header { trace: 1, device: "host:0".into(), ..Header::default() }, events }
    }

    fn damaged(change: impl Fn(&str) -> String) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        recording().save(&path).unwrap();
        std::fs::write(&path, change(&std::fs::read_to_string(&path).unwrap())).unwrap();
        let error = Recording::open(&path).unwrap_err().to_string();
        error.replace(path.to_str().unwrap(), "trace")
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        recording().save(&path).unwrap();
        assert_eq!(Recording::open(&path).unwrap(), recording());
        assert_eq!(Program::open(&path).unwrap(), recording().program());
    }

    #[test]
    fn damage_is_told_by_line_and_reason() {
        let cut_at = |count: usize| damaged(|text| text.lines().take(count).collect::<Vec<_>>().join("\n"));
        assert_eq!(cut_at(0), "trace:0: the file is empty");
        assert_eq!(cut_at(4), "trace:4: the trace was cut off after this line: there is no end");
        let error = damaged(|text| text[..text.len() - 100].to_string());
        assert!(error.starts_with("trace:3: column"), "{error}");
        let error = damaged(|text| text.replace("\"read\":1", "\"read\":7"));
        assert_eq!(error, "trace:4: storage 7 was never made");
        let error = damaged(|text| text.replace("\"read\":1", "\"read\":0"));
        assert_eq!(error, "trace:4: storage 0 was freed before");
        let error = damaged(|text| text.replace("\"consumed\":[0]", "\"consumed\":[3]"));
        assert_eq!(error, "trace:3: there is no input 3: the op has 1");
        let parameter = |text: &str| text.replace("\"consumed\":[0]", "\"consumed\":[0],\"parameters\":[1]");
        assert_eq!(damaged(parameter), "trace:3: there is no input 1: the op has 1");
        let error = damaged(|text| text.replace("{\"read\":1}\n", ""));
        assert_eq!(error, "trace:5: 4 events were written, and 3 are here");
        let error = damaged(|text| text.replace("\"trace\":1", "\"trace\":9"));
        assert_eq!(error, "trace:1: version 9 of the format; this program reads 1");
        let error = damaged(|text| format!("{text}{{}}\n{{}}\n"));
        assert!(error.starts_with("trace:7: column"), "{error}");
    }

    #[test]
    fn a_trace_that_is_not_written_to_its_end_is_read_up_to_its_last_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let Recording { header, events } = recording();
        let mut file = TraceFile::create(&path, &header).unwrap();
        file.append(&events[..1]).unwrap();
        file.append(&events[1..3]).unwrap();
        let blocks = std::fs::read_to_string(&path).unwrap();
        let free = serde_json::to_string(&events[3]).unwrap();
        for rest in ["", &free[..3], &free, &format!("{free}\n")] {
            std::fs::write(&path, format!("{blocks}{rest}")).unwrap();
            assert_eq!(Recording::open(&path).unwrap().events, events[..3], "{rest}");
        }
    }
}
