//! The logs of the DTR simulator (Kirisame et al., *Dynamic Tensor Rematerialization*, ICLR 2021; `simrd` in its public
//! repository): one training iteration of a PyTorch program, as the framework's operators saw it.
//!
//! The instructions mean the following, according to the simulator's own reader:
//! - A `CONSTANT` exists from the beginning, is never evicted and never freed.
//! - `COPY` gives a tensor another name, and `COPYFROM` gives a name to another tensor. `RELEASE` drops one
//!   reference, and has no effect if the name is unknown.
//! - `CALL` makes a storage for each result that is no `ALIAS` of an argument; an alias shares its argument's
//!   storage.
//! - `MUTATE` makes a new storage for each argument that it changes and drops a reference of the old one.
//! - A storage that has references at the end stays.
//!
//! A call that makes only aliases is a change of layout: its time counts here, but it reads no bytes.

use std::collections::HashMap;

use serde::Deserialize;

use super::event::{Event, Made, OpEvent, Ran};
use super::lines::Lines;
use super::program::{Program, TraceError};
use crate::op::{Dtype, Work};

#[derive(Deserialize)]
#[serde(tag = "INSTRUCTION", rename_all = "UPPERCASE", rename_all_fields = "UPPERCASE")]
enum Instruction {
    Constant {
        name: String,
    },
    Memory {
        name: String,
        memory: Number,
    },
    Alias {
        name: String,
        alias: Number,
    },
    Call {
        name: String,
        args: Vec<String>,
        result: Vec<String>,
        time: Number,
    },
    Mutate {
        name: String,
        args: Vec<String>,
        mutate: Vec<usize>,
        time: Number,
    },
    Copy {
        dst: String,
        src: String,
    },
    #[serde(alias = "COPY_FROM")]
    CopyFrom {
        dst: String,
        src: String,
    },
    Release {
        name: String,
    },
    Annotate {
        annotation: String,
    },
}

/// A number, which the prototype writes as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Value(i64),
}

/// A storage, while names refer to it.
struct Shared {
    bytes: usize,
    references: u32,
    constant: bool,
}

#[derive(Default)]
struct Reader {
    events: Vec<Event>,
    /// By number.
    storages: Vec<Shared>,
    names: HashMap<String, u64>,
}

/// Reads a log whose first line is already read.
pub(super) fn read(first: String, lines: &mut Lines) -> Result<Program, TraceError> {
    let mut reader = Reader::default();
    let mut next = Some(first);
    while let Some(line) = next {
        let instruction = lines.parse(&line)?;
        if matches!(&instruction, Instruction::Annotate { annotation } if annotation == "START") {
            // Instructions before the start do not count.
            reader = Reader::default();
        }
        reader.take(instruction, lines)?;
        next = lines.next()?;
    }
    Ok(Program { events: reader.events, loops: true })
}

