//! A program is data: which op runs on which slots. It knows no budget and no policy.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use burn_overcommit::op::{Dtype, Layout, Op, Shape};
use burn_overcommit::runtime::{self, Scope, Tensor};
use burn_overcommit::{Error, OvercommitDevice};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Names a tensor of a program.
pub type Slot = usize;

/// A tensor read through a layout. The last use gives the handle away, so that the op may overwrite the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    pub slot: Slot,
    pub layout: Layout,
    pub last: bool,
}

/// What the host writes.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// Floats in -1..1.
    Noise(u64),
    /// Integers in 0..limit, or bools.
    Below(u64, i64),
}

/// One step. Results replace what their slots held before.
#[derive(Debug, Clone)]
pub enum Step {
    Write {
        to: Slot,
        dtype: Dtype,
        shape: Shape,
        values: Values,
    },
    /// An op without inputs; the key of a random one is drawn when it runs.
    Create {
        to: Slot,
        op: Op,
    },
    Run {
        op: Op,
        inputs: Vec<Use>,
        to: Vec<Slot>,
    },
    /// Another handle of the same storage, or the same handle under another layout.
    Alias {
        from: Use,
        to: Slot,
    },
    Drop(Slot),
    Read(Slot),
    /// Into a scope that is recomputed first.
    Enter,
    /// Out of the innermost scope, with the newest tensor as its result.
    Leave,
}

/// Steps before, in and after a loop. What the loop makes it drops, apart from the weights and a few left-overs.
#[derive(Debug, Clone)]
pub struct Program {
    pub seed: u64,
    pub prologue: Vec<Step>,
    pub body: Vec<Step>,
    pub iterations: usize,
    pub epilogue: Vec<Step>,
}

impl Program {
    /// The steps in the order they run.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let body = std::iter::repeat_n(&self.body, self.iterations).flatten();
        self.prologue.iter().chain(body).chain(&self.epilogue)
    }
}

/// A program at work.
#[derive(Debug)]
pub struct Machine {
    device: OvercommitDevice,
    slots: BTreeMap<Slot, Tensor>,
    digest: DefaultHasher,
    scopes: Vec<Scope>,
    /// Steps done.
    pub position: usize,
}

impl Machine {
    pub fn new(device: OvercommitDevice) -> Self {
        let (slots, scopes) = (BTreeMap::new(), Vec::new());
        Machine { device, slots, digest: DefaultHasher::new(), scopes, position: 0 }
    }

    /// Runs the program and reads all it leaves. The digest is of every byte read.
    pub fn run(&mut self, program: &Program) -> Result<u64, Error> {
        runtime::seed(&self.device, program.seed)?;
        for step in program.steps() {
            self.step(step)?;
        }
        let left: Vec<Slot> = self.slots.keys().copied().collect();
        left.into_iter().try_for_each(|slot| self.read(slot))?;
        Ok(self.digest.finish())
    }

    /// Runs one step. After an error the slots it takes from are empty, and nothing else has changed.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Write { to, dtype, shape, values } => {
                let tensor =
                    runtime::write(&self.device, &values.bytes(*dtype, shape.count()), *dtype, *shape)?;
                self.slots.insert(*to, tensor);
            }
            Step::Create { to, op } => {
                let mut op = *op;
                if let Op::Random { seed, .. } = &mut op {
                    *seed = runtime::next_seed(&self.device)?;
                }
                self.slots.insert(*to, whole(runtime::create(&self.device, op)?)?);
            }
            Step::Run { op, inputs, to } => {
                let inputs: Vec<Tensor> = inputs.iter().map(|input| self.take(input)).collect();
                for (&slot, output) in to.iter().zip(run(*op, inputs, to.len())?) {
                    self.slots.insert(slot, whole(output)?);
                }
            }
            Step::Alias { from, to } => {
                let tensor = self.take(from);
                self.slots.insert(*to, tensor);
            }
            Step::Drop(slot) => drop(self.slots.remove(slot)),
            Step::Read(slot) => self.read(*slot)?,
            Step::Enter => self.scopes.push(Scope::enter()),
            Step::Leave => {
                drop(self.scopes.pop());
                self.slots.last_key_value().map_or(Ok(()), |(_, tensor)| runtime::keep_result(tensor))?;
            }
        }
        self.position += 1;
        Ok(())
    }

    /// A digest of each tensor now held, or why it cannot be read.
    pub fn contents(&self) -> BTreeMap<Slot, Result<u64, Error>> {
        let digest = |tensor: &Tensor| {
            let mut digest = DefaultHasher::new();
            runtime::read(tensor.clone()).map(|bytes| {
                digest.write(&bytes);
                digest.finish()
            })
        };
        self.slots.iter().map(|(&slot, tensor)| (slot, digest(tensor))).collect()
    }

    fn take(&mut self, from: &Use) -> Tensor {
        let tensor =
            if from.last { self.slots.remove(&from.slot) } else { self.slots.get(&from.slot).cloned() };
        tensor.expect("a program uses what it has made").with_layout(from.layout)
    }

    fn read(&mut self, slot: Slot) -> Result<(), Error> {
        let bytes = runtime::read(self.slots[&slot].clone())?;
        self.digest.write_usize(slot);
        self.digest.write(&bytes);
        Ok(())
    }
}

/// The tensor with all its elements in a row, as a program's layouts take them to be: what is made of a constant may be one
/// element that is broadcast.
fn whole(tensor: Tensor) -> Result<Tensor, Error> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor);
    }
    let dtype = tensor.dtype();
    runtime::run(Op::Copy { dtype }, [tensor])
}

/// The runtime takes inputs as arrays.
fn run(op: Op, inputs: Vec<Tensor>, outputs: usize) -> Result<Vec<Tensor>, Error> {
    fn run<const N: usize>(op: Op, inputs: Vec<Tensor>, outputs: usize) -> Result<Vec<Tensor>, Error> {
        let inputs: [Tensor; N] = inputs.try_into().expect("as many inputs");
        Ok(if outputs == 2 { runtime::run_pair(op, inputs)?.into() } else { vec![runtime::run(op, inputs)?] })
    }
    match inputs.len() {
        1 => run::<1>(op, inputs, outputs),
        2 => run::<2>(op, inputs, outputs),
        _ => run::<3>(op, inputs, outputs),
    }
}

impl Values {
    fn bytes(self, dtype: Dtype, count: usize) -> Vec<u8> {
        let (seed, limit) = match self {
            Values::Noise(seed) => (seed, 1),
            Values::Below(seed, limit) => (seed, limit),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let integers = (0..count).map(|_| random.random_range(0..limit));
        match dtype {
            Dtype::F32 => (0..count).flat_map(|_| random.random_range(-1f32..1.0).to_ne_bytes()).collect(),
            Dtype::I32 => integers.flat_map(|value| (value as i32).to_ne_bytes()).collect(),
            Dtype::I64 => integers.flat_map(|value| value.to_ne_bytes()).collect(),
            _ => integers.map(|value| value as u8).collect(),
        }
    }
}
