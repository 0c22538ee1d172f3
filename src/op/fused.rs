//! Several elementwise ops of floats as one: what lies between them is never in memory. Each step rounds to the element type
//! as the op that it stands for, so that the bits are the same.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

use arrayvec::ArrayVec;
use hashbrown::HashMap;

use super::kinds::words_below;
use super::{Binary, Distribution, Layout, MAX_RANK, Op, Reduce, Scalar, Shape, Unary, View};

/// The most tensors that a program reads.
pub const MAX_FUSED_INPUTS: usize = 8;
/// The most tensors that a program makes, what it ends in included.
pub const MAX_FUSED_OUTPUTS: usize = 6;
/// The most steps of a program.
pub const MAX_STEPS: usize = 24;
/// The most scalars of a program.
pub const MAX_SCALARS: usize = 12;

/// What can be a step, of one value; in the order of `kernels/fused.cu`. Others take many registers, which all steps of a
/// kernel would then pay for.
pub const UNARY_STEPS: [Unary; 21] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Square,
    Unary::Cube,
    Unary::Relu,
    Unary::Recip,
    Unary::Exp,
    Unary::Log,
    Unary::Log1p,
    Unary::Sqrt,
    Unary::Tanh,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Trunc,
    Unary::Sigmoid,
    Unary::LogSigmoid,
    Unary::Gelu,
    Unary::InverseSqrt,
];

/// What can be a step, of two values; in the order of `kernels/fused.cu`. Not powers: the sign of a NaN that one makes depends on
/// how many values it is computed with.
pub const BINARY_STEPS: [Binary; 13] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Max,
    Binary::Min,
    Binary::ReverseSub,
    Binary::ReverseDiv,
    Binary::LeakyRelu,
    Binary::SigmoidBackward,
    Binary::LogSigmoidBackward,
    Binary::GeluBackward,
    Binary::ReluBackward,
];

/// What a step can make of a row, in the order of `kernels/fused.cu`.
pub const ROW_STEPS: [Reduce; 3] = [Reduce::Sum, Reduce::Mean, Reduce::Max];

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// A function of one value.
    Unary(Unary),
    /// A function of two values.
    Binary(Binary),
    /// Of a value, a mask and a scalar: the scalar where the mask is set, else the value. The mask is an input of bytes.
    MaskFill,
    /// A random number, which is one with some probability, else zero. Its two scalars are how many of the 2^32 random words mean
    /// one, and the generator's key. The number also depends on the element's place.
    Draw,
    /// The sum, mean or maximum of a value along its row: along the last dimension of the inputs. It is one value for each row.
    Row(Reduce),
}

/// The scalars of a step: the bits of an `f64`, or a draw's words as they are.
pub type StepScalars = ArrayVec<u64, 2>;

impl StepKind {
    /// What the kernel knows it by.
    pub fn code(self) -> u8 {
        let place = match self {
            StepKind::Unary(kind) => UNARY_STEPS.iter().position(|&other| other == kind),
            StepKind::Binary(kind) => {
                let place = BINARY_STEPS.iter().position(|&other| other == kind);
                place.map(|place| UNARY_STEPS.len() + place)
            }
            StepKind::MaskFill => Some(UNARY_STEPS.len() + BINARY_STEPS.len()),
            StepKind::Draw => Some(UNARY_STEPS.len() + BINARY_STEPS.len() + 1),
            StepKind::Row(kind) => {
                let place = ROW_STEPS.iter().position(|&other| other == kind);
                place.map(|place| UNARY_STEPS.len() + BINARY_STEPS.len() + 2 + place)
            }
        };
        place.expect("programs have steps of these kinds alone") as u8
    }

    /// The kind that the kernel knows by a [`code`](StepKind::code).
    pub fn of_code(code: u8) -> Self {
        let code = usize::from(code);
        let unary = UNARY_STEPS.get(code).copied().map(StepKind::Unary);
        let binary = || BINARY_STEPS.get(code - UNARY_STEPS.len()).copied().map(StepKind::Binary);
        let other = || match code - UNARY_STEPS.len() - BINARY_STEPS.len() {
            0 => StepKind::MaskFill,
            1 => StepKind::Draw,
            place => StepKind::Row(ROW_STEPS[place - 2]),
        };
        unary.or_else(binary).unwrap_or_else(other)
    }

