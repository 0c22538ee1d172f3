//! The life of each storage of a program, in ops.

use std::collections::HashMap;

use super::holding::Holding;
use crate::report::modules::Modules;
use crate::trace::{Event, Iterations, Made, OpEvent, Program};

/// A storage that nothing has read for so many iterations is leaked.
const LEAKED_ITERATIONS: usize = 10;

/// A storage that is freed within so many ops after its last use is not idle: handles go out of scope some moments later.
const IDLE_OPS: usize = 16;

/// An op that computes at most so much for each byte that it makes is cheap to repeat.
const CHEAP_FLOPS_PER_BYTE: u64 = 8;

/// The life of a storage.
pub(super) struct Life {
    pub storage: u64,
    pub bytes: usize,
    pub made_by: String,
    pub module: Option<String>,
    /// Whether it is a parameter of the model.
    pub is_parameter: bool,
    /// Whether it takes few operations to make it again.
    pub is_cheap: bool,
    /// The first op after it was made, or that makes it. `None` if it was there before.
    made_at: Option<usize>,
    /// The ops that read it, in order.
    pub reads: Vec<usize>,
    /// The first op after it was freed.
    freed_at: Option<usize>,
}

impl Life {
    /// Whether an op made it.
    pub fn is_made(&self) -> bool {
        self.made_at.is_some() && self.made_by != "upload"
    }

    pub fn is_held_at(&self, op: usize) -> bool {
        self.made_at.is_none_or(|made| made <= op) && self.freed_at.is_none_or(|freed| freed > op)
    }

    /// Why it is held at an op. The program has `ops` ops in all.
    pub fn held_at(&self, op: usize, iterations: Option<Iterations>, ops: usize) -> Holding {
        let is_read_again = self.reads.iter().any(|&read| read > op);
        let is_freed_soon = self.freed_at.is_some_and(|freed| freed <= op + IDLE_OPS);
        if self.made_at == Some(op) || self.reads.contains(&op) || (!is_read_again && is_freed_soon) {
            return Holding::InUse;
        }
        if self.is_leaked(op, iterations) {
            return Holding::Leaked;
        }
        if !is_read_again {
            return Holding::Idle;
        }
        if self.is_state(iterations, ops) { Holding::State } else { Holding::NeededAgain }
    }

    /// Whether it lives for an iteration or longer. The program has `ops` ops in all.
    pub fn is_state(&self, iterations: Option<Iterations>, ops: usize) -> bool {
        let lived_ops = self.made_at.map(|made| self.freed_at.unwrap_or(ops) - made);
        // A weight that an optimizer replaces lives an iteration, but for the ops of the optimizer.
        match (lived_ops, iterations) {
            (Some(lived_ops), Some(of)) => 10 * lived_ops >= 9 * of.ops,
            (lived_ops, _) => lived_ops.is_none(),
        }
    }

    /// Whether iterations made it, and nothing has read it for ten of them or will.
    fn is_leaked(&self, op: usize, iterations: Option<Iterations>) -> bool {
        let (Some(of), Some(made)) = (iterations, self.made_at) else { return false };
        let last_use = self.reads.last().copied().unwrap_or(made);
        made >= of.since && self.freed_at.is_none() && op >= last_use + LEAKED_ITERATIONS * of.ops
    }
}

/// The lives of a program's storages, and what is held while each op runs.
#[derive(Default)]
pub(super) struct Lives<'a> {
    pub of: Vec<Life>,
    pub ops: Vec<&'a OpEvent>,
    /// For each op, its module.
    pub modules: Vec<Option<&'a str>>,
    /// For each op, the bytes that are held while it runs. An output that takes the memory of an input counts once.
    pub live_bytes: Vec<usize>,
    /// The places in `of` of what is held.
    held: HashMap<u64, usize>,
    now_bytes: usize,
}

impl<'a> Lives<'a> {
    pub fn of(program: &'a Program) -> Self {
        let mut lives = Lives::default();
        let modules = Modules::of(&program.events);
        for (index, event) in program.events.iter().enumerate() {
            match event {
                Event::Op(op) => lives.op(op, modules.of_op(index)),
                Event::Constant(made) => lives.make(made, "constant", None),
                Event::Write(made) => lives.make(made, "upload", Some(lives.ops.len())),
                Event::Free(storage) => lives.free(*storage),
                _ => {}
            }
        }
        lives
    }

    fn op(&mut self, op: &'a OpEvent, module: Option<&'a str>) {
        let now = self.ops.len();
        self.ops.push(op);
        self.modules.push(module);
        // What was there before the recording began is not known.
        for storage in &op.inputs {
            if let Some(&at) = self.held.get(storage) {
                self.of[at].reads.push(now);
            }
        }
        for &place in &op.parameters {
            if let Some(&at) = self.held.get(&op.inputs[place]) {
                self.of[at].is_parameter = true;
            }
        }
        let size = |storage: u64| self.held.get(&storage).map(|&at| self.of[at].bytes);
        let overwritten = op.overwritten(|storage, bytes| size(storage) == Some(bytes));
        let saved_bytes: usize = overwritten.iter().filter_map(|&place| size(op.inputs[place])).sum();
        let made_bytes: usize = op.outputs.iter().map(|made| made.bytes).sum();
        let is_cheap = op.work.flops <= CHEAP_FLOPS_PER_BYTE * made_bytes as u64;
        for made in &op.outputs {
            self.make(made, &op.name, Some(now));
            let life = self.of.last_mut().expect("it was just made");
            (life.module, life.is_cheap) = (module.map(String::from), is_cheap);
        }
        self.live_bytes.push(self.now_bytes - saved_bytes);
        op.consumed.iter().for_each(|&place| self.free(op.inputs[place]));
    }

    fn make(&mut self, made: &Made, made_by: &str, made_at: Option<usize>) {
        self.now_bytes += made.bytes;
        self.held.insert(made.storage, self.of.len());
        self.of.push(Life {
            storage: made.storage,
            bytes: made.bytes,
            made_by: made_by.into(),
            module: None,
            is_parameter: false,
            is_cheap: false,
            made_at,
            reads: Vec::new(),
            freed_at: None,
        });
    }

    fn free(&mut self, storage: u64) {
        let Some(at) = self.held.remove(&storage) else { return };
        self.now_bytes -= self.of[at].bytes;
        self.of[at].freed_at = Some(self.ops.len());
    }
}
