//! Writes a program from a seed: values that are alive, views of them, and the loop around the steps.

use burn_overcommit::op::{Binary, Distribution, Dtype, Layout, Op, Shape, Unary, View};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::program::{Program, Slot, Step, Use, Values};

/// Values are scaled back to about one when they could be larger than this, so that they stay finite and differ.
const MOST_VALUE: f64 = 64.0;

/// Every type of integers.
const INTEGERS: [Dtype; 8] =
    [Dtype::I64, Dtype::I32, Dtype::I16, Dtype::I8, Dtype::U64, Dtype::U32, Dtype::U16, Dtype::U8];

/// The element types of a program, and the kind and size of its values.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    pub float: Dtype,
    pub integers: [Dtype; 2],
    /// Whether tensors have some hundred elements at the most.
    pub is_small: bool,
    /// Whether random numbers have keys of their own, by which the interpreter copies them.
    pub has_keys: bool,
    /// Whether values are small integers, whose sums are the same in any order.
    pub is_whole: bool,
    /// No tensor is larger.
    pub most_bytes: usize,
    pub form: Form,
}

/// How a program is written beyond its palette.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    /// How many times sizes are halved.
    pub halved: u32,
    /// Whether its body trains a network.
    pub trains: bool,
}

impl Palette {
    /// Any floats, in tensors of some thousand elements.
    const NOISE: Palette = Palette {
        float: Dtype::F32,
        integers: [Dtype::I32, Dtype::I64],
        is_small: false,
        has_keys: false,
        is_whole: false,
        most_bytes: 64 << 10,
        form: Form { halved: 0, trains: false },
    };

    /// Small tensors of types that a seed chooses, mostly of small integers.
    fn small(random: &mut ChaCha8Rng) -> Self {
        let float = [Dtype::F32, Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F64][random.random_range(0..5)];
        let mut integer = || INTEGERS[random.random_range(0..INTEGERS.len())];
        let first = integer();
        let second =
            std::iter::repeat_with(integer).find(|&second| second != first).expect("there are others");
        let is_whole = random.random_bool(0.8);
        // Small sums are the same by any algorithm.
        let is_small = is_whole || random.random_bool(0.5);
        let most_bytes = if is_small { 2 << 10 } else { 32 << 10 };
        Palette {
            float,
            integers: [first, second],
            is_small,
            has_keys: true,
            is_whole,
            most_bytes,
            form: Form::default(),
        }
    }
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    write(seed, Palette::NOISE)
}

/// The program of a seed whose results [the interpreter](crate::interpreter) knows.
pub fn small_program(seed: u64, form: Form) -> Program {
    write(seed, Palette { form, ..small_palette(seed) })
}

/// The palette of such a program.
pub fn small_palette(seed: u64) -> Palette {
    Palette::small(&mut ChaCha8Rng::seed_from_u64(seed ^ 0xe8ac7))
}

fn write(seed: u64, palette: Palette) -> Program {
    let mut generator = Generator::new(seed, palette);
    for _ in 0..generator.random.random_range(1..4) {
        generator.weight();
    }
    for _ in 0..generator.random.random_range(2..8) {
        generator.step();
    }
    let network = if palette.form.trains { generator.network() } else { Vec::new() };
    let prologue = std::mem::take(&mut generator.steps);
    let outside = generator.live.len();
    for value in &mut generator.live {
        value.kept = true;
    }
    let layers = if palette.form.trains { generator.forward(&network) } else { Vec::new() };
    for _ in 0..generator.random.random_range(8..18) {
        generator.step();
    }
    if palette.form.trains {
        generator.backward(layers);
    }
    if palette.has_keys && generator.random.random_bool(0.1) {
        generator.too_large();
    }
    generator.update_weights();
    generator.drop_since(outside);
    let body = std::mem::take(&mut generator.steps);
    for _ in 0..generator.random.random_range(2..8) {
        generator.step();
    }
    let iterations = generator.random.random_range(1..4);
    Program { seed, prologue, body: with_scopes(seed, body), iterations, epilogue: generator.steps }
}