    /// How an op is a step, if it can be one: what it computes, and the scalars that are its last values.
    pub fn of(op: &Op) -> Option<(StepKind, StepScalars)> {
        let alone = |kind| Some((kind, StepScalars::new()));
        let with = |kind, value: Scalar| Some((kind, [value.as_f64().to_bits()].into_iter().collect()));
        match *op {
            Op::Unary(kind) if UNARY_STEPS.contains(&kind) => alone(StepKind::Unary(kind)),
            Op::Binary(kind) if BINARY_STEPS.contains(&kind) => alone(StepKind::Binary(kind)),
            // As the op is lowered by itself.
            Op::BinaryScalar(Binary::Pow, value) if value.as_f64() == 2.0 => {
                alone(StepKind::Unary(Unary::Square))
            }
            // A quotient by a power of two is a product by another, to the last bit, and a fraction of the work.
            Op::BinaryScalar(Binary::Div, value) if is_power_of_two(value) => {
                with(StepKind::Binary(Binary::Mul), value.as_f64().recip().into())
            }
            Op::BinaryScalar(kind, value) if BINARY_STEPS.contains(&kind) => {
                with(StepKind::Binary(kind), value)
            }
            Op::MaskFill(value) => with(StepKind::MaskFill, value),
            // A constant is the larger of it and itself.
            Op::Fill { value, .. } => with(StepKind::Binary(Binary::Max), value),
            Op::Random { distribution: Distribution::Bernoulli { probability }, seed, .. } => {
                Some((StepKind::Draw, [words_below(probability), seed].into()))
            }
            _ => None,
        }
    }
}

/// Whether a scalar is a power of two that every type of float has, and whose reciprocal every one has.
fn is_power_of_two(value: Scalar) -> bool {
    const MANTISSA: u64 = (1 << 52) - 1;
    let value = value.as_f64();
    value.to_bits() & MANTISSA == 0 && (2f64.powi(-14)..=2f64.powi(14)).contains(&value)
}

/// Where a step's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// This input.
    Input(u8),
    /// This scalar.
    Scalar(u8),
    /// What this step made, an earlier one.
    Step(u8),
}

/// One of a program's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// What it computes.
    pub kind: StepKind,
    /// Of what. A function of fewer values has the first in the places that are left.
    pub sources: [Source; 3],
    /// Whether it makes one value for each row: the reduction of a row, or a function of such values.
    pub is_row: bool,
}

impl Step {
    /// A function of one to three values.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(kind: StepKind, sources: &[Source]) -> Self {
        let source = |at: usize| *sources.get(at).unwrap_or(&sources[0]);
        Step { kind, sources: [0, 1, 2].map(source), is_row: matches!(kind, StepKind::Row(_)) }
    }

    /// Whether there is a kernel for it, which knows from where it has what.
    fn is_sound(&self) -> bool {
        match self.kind {
            StepKind::Unary(kind) => UNARY_STEPS.contains(&kind),
            StepKind::Binary(kind) => BINARY_STEPS.contains(&kind),
            StepKind::Row(kind) => ROW_STEPS.contains(&kind) && self.is_row,
            // The first input tells the element type, which masks do not have.
            StepKind::MaskFill => matches!(self.sources[1], Source::Input(1..)),
            StepKind::Draw => matches!(self.sources[..2], [Source::Scalar(_), Source::Scalar(_)]),
        }
    }

    /// The same of values of which there is one for each row.
    pub fn of_rows(self) -> Self {
        Step { is_row: true, ..self }
    }
}

/// A sum, mean or maximum of one of a program's values along some of its dimensions, in the order in which it would be taken if the value
/// were in memory, row-major. It is the program's last output, of three dimensions, of which the second has size one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    /// Which.
    pub kind: Reduce,
    /// Of what.
    pub source: Source,
    /// The inputs' dimensions, in the order in which the values are reduced.
    pub order: [u8; MAX_RANK],
    /// Where in this order those that are reduced begin and end.
    pub reduced: [u8; 2],
}

impl Ending {
    /// What comes before the reduced dimensions, in them, and after.
    pub fn sizes(&self, shape: &Shape) -> Shape {
        let [begin, end] = self.reduced.map(usize::from);
        let size = |axes: &[u8]| axes.iter().map(|&axis| shape[axis as usize]).product();
        let order = &self.order[..shape.rank()];
        Shape::new(&[size(&order[..begin]), size(&order[begin..end]), size(&order[end..])])
    }

    /// A view of the inputs' shape in the order in which it is reduced.
    pub fn ordered(&self, layout: &Layout) -> Layout {
        let axes = self.order.map(usize::from);
        layout.permute(&axes[..layout.shape().rank()])
    }
}

/// Steps, and which of them are outputs. Its scalars are beside it, since they may change from one iteration to the next.
///
/// Programs that are equal are one in memory, which stays for the life of the process, as their kernels do: ops are copied often.
#[derive(Clone, Copy, Debug)]
pub struct Program(&'static Known);

/// A program that was made, and its hash.
#[derive(Debug)]
struct Known {
    contents: Contents,
    hash: u64,
}

/// What a program consists of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Contents {
    steps: ArrayVec<Step, MAX_STEPS>,
    outputs: ArrayVec<u8, MAX_FUSED_OUTPUTS>,
    ending: Option<Ending>,
}

