//! Programs of the module `runtime`: any op on any tensors in any layouts is refused, or right. The program runs on two devices of
//! unlike memory. One gives each operand of a launch a place of its own on the heap, of which AddressSanitizer knows the end. What can
//! be read has the same bits on both.

#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::{Result, Unstructured};
use burn_overcommit::engine::Engine;
use burn_overcommit::engine::apart::Apart;
use burn_overcommit::op::{Dtype, Inputs, Layout, MAX_RANK, Op, Shape, View};
use burn_overcommit::runtime::{self, Tensor, assert_invariants, configure_with_engine};
use burn_overcommit::{Config, Error, LaneMode, OvercommitDevice, Planning};
use burn_overcommit_fuzz::{let_refusals_pass, ops, unless_refused, values};
use libfuzzer_sys::fuzz_target;

const ROOMY: OvercommitDevice = OvercommitDevice::Host(0);
const TIGHT: OvercommitDevice = OvercommitDevice::Host(1);

/// An op that reads or makes more elements than this takes too long, if there is memory for its outputs.
const MOST_ELEMENTS: usize = 1 << 18;
const MOST_STEPS: usize = 24;

/// Whether the ops are shown, for who looks for the one that is wrong.
static SHOWS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SHOW").is_some());

fn configure(device: OvercommitDevice, config: Config, wrap: fn(Arc<dyn Engine>) -> Arc<dyn Engine>) {
    let config = config.lanes(LaneMode::Deferred { seed: 1 }).planning(Planning::Off);
    configure_with_engine(&device, config, wrap).expect("a device");
}

fuzz_target!(
    init: {
        let_refusals_pass(|_| false);
        let roomy = Config::new().budget_bytes(64 << 20).host_limit_bytes(64 << 20).fusion(false);
        configure(ROOMY, roomy, |engine| Arc::new(Apart::new(engine)));
        configure(TIGHT, Config::new().budget_bytes(48 << 10).host_limit_bytes(256 << 10), |engine| engine);
    },
    |data: &[u8]| {
        let [roomy, tight] = [ROOMY, TIGHT].map(|device| {
            let read = run(data, device);
            assert!(!matches!(runtime::sync(&device), Err(Error::Panicked { .. })), "a panic under the lock");
            assert_invariants(&device).expect("a device");
            read
        });
        for (place, (roomy, tight)) in roomy.iter().zip(&tight).enumerate() {
            if let (Some((view, roomy)), Some((_, tight))) = (roomy, tight) {
                assert!(are_equal(view.dtype, roomy, tight), "tensor {place}: {roomy:?} and {tight:?}");
            }
        }
    }
);

/// Whether elements have the same bits, whatever bits a NaN has.
fn are_equal(dtype: Dtype, left: &[u8], right: &[u8]) -> bool {
    let width = dtype.size_bytes();
    // All bits of the exponent are set, and some of the mantissa.
    let infinity = match dtype {
        Dtype::F64 => 0x7ff0 << 48,
        Dtype::F32 => 0x7f80 << 16,
        Dtype::F16 => 0x7c00,
        Dtype::BF16 => 0x7f80,
        _ => u64::MAX >> 1,
    };
    let is_nan = |element: &[u8]| {
        let mut bits = [0; 8];
        bits[..width].copy_from_slice(element);
        u64::from_ne_bytes(bits) & (u64::MAX >> (65 - 8 * width)) > infinity
    };
    let same = |(left, right): (&[u8], &[u8])| left == right || is_nan(left) && is_nan(right);
    left.len() == right.len() && left.chunks(width).zip(right.chunks(width)).all(same)
}

/// The tensors that a program makes, in their order, each if it can be read. Refusals change no decision of the program.
fn run(data: &[u8], device: OvercommitDevice) -> Vec<Option<(View, Vec<u8>)>> {
    let (mut u, mut program) =
        (Unstructured::new(data), Program { device, tensors: Vec::new(), read: Vec::new() });
    for _ in 0..MOST_STEPS {
        if u.is_empty() || program.step(&mut u).is_err() {
            break;
        }
    }
    let last = std::mem::take(&mut program.tensors);
    last.into_iter().for_each(|tensor| program.read(tensor));
    program.read
}

struct Program {
    device: OvercommitDevice,
    /// The newest tensors, each if there is one.
    tensors: Vec<Option<Tensor>>,
    read: Vec<Option<(View, Vec<u8>)>>,
}

