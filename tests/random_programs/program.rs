//! A program is data: which op runs on which slots. It knows no budget and no policy.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use burn_overcommit::op::{Dtype, Layout, Op, Shape};
use burn_overcommit::runtime::{self, Scope, Tensor};
use burn_overcommit::{Error, OvercommitDevice};
use half::{bf16, f16};
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
    /// Floats that are integers in -4..=4.
    Small(u64),
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
    /// A tensor for which there is no memory: it is refused, and changes nothing.
    TooLarge(Op),
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
    /// All that was read, of which slot.
    pub reads: Vec<(Slot, Vec<u8>)>,
    scopes: Vec<Scope>,
    /// Steps done.
    pub position: usize,
}

impl Machine {
    pub fn new(device: OvercommitDevice) -> Self {
        Machine {
            device,
            slots: BTreeMap::new(),
            digest: DefaultHasher::new(),
            reads: Vec::new(),
            scopes: Vec::new(),
            position: 0,
        }
    }

    /// Runs the program and reads all it leaves. The digest is of every byte read.
    pub fn run(&mut self, program: &Program) -> Result<u64, Error> {
        runtime::seed(&self.device, program.seed)?;
        for step in program.steps() {
            self.step(step)?;
        }
        self.read_all()?;
        Ok(self.digest.finish())
    }

    /// Reads all that is left.
    pub fn read_all(&mut self) -> Result<(), Error> {
        let left: Vec<Slot> = self.slots.keys().copied().collect();
        left.into_iter().try_for_each(|slot| self.read(slot))
    }

    /// Runs one step, and checks the device. After an error the slots it takes from are empty, and nothing else has changed.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        let done = self.unchecked(step);
        // A device that panicked says so at the next step.
        let _ = runtime::assert_invariants(&self.device);
        done
    }

    fn unchecked(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Write { to, dtype, shape, values } => {
                let tensor =
                    runtime::write(&self.device, &values.bytes(*dtype, shape.count()), *dtype, *shape)?;
                self.slots.insert(*to, tensor);
            }
            Step::Create { to, op } => {
                let mut op = *op;
                if let Op::Random { seed, .. } = &mut op {
                    *seed = match *seed {
                        0 => runtime::next_seed(&self.device)?,
                        key => key ^ self.position as u64,
                    };
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
            Step::TooLarge(op) => {
                match runtime::create(&self.device, *op).and_then(whole).and_then(runtime::read) {
                    Ok(_) => panic!("{op:?} fits nowhere"),
                    Err(error) if error.is_out_of_memory() || matches!(error, Error::TooLarge { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Step::Enter => self.scopes.push(Scope::enter()),
            Step::Leave => {
                drop(self.scopes.pop());
                self.slots.last_key_value().map_or(Ok(()), |(_, tensor)| runtime::keep_result(tensor))?;
            }
        }
        self.position += 1;
        Ok(())
    }

    /// The bytes of each tensor now held, or why they cannot be read.
    pub fn contents(&self) -> BTreeMap<Slot, Result<Vec<u8>, Error>> {
        self.slots.iter().map(|(&slot, tensor)| (slot, runtime::read(tensor.clone()))).collect()
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
        self.reads.push((slot, bytes));
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
    pub fn bytes(self, dtype: Dtype, count: usize) -> Vec<u8> {
        let (seed, limit) = match self {
            Values::Noise(seed) => (seed, 1),
            Values::Below(seed, limit) => (seed, limit),
            Values::Small(seed) => (seed, 9),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let integers = (0..count).map(|_| random.random_range(0..limit));
        match dtype {
            Dtype::F64 => integers.flat_map(|value| (value as f64 - 4.0).to_ne_bytes()).collect(),
            Dtype::F16 => {
                integers.flat_map(|value| f16::from_f64(value as f64 - 4.0).to_ne_bytes()).collect()
            }
            Dtype::BF16 => {
                integers.flat_map(|value| bf16::from_f64(value as f64 - 4.0).to_ne_bytes()).collect()
            }
            Dtype::F32 if matches!(self, Values::Small(_)) => {
                integers.flat_map(|value| (value as f32 - 4.0).to_ne_bytes()).collect()
            }
            Dtype::F32 => (0..count).flat_map(|_| random.random_range(-1f32..1.0).to_ne_bytes()).collect(),
            // The lower bytes come first.
            _ => {
                integers.flat_map(|value| value.to_le_bytes().into_iter().take(dtype.size_bytes())).collect()
            }
        }
    }
}