/// All programs so far.
static PROGRAMS: LazyLock<Mutex<HashMap<&'static Contents, Program>>> = LazyLock::new(Mutex::default);

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Eq for Program {}

// The hash does not depend on addresses, so that it is the same in every run.
impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Program {
    /// An op as a program of one step, if it can be one on these inputs: its result has the same bits.
    pub fn of_one(op: &Op, inputs: &[View]) -> Option<Op> {
        let first = inputs.first()?;
        let alike = inputs.iter().all(|view| view.dtype == first.dtype && view.shape() == first.shape());
        let (kind, values) = StepKind::of(op).filter(|_| alike && first.dtype.is_float())?;
        let second = match values.first() {
            Some(_) => Source::Scalar(0),
            None => Source::Input(inputs.len() as u8 - 1),
        };
        let mut scalars = [0; MAX_SCALARS];
        scalars[0] = values.first().copied().unwrap_or(0);
        let step = Step::new(kind, &[Source::Input(0), second]);
        Some(Op::Fused { program: Program::new(&[step], &[0], None), scalars })
    }

    /// These steps, of which `outputs` are written, and what it ends in.
    ///
    /// # Panics
    /// If there are more than a program can have, there is no kernel for one of them, it makes nothing, or something comes from a step
    /// that is not before it.
    pub fn new(steps: &[Step], outputs: &[u8], ending: Option<Ending>) -> Self {
        let is_before = |source: &Source, at: usize| match *source {
            Source::Input(place) => usize::from(place) < MAX_FUSED_INPUTS,
            Source::Scalar(place) => usize::from(place) < MAX_SCALARS,
            Source::Step(place) => usize::from(place) < at,
        };
        let are_before = |(at, step): (usize, &Step)| step.sources.iter().all(|source| is_before(source, at));
        let made = outputs.len() + usize::from(ending.is_some());
        let is_end = |ending: &Ending| {
            let [begin, end] = ending.reduced;
            ROW_STEPS.contains(&ending.kind)
                && is_before(&ending.source, steps.len())
                && begin <= end
                && usize::from(end) <= MAX_RANK
        };
        assert!(
            steps.len() <= MAX_STEPS
                && (1..=MAX_FUSED_OUTPUTS).contains(&made)
                && outputs.iter().all(|&output| usize::from(output) < steps.len())
                && steps.iter().all(Step::is_sound)
                && steps.iter().enumerate().all(are_before)
                && ending.iter().all(is_end)
                && (ending.is_none() || !steps.iter().any(|step| step.is_row)),
            "burn-overcommit: there is no program of these steps, outputs and end: {steps:?}, {outputs:?}, {ending:?}"
        );
        let contents = Contents {
            steps: steps.iter().copied().collect(),
            outputs: outputs.iter().copied().collect(),
            ending,
        };
        let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = programs.get(&contents) {
            return known;
        }
        let mut hasher = DefaultHasher::new();
        contents.hash(&mut hasher);
        let known: &'static Known = Box::leak(Box::new(Known { hash: hasher.finish(), contents }));
        programs.insert(&known.contents, Program(known));
        Program(known)
    }

    /// The same program of inputs of so many dimensions, ended by the reduction that its last step is, if no other makes one
    /// value for each row.
    pub fn ended_by_rows(self, rank: usize) -> Self {
        let Some((last, before)) = self.steps().split_last() else { return self };
        let StepKind::Row(kind) = last.kind else { return self };
        let place = before.len() as u8;
        let Some((&output, outputs)) = self.outputs().split_last() else { return self };
        if output != place || before.iter().any(|step| step.is_row) {
            return self;
        }
        let order = std::array::from_fn(|axis| axis as u8);
        let reduced = [rank as u8 - 1, rank as u8];
        let ending = Ending { kind, source: last.sources[0], order, reduced };
        Program::new(before, outputs, Some(ending))
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.0.contents.steps
    }

    /// The steps whose values are written, in the order of the outputs.
    pub fn outputs(&self) -> &[u8] {
        &self.0.contents.outputs
    }

    /// The reduction that it ends in, if it does.
    pub fn ending(&self) -> Option<&Ending> {
        self.0.contents.ending.as_ref()
    }

    /// Whether it reduces rows on the way. Such a program has no other reduction at its end.
    pub fn has_rows(&self) -> bool {
        self.steps().iter().any(|step| step.is_row)
    }

    /// The shape of what it makes at this place, of inputs of a shape.
    pub fn made(&self, place: usize, shape: &Shape) -> Shape {
        match self.steps()[self.outputs()[place] as usize].is_row {
            true => shape.with(shape.rank() - 1, 1),
            false => *shape,
        }
    }

    /// Whether an input is a mask. The first input never is: it tells the element type of the program.
    pub fn is_mask(&self, input: usize) -> bool {
        let is_mask =
            |step: &Step| step.kind == StepKind::MaskFill && step.sources[1] == Source::Input(input as u8);
        self.steps().iter().any(is_mask)
    }

    /// Whether it draws random numbers.
    pub fn draws(&self) -> bool {
        self.steps().iter().any(|step| step.kind == StepKind::Draw)
    }

    /// Whether a scalar is a word of a draw.
    pub fn is_word(&self, scalar: usize) -> bool {
        let is_read = |step: &Step| step.sources.contains(&Source::Scalar(scalar as u8));
        self.steps().iter().any(|step| step.kind == StepKind::Draw && is_read(step))
    }

    /// Whether what it makes at this place comes out of a rectifier.
    pub fn rectifies(&self, place: usize) -> bool {
        let step = self.outputs().get(place).map(|&step| self.steps()[step as usize]);
        step.is_some_and(|step| step.kind == StepKind::Unary(Unary::Relu))
    }

    /// Whether what it makes at this place is computed from an input.
    pub fn depends(&self, place: usize, input: usize) -> bool {
        let source = self.outputs().get(place).map(|&step| Source::Step(step));
        let source = source.or_else(|| self.ending().map(|ending| ending.source));
        source.is_some_and(|source| self.reads(source, input))
    }

    /// Whether a value is computed from an input.
    fn reads(&self, source: Source, input: usize) -> bool {
        // Steps come after what they read, so that one pass from the last to the first finds all.
        let mut wanted = [false; MAX_STEPS];
        let mut reads = false;
        let mut want = |source: Source, wanted: &mut [bool; MAX_STEPS]| match source {
            Source::Input(read) => reads |= usize::from(read) == input,
            Source::Step(step) => wanted[usize::from(step)] = true,
            Source::Scalar(_) => {}
        };
        want(source, &mut wanted);
        for place in (0..self.steps().len()).rev() {
            if wanted[place] {
                self.steps()[place].sources.iter().for_each(|&source| want(source, &mut wanted));
            }
        }
        reads
    }

    /// Whether it adds values that were both made from tensors: it may be the end of a branch.
    pub fn adds(&self) -> bool {
        let is_scalar = |source: &Source| matches!(source, Source::Scalar(_));
        let adds = |step: &Step| step.kind == StepKind::Binary(Binary::Add);
        self.steps().iter().any(|step| adds(step) && !step.sources.iter().any(is_scalar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_known_by_its_code() {
        let unary = UNARY_STEPS.map(StepKind::Unary);
        let binary = BINARY_STEPS.map(StepKind::Binary);
        let rows = ROW_STEPS.map(StepKind::Row);
        let others = [StepKind::MaskFill, StepKind::Draw].into_iter().chain(rows);
        for kind in unary.into_iter().chain(binary).chain(others) {
            assert_eq!(StepKind::of_code(kind.code()), kind);
        }
    }

    #[test]
    fn ops_that_differ_in_scalars_alone_have_one_template() {
        let step = Step::new(StepKind::Binary(Binary::Mul), &[Source::Input(0), Source::Scalar(0)]);
        let op = |scalar: f64| {
            let mut scalars = [0; MAX_SCALARS];
            scalars[0] = scalar.to_bits();
            Op::Fused { program: Program::new(&[step], &[0], None), scalars }
        };
        assert_ne!(op(1.0), op(2.0));
        assert_eq!(op(1.0).template(), op(2.0).template());
        let other = Step { kind: StepKind::Binary(Binary::Add), ..step };
        let program = Program::new(&[other], &[0], None);
        assert_ne!(op(1.0).template(), Op::Fused { program, scalars: [0; MAX_SCALARS] });
    }

    #[test]
    fn a_square_asked_for_as_a_power_is_the_step_that_it_is_lowered_to() {
        let power = |exponent: f64| StepKind::of(&Op::BinaryScalar(Binary::Pow, exponent.into()));
        assert_eq!(power(2.0), Some((StepKind::Unary(Unary::Square), StepScalars::new())));
        assert_eq!(power(3.0), None);
    }

    #[test]
    fn a_quotient_by_a_power_of_two_is_a_product() {
        let by = |divisor: f64| {
            StepKind::of(&Op::BinaryScalar(Binary::Div, divisor.into())).expect("it is a step")
        };
        let scaled = |kind, by: f64| (StepKind::Binary(kind), [by.to_bits()].into_iter().collect());
        assert_eq!(by(8.0), scaled(Binary::Mul, 0.125));
        for other in [3.0, -8.0, 0.0, f64::INFINITY, 2f64.powi(20)] {
            assert_eq!(by(other), scaled(Binary::Div, other));
        }
    }
}