impl Program {
    fn step(&mut self, u: &mut Unstructured) -> Result<()> {
        match u.int_in_range(0..=9)? {
            0 => {
                let (shape, dtype) = (values::sizes(u)?, values::dtype(u)?);
                let tensor = self.write(u, dtype, &shape)?;
                self.tensors.push(tensor);
            }
            1 => {
                let shape = shape(u)?;
                let made = match shape {
                    Some(shape) => {
                        let op = ops::creation(u, shape)?;
                        unless_refused(|| runtime::create(&self.device, op).ok()).flatten()
                    }
                    None => None,
                };
                self.tensors.push(made);
            }
            2 => {
                let tensor = self.take(u)?;
                let tensor = self.viewed(u, tensor)?;
                self.tensors.push(tensor);
            }
            3 => {
                let tensor = self.take(u)?;
                self.read(tensor);
            }
            _ => self.op(u)?,
        }
        self.tensors.drain(..self.tensors.len().saturating_sub(6));
        Ok(())
    }

    fn read(&mut self, tensor: Option<Tensor>) {
        let read = tensor.filter(|tensor| tensor.shape().count() <= MOST_ELEMENTS).and_then(|tensor| {
            let view = *tensor.view();
            Some((view, unless_refused(|| runtime::read(tensor).ok()).flatten()?))
        });
        self.read.push(read);
    }

    /// One of the tensors, perhaps by its last handle.
    fn take(&mut self, u: &mut Unstructured) -> Result<Option<Tensor>> {
        let last = u.arbitrary()?;
        let place = u.choose_index(self.tensors.len().max(1))?;
        Ok(self.tensors.get_mut(place).and_then(|tensor| if last { tensor.take() } else { tensor.clone() }))
    }

    /// A tensor from data.
    fn write(&mut self, u: &mut Unstructured, dtype: Dtype, sizes: &[usize]) -> Result<Option<Tensor>> {
        let count = sizes.iter().try_fold(1, |count: usize, &size| count.checked_mul(size));
        let count = count.filter(|&count| count <= MOST_ELEMENTS).unwrap_or(1);
        let bytes = values::bytes(u, dtype, count)?;
        let written = || runtime::write(&self.device, &bytes, dtype, Shape::new(sizes)).ok();
        Ok(unless_refused(written).flatten())
    }

    /// A tensor of about these sizes in some layout, or some other tensor.
    fn input(&mut self, u: &mut Unstructured, (dtype, sizes): &ops::Wanted) -> Result<Option<Tensor>> {
        match u.int_in_range(0..=15)? {
            0 => self.take(u),
            1 => {
                let sizes = values::sizes(u)?;
                self.write(u, *dtype, &sizes)
            }
            2 | 3 => self.broadcast(u, *dtype, sizes),
            4 | 5 => {
                // As its transpose.
                let mut turned = sizes.clone();
                turned.reverse();
                let tensor = self.write(u, *dtype, &turned)?;
                let axes: Vec<usize> = (0..turned.len()).rev().collect();
                Ok(tensor.and_then(|tensor| {
                    unless_refused(|| {
                        let layout = tensor.layout().permute(&axes);
                        tensor.with_layout(layout)
                    })
                }))
            }
            6 => {
                let tensor = self.write(u, *dtype, sizes)?;
                self.viewed(u, tensor)
            }
            _ => self.write(u, *dtype, sizes),
        }
    }

    /// A tensor of these sizes, some of which are repeated.
    fn broadcast(&mut self, u: &mut Unstructured, dtype: Dtype, sizes: &[usize]) -> Result<Option<Tensor>> {
        let mut stored = sizes.to_vec();
        for size in &mut stored {
            if u.arbitrary()? {
                *size = 1;
            }
        }
        let tensor = self.write(u, dtype, &stored)?;
        Ok(tensor.filter(|tensor| tensor.shape().dims() == stored).and_then(|tensor| {
            let shape = Shape::try_new(sizes)?;
            unless_refused(|| {
                let layout = tensor.layout().expand(shape);
                tensor.with_layout(layout)
            })
        }))
    }

    /// The same storage in another layout.
    fn viewed(&mut self, u: &mut Unstructured, tensor: Option<Tensor>) -> Result<Option<Tensor>> {
        // The same numbers are drawn where there is no tensor.
        let none = Layout::contiguous(Shape::new(&[1; 2]));
        let mut layout = Some(tensor.as_ref().map_or(none, |tensor| *tensor.layout()));
        for _ in 0..u.int_in_range(1..=3)? {
            layout = change(u, layout)?;
        }
        let dtype = if u.ratio(1, 16)? { Some(values::dtype(u)?) } else { None };
        Ok(tensor.zip(layout).and_then(|(tensor, layout)| {
            unless_refused(|| {
                let tensor = tensor.with_layout(layout);
                dtype.map_or(tensor.clone(), |dtype| tensor.with_dtype(dtype))
            })
        }))
    }