impl Reader {
    fn take(&mut self, instruction: Instruction, lines: &mut Lines) -> Result<(), TraceError> {
        match instruction {
            Instruction::Constant { name } => {
                let bytes = memory(&name, lines)?;
                let storage = self.make(bytes, true);
                self.name(name, storage, lines)?;
                self.events.push(Event::Constant(Made { storage, bytes }));
            }
            Instruction::Call { name, args, result, time } => self.call(name, &args, result, &time, lines)?,
            Instruction::Mutate { name, args, mutate, time } => {
                self.mutate(name, &args, &mutate, &time, lines)?
            }
            Instruction::Copy { dst, src } => {
                let storage = self.storage(&src, lines)?;
                self.storages[storage as usize].references += 1;
                self.name(dst, storage, lines)?;
            }
            Instruction::CopyFrom { dst, src } => {
                let (from, to) = (self.storage(&src, lines)?, self.storage(&dst, lines)?);
                self.storages[from as usize].references += 1;
                self.names.insert(dst, from);
                self.release(to, lines)?;
            }
            Instruction::Release { name } => {
                if let Some(&storage) = self.names.get(&name) {
                    self.release(storage, lines)?;
                }
            }
            Instruction::Annotate { annotation } => self.events.push(Event::Note(annotation.to_lowercase())),
            Instruction::Memory { name, .. } | Instruction::Alias { name, .. } => {
                return Err(lines.error(format!("{name}: there is no CONSTANT or CALL that this belongs to")));
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        name: String,
        args: &[String],
        result: Vec<String>,
        time: &Number,
        lines: &mut Lines,
    ) -> Result<(), TraceError> {
        let time_ns = time.size(lines)?;
        let inputs = self.inputs(args, lines)?;
        let mut outputs = Vec::new();
        for result in result {
            let bytes = memory(&result, lines)?;
            let storage = match alias(&result, inputs.len(), lines)? {
                Some(place) => {
                    self.storages[inputs[place] as usize].references += 1;
                    inputs[place]
                }
                None => {
                    let storage = self.make(bytes, false);
                    outputs.push(Made { storage, bytes });
                    storage
                }
            };
            self.name(result, storage, lines)?;
        }
        let inputs = if outputs.is_empty() { Vec::new() } else { inputs };
        self.events.push(op(name, inputs, outputs, time_ns));
        Ok(())
    }

    fn mutate(
        &mut self,
        name: String,
        args: &[String],
        mutate: &[usize],
        time: &Number,
        lines: &mut Lines,
    ) -> Result<(), TraceError> {
        let time_ns = time.size(lines)?;
        let inputs = self.inputs(args, lines)?;
        let (mut outputs, mut replaced) = (Vec::new(), Vec::new());
        for &place in mutate {
            let Some(&old) = inputs.get(place) else {
                return Err(lines.error(format!("{name} changes argument {place}, and has {}", inputs.len())));
            };
            let bytes = self.storages[old as usize].bytes;
            let storage = self.make(bytes, false);
            outputs.push(Made { storage, bytes });
            self.names.insert(args[place].clone(), storage);
            replaced.push(old);
        }
        self.events.push(op(name, inputs, outputs, time_ns));
        replaced.into_iter().try_for_each(|old| self.release(old, lines))
    }

    fn make(&mut self, bytes: usize, constant: bool) -> u64 {
        self.storages.push(Shared { bytes, references: 1, constant });
        self.storages.len() as u64 - 1
    }

    fn name(&mut self, name: String, storage: u64, lines: &Lines) -> Result<(), TraceError> {
        let error = lines.error(format!("{name} is defined a second time"));
        if self.names.insert(name, storage).is_some() { Err(error) } else { Ok(()) }
    }

    /// The storage behind a name, if it is still there.
    fn storage(&self, name: &str, lines: &Lines) -> Result<u64, TraceError> {
        let storage = *self.names.get(name).ok_or_else(|| lines.error(format!("{name} is not defined")))?;
        let Shared { references, constant, .. } = self.storages[storage as usize];
        if references == 0 && !constant {
            return Err(lines.error(format!("{name} was released before")));
        }
        Ok(storage)
    }

    fn inputs(&self, args: &[String], lines: &Lines) -> Result<Vec<u64>, TraceError> {
        args.iter().map(|name| self.storage(name, lines)).collect()
    }

    fn release(&mut self, storage: u64, lines: &Lines) -> Result<(), TraceError> {
        let shared = &mut self.storages[storage as usize];
        let left = shared.references.checked_sub(1);
        shared.references = left.ok_or_else(|| lines.error("it is released more often than it is held"))?;
        if shared.references == 0 && !shared.constant {
            self.events.push(Event::Free(storage));
        }
        Ok(())
    }
}

fn op(name: String, inputs: Vec<u64>, outputs: Vec<Made>, time_ns: usize) -> Event {
    let (read_bytes, written_bytes) = (0, outputs.iter().map(|made| made.bytes as u64).sum());
    let measured_ns = Some(time_ns as u64);
    Event::Op(OpEvent {
        name: name.into(),
        inputs,
        consumed: Vec::new(),
        in_place: Vec::new(),
        parameters: Vec::new(),
        outputs,
        scratch_bytes: 0,
        work: Work { flops: 0, read_bytes, written_bytes, dtype: Dtype::F32, measured_ns },
        exact: true,
        module: None,
        ran: Ran::default(),
    })
}

/// Reads the next line, which must state the size of `name`.
fn memory(name: &str, lines: &mut Lines) -> Result<usize, TraceError> {
    match following(name, lines)? {
        Instruction::Memory { name: named, memory } if named == name => memory.size(lines),
        _ => Err(lines.error(format!("expected the MEMORY of {name}"))),
    }
}

/// Reads the next line, which must state the argument that `name` is an alias of, if any.
fn alias(name: &str, arguments: usize, lines: &mut Lines) -> Result<Option<usize>, TraceError> {
    let alias = match following(name, lines)? {
        Instruction::Alias { name: named, alias } if named == name => alias.value(lines)?,
        _ => return Err(lines.error(format!("expected the ALIAS of {name}"))),
    };
    match usize::try_from(alias) {
        Ok(place) if place < arguments => Ok(Some(place)),
        Err(_) if alias == -1 => Ok(None),
        _ => Err(lines.error(format!("{name} is an alias of argument {alias}, and there are {arguments}"))),
    }
}

fn following(name: &str, lines: &mut Lines) -> Result<Instruction, TraceError> {
    match lines.next()? {
        Some(line) => lines.parse(&line),
        None => {
            Err(lines.error(format!("the log was cut off after this line: there is nothing about {name}")))
        }
    }
}

impl Number {
    fn value(&self, lines: &Lines) -> Result<i64, TraceError> {
        match self {
            Number::Value(value) => Ok(*value),
            Number::Text(text) => {
                text.parse().map_err(|_| lines.error(format!("\"{text}\" is no whole number")))
            }
        }
    }

    fn size(&self, lines: &Lines) -> Result<usize, TraceError> {
        let value = self.value(lines)?;
        usize::try_from(value).map_err(|_| lines.error(format!("{value} is negative")))
    }
}