/// The steps; of half of the seeds, one or two stretches of them in scopes, which may overlap.
fn with_scopes(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let mut random = ChaCha8Rng::seed_from_u64(!seed);
    for _ in 0..random.random_range(0..4u32).saturating_sub(1) {
        let end = random.random_range(1..=steps.len());
        steps.insert(end, Step::Leave);
        steps.insert(random.random_range(0..end), Step::Enter);
    }
    steps
}

/// A tensor that exists at this point of the program.
#[derive(Debug, Clone, Copy)]
pub struct Value {
    pub slot: Slot,
    pub view: View,
    /// About the largest magnitude of its elements.
    pub bound: f64,
    /// Made outside the loop: not to be used up in it.
    kept: bool,
    weight: bool,
}

/// An operand that is chosen, not yet used.
pub type Chosen = (Value, Layout);

/// The program so far.
pub struct Generator {
    pub palette: Palette,
    pub random: ChaCha8Rng,
    pub live: Vec<Value>,
    steps: Vec<Step>,
    next_slot: Slot,
}

impl Generator {
    fn new(seed: u64, palette: Palette) -> Self {
        Generator {
            palette,
            random: ChaCha8Rng::seed_from_u64(seed),
            live: Vec::new(),
            steps: Vec::new(),
            next_slot: 0,
        }
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random.random_range(0..items.len())]
    }

    fn add(&mut self, view: View, bound: f64) -> Value {
        let value = Value { slot: self.next_slot, view, bound, kept: false, weight: false };
        self.next_slot += 1;
        self.live.push(value);
        value
    }

    /// From now on the values are not used up.
    pub fn keep(&mut self, values: impl IntoIterator<Item = Value>) {
        for kept in values {
            let same = self.live.iter_mut().filter(|value| value.slot == kept.slot);
            same.for_each(|value| value.kept = true);
        }
    }

    /// A value made from nothing: written by the host, random, or filled.
    pub fn leaf(&mut self, dtype: Dtype, sizes: &[usize]) -> Value {
        let (shape, seed) = (Shape::new(sizes), self.random.random());
        let to = self.next_slot;
        let (low, high) = if dtype == Dtype::F32 { (-1.0, 1.0) } else { (-8.0, 8.0) };
        let distribution = match self.random.random_range(0..8) {
            0..=2 => Some(Distribution::Uniform { low: f64::into(low), high: f64::into(high) }),
            3 | 4 => Some(Distribution::Normal { mean: 0.0.into(), deviation: 1.0.into() }),
            5 => Some(Distribution::Bernoulli { probability: 0.5.into() }),
            _ => None,
        };
        // The interpreter has no random numbers of its own but those that it can copy.
        let distribution = distribution.filter(|_| !self.palette.has_keys || dtype == self.palette.float);
        let key = if self.palette.has_keys { seed } else { 0 };
        // Bools, and some of all others, come from the host.
        let op = match distribution {
            _ if dtype == Dtype::Bool => None,
            Some(distribution) => Some(Op::Random { shape, dtype, distribution, seed: key }),
            None if self.random.random_bool(0.3) => Some(Op::Fill { shape, dtype, value: 2.0.into() }),
            None => None,
        };
        let limit = if dtype == Dtype::Bool { 2 } else { 8 };
        let values = match dtype {
            _ if dtype.is_float() && self.palette.has_keys => Values::Small(seed),
            Dtype::F32 => Values::Noise(seed),
            _ => Values::Below(seed, limit),
        };
        self.steps.push(match op {
            Some(op) => Step::Create { to, op },
            None => Step::Write { to, dtype, shape, values },
        });
        let made = self.add(View::contiguous(dtype, shape), if dtype == Dtype::F32 { 2.0 } else { 8.0 });
        if self.palette.is_whole && distribution.is_some() {
            return self.rounded(made, 2.0);
        }
        made
    }

    /// The value in place, times a power of two and rounded to integers.
    fn rounded(&mut self, value: Value, factor: f64) -> Value {
        let whole = |value: Value| [(value, value.view.layout)];
        let bound = value.bound * factor;
        let scaled = self.run_with(Op::BinaryScalar(Binary::Mul, factor.into()), &whole(value), bound, 1.0);
        // A leaf may be larger than a result.
        let Some(scaled) = scaled else { return value };
        self.run_with(Op::Unary(Unary::Round), &whole(scaled), bound, 1.0).expect("as large as its input")
    }

    /// Integers in `0..limit`, to index with.
    pub fn indices(&mut self, limit: usize, shape: Shape) -> Value {
        let dtype = self.pick(&[Dtype::I32, Dtype::I64]);
        let values = Values::Below(self.random.random(), limit as i64);
        self.steps.push(Step::Write { to: self.next_slot, dtype, shape, values });
        self.add(View::contiguous(dtype, shape), limit as f64)
    }

    /// Counts up.
    pub fn arange(&mut self, dtype: Dtype, count: usize) {
        let (start, step) = (self.random.random_range(-3..3), self.random.random_range(-2..3));
        // What wraps around would not be exact.
        let [start, step] =
            [start, step].map(|number: i64| if dtype.range().0 < 0 { number } else { number.abs() });
        let op = Op::Arange { count, dtype, start, step };
        self.steps.push(Step::Create { to: self.next_slot, op });
        self.add(View::contiguous(dtype, Shape::new(&[count])), count as f64);
    }

    /// Asks for more memory than there is.
    fn too_large(&mut self) {
        let (dtype, seed) = (self.palette.float, self.random.random());
        let shape =
            Shape::new(self.pick(&[&[1 << 31, 2][..], &[1 << 48], &[1 << 24, 1, 1 << 24], &[3, 1 << 33]]));
        let distribution = Distribution::Bernoulli { probability: 0.5.into() };
        let step = match self.pick(&[0, 1, 2]) {
            0 => Op::Fill { shape, dtype, value: 2.0.into() },
            1 => Op::Random { shape, dtype, distribution, seed },
            _ => Op::Arange { count: shape.count(), dtype: Dtype::I64, start: 0, step: 1 },
        };
        self.steps.push(Step::TooLarge(step));
    }

    /// Uses up to three operands, some of them for the last time. `None`: the results would be too large.
    pub fn run(&mut self, op: Op, inputs: &[Chosen], bound: f64) -> Option<Value> {
        self.run_with(op, inputs, bound, 0.5)
    }

    /// As [`run`](Self::run); each operand is used for the last time with probability `last`.
    pub fn run_with(&mut self, op: Op, inputs: &[Chosen], bound: f64, last: f64) -> Option<Value> {
        let views: Vec<View> =
            inputs.iter().map(|(value, layout)| View { layout: *layout, ..value.view }).collect();
        let outputs = op.outputs(&views);
        if outputs.iter().any(|view| view.size_bytes() > self.palette.most_bytes) {
            return None;
        }
        let uses = (0..inputs.len()).map(|index| {
            let (value, layout) = inputs[index];
            let again = inputs[index + 1..].iter().any(|(other, _)| other.slot == value.slot);
            let last = !again && !value.kept && self.random.random_bool(last);
            if last {
                self.live.retain(|other| other.slot != value.slot);
            }
            Use { slot: value.slot, layout, last }
        });
        let inputs = uses.collect();
        let made: Vec<Value> = outputs.iter().map(|view| self.add(*view, bound)).collect();
        self.steps.push(Step::Run { op, inputs, to: made.iter().map(|value| value.slot).collect() });
        Some(self.tamed(made[0]))
    }

    /// The value, scaled back in place if it is large.
    fn tamed(&mut self, value: Value) -> Value {
        if value.bound <= MOST_VALUE {
            return value;
        }
        if self.palette.is_whole && value.view.dtype.is_float() {
            return self.rounded(value, (8.0 / value.bound).log2().floor().exp2());
        }
        let (op, bound) = match value.view.dtype {
            _ if value.view.dtype.is_float() => {
                (Op::BinaryScalar(Binary::Mul, (1.0 / value.bound).into()), 1.0)
            }
            _ if value.view.dtype.is_integer() => (Op::BinaryScalar(Binary::Remainder, 37i64.into()), 37.0),
            _ => return value,
        };
        self.run_with(op, &[(value, value.view.layout)], bound, 1.0).expect("as large as its input")
    }

    /// A live value that fits, as it is.
    pub fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let fitting: Vec<Value> = self.live.iter().copied().filter(fits).collect();
        (!fitting.is_empty()).then(|| self.pick(&fitting))
    }

    /// Any value of one of these types, through some view; a new one if need be.
    pub fn any(&mut self, dtypes: &[Dtype]) -> Chosen {
        let value = self.find(|value| dtypes.contains(&value.view.dtype)).unwrap_or_else(|| {
            let (dtype, sizes) = (self.pick(dtypes), self.sizes());
            self.leaf(dtype, &sizes)
        });
        let layout =
            if self.random.random_bool(0.4) { self.view(value.view.layout) } else { value.view.layout };
        (value, layout)
    }

    /// A value of exactly this type and shape, perhaps through a view; a new one if need be.
    pub fn shaped(&mut self, dtype: Dtype, shape: Shape) -> Chosen {
        let direct = |value: &Value| value.view.dtype == dtype && *value.view.shape() == shape;
        if let Some(value) = self.find(direct).filter(|_| self.random.random_bool(0.8)) {
            let axis = self.random.random_range(0..shape.rank().max(1));
            let flip = shape.rank() > 0 && self.random.random_bool(0.1);
            return (value, if flip { value.view.layout.flip(axis) } else { value.view.layout });
        }
        // Stored transposed, or with one dimension to expand, or just so.
        let mut sizes = shape.dims().to_vec();
        let axis = self.random.random_range(0..shape.rank().max(1));
        match self.random.random_range(0..4) {
            0 if shape.rank() >= 2 => {
                sizes.reverse();
                let axes: Vec<usize> = (0..sizes.len()).rev().collect();
                let value = self.leaf(dtype, &sizes);
                (value, value.view.layout.permute(&axes))
            }
            1 if shape.rank() >= 1 && sizes[axis] > 0 => {
                sizes[axis] = 1;
                let value = self.leaf(dtype, &sizes);
                (value, value.view.layout.expand(shape))
            }
            _ => {
                let value = self.leaf(dtype, &sizes);
                (value, value.view.layout)
            }
        }
    }

    /// Sizes of a new tensor of any rank; seldom without elements.
    pub fn sizes(&mut self) -> Vec<usize> {
        let sizes = if self.palette.is_small { self.small_sizes() } else { self.large_sizes() };
        sizes
            .into_iter()
            .map(|size| if size > 0 { (size >> self.palette.form.halved).max(1) } else { 0 })
            .collect()
    }

    fn large_sizes(&mut self) -> Vec<usize> {
        match self.random.random_range(0..12) {
            0 => vec![],
            1 => vec![self.random.random_range(0..4), self.random.random_range(0..9)],
            2..=4 => vec![self.random.random_range(1..2000)],
            5..=8 => vec![self.pick(&[3, 16, 40]), self.pick(&[5, 16, 33])],
            9 => vec![self.pick(&[2, 5]), self.pick(&[3, 16]), self.pick(&[7, 16])],
            _ => self.images().to_vec(),
        }
    }

    fn small_sizes(&mut self) -> Vec<usize> {
        match self.random.random_range(0..12) {
            0 => vec![],
            1 => vec![self.random.random_range(0..4), self.random.random_range(0..9)],
            2..=4 => vec![self.random.random_range(1..200)],
            5..=8 => vec![self.pick(&[1, 3, 8]), self.pick(&[5, 16, 33])],
            9 => vec![self.pick(&[2, 3]), self.pick(&[3, 4]), self.pick(&[5, 8])],
            _ => self.images().to_vec(),
        }
    }

    /// Sizes of a batch of images.
    pub fn images(&mut self) -> [usize; 4] {
        if self.palette.is_small {
            return [self.pick(&[1, 2]), self.pick(&[1, 2, 4]), self.pick(&[4, 5]), self.pick(&[4, 6])];
        }
        let side = self.pick(&[6, 9, 12]);
        [self.pick(&[2, 3, 5]), self.pick(&[2, 4]), side, self.pick(&[6, side])]
    }

    /// Another layout of the same storage.
    pub fn view(&mut self, layout: Layout) -> Layout {
        let shape = *layout.shape();
        let rank = shape.rank();
        if rank == 0 || shape.count() == 0 {
            return layout;
        }
        let axis = self.random.random_range(0..rank);
        match self.random.random_range(0..5) {
            0 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(axis, rank - 1);
                axes.swap(0, rank - 1);
                layout.permute(&axes)
            }
            1 => layout.flip(axis),
            2 => {
                let (size, step) = (self.random.random_range(1..=shape[axis]), self.pick(&[1, 1, 2, -1, -2]));
                let reach = (size - 1) * isize::unsigned_abs(step);
                let Some(room) = (shape[axis] - 1).checked_sub(reach) else {
                    return layout;
                };
                let first = self.random.random_range(0..=room);
                layout.slice(axis, if step < 0 { first + reach } else { first }, size, step)
            }
            3 if shape.count() <= 2048 => {
                let mut sizes = shape.dims().to_vec();
                sizes.insert(0, self.random.random_range(2..4));
                if rank < 5 { layout.expand(Shape::new(&sizes)) } else { layout }
            }
            _ => {
                let flat = Shape::new(&[shape.count()]);
                let halves = Shape::new(&[2, shape.count() / 2]);
                let wanted = if shape.count().is_multiple_of(2) { self.pick(&[flat, halves]) } else { flat };
                layout.reshape(wanted).unwrap_or(layout)
            }
        }
    }

    /// A second handle of a storage, or the first under another layout.
    pub fn alias(&mut self) {
        let Some(value) = self.find(|_| true) else { return };
        let layout =
            if self.random.random_bool(0.5) { self.view(value.view.layout) } else { value.view.layout };
        if layout.shape().count() * value.view.dtype.size_bytes() > self.palette.most_bytes {
            return;
        }
        let last = !value.kept && self.random.random_bool(0.3);
        if last {
            self.live.retain(|other| other.slot != value.slot);
        }
        let to = self.add(View { layout, ..value.view }, value.bound).slot;
        self.steps.push(Step::Alias { from: Use { slot: value.slot, layout, last }, to });
    }

    /// Drops a value.
    pub fn drop_one(&mut self) {
        if let Some(value) = self.find(|value| !value.kept) {
            self.live.retain(|other| other.slot != value.slot);
            self.steps.push(Step::Drop(value.slot));
        }
    }

    /// Reads a value midway.
    pub fn read_one(&mut self) {
        if let Some(value) = self.find(|_| true) {
            self.steps.push(Step::Read(value.slot));
        }
    }

    /// A value that lives through all iterations and is updated in each.
    fn weight(&mut self) {
        let mut sizes = [vec![4, 2, 3, 3], vec![33, 16], vec![16], vec![40, 40], vec![4, 4, 2, 2]];
        if self.palette.is_small {
            sizes = [vec![4, 2, 3, 3], vec![8, 16], vec![16], vec![8, 8], vec![4, 4, 2, 2]];
        }
        let index = self.random.random_range(0..sizes.len());
        let slot = self.leaf(self.palette.float, &sizes[index]).slot;
        self.live
            .iter_mut()
            .filter(|value| value.slot == slot)
            .for_each(|value| (value.weight, value.kept) = (true, true));
    }

    /// Each weight that no network has is replaced, by some change.
    fn update_weights(&mut self) {
        let weights: Vec<Value> = self.live.iter().copied().filter(|value| value.weight).collect();
        for weight in weights {
            let change = self.shaped(self.palette.float, *weight.view.shape());
            self.replace(weight, change);
        }
    }

    /// `weight = 0.9 * weight - change`, the last handle of the old weight given up.
    pub fn replace(&mut self, weight: Value, (change, layout): Chosen) {
        let decay: f64 = if self.palette.is_whole { -1.0 } else { 0.9 };
        let decay = Op::BinaryScalar(Binary::Mul, decay.into());
        let old = Use { slot: weight.slot, layout: weight.view.layout, last: true };
        self.steps.push(Step::Run { op: decay, inputs: vec![old], to: vec![weight.slot] });
        let change = Use { slot: change.slot, layout, last: false };
        if change.slot != weight.slot {
            let op = Op::Binary(Binary::Sub);
            self.steps.push(Step::Run { op, inputs: vec![old, change], to: vec![weight.slot] });
        }
    }

    /// Drops most of what the loop's body made, in any order; the next iteration replaces the rest.
    fn drop_since(&mut self, outside: usize) {
        while self.live.len() > outside {
            let index = self.random.random_range(outside..self.live.len());
            let value = self.live.swap_remove(index);
            if self.random.random_bool(0.85) {
                self.steps.push(Step::Drop(value.slot));
            }
        }
    }
}