    fn op(&mut self, u: &mut Unstructured) -> Result<()> {
        let (op, wanted) = ops::op(u)?;
        if has_free_values(&op) {
            // Of inputs of its own, and nothing reads them or the outputs afterwards.
            let inputs: Vec<Option<Tensor>> =
                wanted.iter().map(|(dtype, sizes)| self.write(u, *dtype, sizes)).collect::<Result<_>>()?;
            let _ = inputs.into_iter().collect::<Option<Vec<Tensor>>>().map(|inputs| submit(op, inputs));
            return Ok(());
        }
        let mut inputs: Vec<Option<Tensor>> =
            wanted.iter().map(|wanted| self.input(u, wanted)).collect::<Result<_>>()?;
        if u.ratio(1, 32)? {
            inputs.pop();
        }
        if inputs.len() > 1 && u.ratio(1, 16)? {
            inputs[1] = inputs[0].clone();
        }
        let inputs: Option<Vec<Tensor>> = inputs.into_iter().collect();
        let made = inputs.filter(|inputs| !inputs.is_empty()).map(|inputs| submit(op, inputs));
        self.tensors.extend(made.unwrap_or_else(|| vec![None]));
        Ok(())
    }
}

/// Whether values of an op follow from memory: of those that keep in host memory what finds no room, which is an input, and of
/// indices where more are asked for than there are.
fn has_free_values(op: &Op) -> bool {
    matches!(op, Op::Tally(_) | Op::ArgWhere { .. })
        || matches!(op, Op::Encode(encoding) if encoding.is_counted())
}

/// The outputs of an op; those of one that memory is too small for are as many, so that the program goes on alike.
fn submit(op: Op, inputs: Vec<Tensor>) -> Vec<Option<Tensor>> {
    let views: Inputs<View> = inputs.iter().map(|tensor| *tensor.view()).collect();
    if *SHOWS {
        eprintln!("{op:?} of {views:?} on {}", inputs[0].device());
    }
    let made = op.check(&views.iter().collect::<Vec<_>>()).is_ok().then(|| op.outputs(&views));
    let Some(made) = made else {
        let refused = unless_refused(|| runtime::run(op, inputs)).is_none_or(|made| made.is_err());
        assert!(refused, "{op:?} does not fit {views:?}");
        return vec![None];
    };
    let all = || views.iter().chain(&made).map(|view| view.shape().count());
    if all().any(|count| count > MOST_ELEMENTS) && made.iter().all(|view| view.size_bytes() < 64 << 20) {
        return vec![None; made.len()];
    }
    let run = || match made.len() {
        1 => runtime::run(op, inputs).map(|made| vec![made]),
        2 => runtime::run_pair(op, inputs).map(Vec::from),
        3 => runtime::run_three(op, inputs).map(Vec::from),
        _ => Ok(Vec::new()),
    };
    let ran = unless_refused(|| run().ok()).flatten();
    ran.map_or(vec![None; made.len()], |made| made.into_iter().map(Some).collect())
}

/// A shape, unless it is refused.
fn shape(u: &mut Unstructured) -> Result<Option<Shape>> {
    let sizes = values::sizes(u)?;
    let layout = Shape::try_new(&sizes).map(Layout::contiguous);
    // Layouts have shapes too.
    let layout = if u.ratio(1, 8)? { change(u, layout)? } else { layout };
    Ok(layout.map(|layout| *layout.shape()))
}

/// Another layout, unless it is refused. Arguments are as they are documented.
fn change(u: &mut Unstructured, layout: Option<Layout>) -> Result<Option<Layout>> {
    let (kind, axis) = (u.int_in_range(0..=5)?, u.int_in_range(0..=MAX_RANK - 1)?);
    let [first, second] = [values::size(u)?, values::size(u)?];
    let step = if u.ratio(1, 16)? { u.arbitrary()? } else { u.int_in_range(-2..=3)? };
    let Some(layout) = layout else { return Ok(None) };
    let (shape, rank) = (layout.shape(), layout.shape().rank());
    let axis = axis % rank.max(1);
    Ok(unless_refused(|| {
        Some(match kind {
            _ if rank == 0 => layout,
            0 => layout.slice(axis, first, second, step),
            1 => layout.flip(axis),
            2 if rank < MAX_RANK => layout.windows(axis, first, second.max(1)),
            3 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.rotate_left(axis);
                layout.permute(&axes)
            }
            4 => {
                let sizes = [&[first], shape.dims()].concat();
                let shape = if rank < MAX_RANK { Shape::try_new(&sizes)? } else { *shape };
                layout.expand(shape)
            }
            _ => layout.reshape(Shape::try_new(&[shape.count()])?)?,
        })
    })
    .flatten())
}
