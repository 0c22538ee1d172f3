//! Kernels for one fused program and one class of layouts, in place of the interpreter in `kernels/fused.cu`: the same
//! arguments, steps and roundings, but the program is code, values stay in registers, and a thread moves 16 bytes at once where
//! the operands allow it.
//!
//! A class is what the text of a kernel depends on: the number of dimensions, along which of them an operand's elements follow
//! each other or stay, whether 32 bits are enough for places. Sizes and strides are arguments, so that a network has few kernels.

mod rows;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytemuck::from_bytes;

use super::call::blocks;
use super::fused::{Fused, FusedReduce, ROWS};
use super::reduce::{Reduction, TEAM};
use super::{Args, KernelCall, KernelName};
use crate::op::{Dtype, MAX_FUSED_INPUTS, MAX_RANK, MAX_SCALARS, StepKind};

/// A kernel as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Generated {
    /// What it is called: as the interpreter's, and a number that differs where the text does.
    pub name: String,
    /// The source of the file.
    pub text: String,
}

/// Bytes that a thread moves at once.
const VECTOR_BYTES: usize = 16;
/// Vectors that a thread takes one after the other, where there are many.
const MAX_VECTORS: u64 = 4;
/// Blocks that fill a large GPU.
const MANY_BLOCKS: u64 = 2048;

/// How the elements of an operand lie along the innermost dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// They follow each other, in all dimensions.
    Whole,
    /// They follow each other.
    Row,
    /// There is one.
    One,
    /// They are apart.
    Strided,
}

/// By whom rows are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// Each by a thread.
    Alone,
    /// Each by all threads of a block.
    Together,
    /// A vector of neighbours by a thread.
    Columns,
}

/// What is generated for.
struct Kernel<'a> {
    args: &'a Fused,
    dtype: Dtype,
    /// Elements that a thread takes at once.
    width: usize,
    /// Whether places take 64 bits.
    is_wide: bool,
    /// How its values are reduced, if they are.
    rows: Option<Rows>,
    /// The dimension along which they are, innermost first, if it is one and a thread has a row by itself.
    reduced_axis: Option<usize>,
}

/// Whether a call is one of the interpreter's, whose kernel can be generated.
pub fn is_fused(call: &KernelCall) -> bool {
    call.name.family == "fused"
}

fn arguments(call: &KernelCall) -> &Fused {
    from_bytes(&call.args.bytes()[..size_of::<Fused>()])
}

fn rows(call: &KernelCall) -> &Reduction {
    &from_bytes::<FusedReduce>(call.args.bytes()).rows
}

/// How many elements a thread of a generated kernel takes at once.
pub fn width(call: &KernelCall) -> usize {
    Kernel::of(call).width
}

/// How many inputs a thread of a generated kernel reads once for a whole row, if it finds their places once.
pub fn read_once(call: &KernelCall) -> Option<usize> {
    let kernel = Kernel::of(call);
    let axis = kernel.reduced_axis?;
    Some((0..kernel.args.input_count as usize).filter(|&n| kernel.step_along(n, axis).is_none()).count())
}

/// Cuts the work of an interpreter's call as its generated kernel wants it.
pub fn cut(call: &mut KernelCall) {
    if !is_fused(call) {
        return;
    }
    let Kernel { width, rows, .. } = Kernel::of(call);
    let per_round = (TEAM * width) as u64;
    if rows == Some(Rows::Columns) {
        let mut args: FusedReduce = *from_bytes(call.args.bytes());
        call.blocks = args.rows.cut(per_round);
        call.args = Args::new(&args);
    }
    if rows.is_some() || call.name.kind == ROWS {
        return;
    }
    let mut args = *arguments(call);
    let rounds = (args.count / (per_round * MANY_BLOCKS)).clamp(1, MAX_VECTORS);
    args.chunk = per_round * rounds;
    call.blocks = blocks(args.count, args.chunk);
    call.args = Args::new(&args);
}

impl Generated {
    /// The kernel that is generated for a call of the interpreter; nothing for other calls.
    pub fn of(call: &KernelCall) -> Option<Self> {
        is_fused(call).then(|| {
            let mut text = String::new();
            let kernel = Kernel::of(call);
            let written = match call.name.kind {
                "" => kernel.write_elementwise(&mut text),
                ROWS => kernel.write_rows(&mut text),
                kind => kernel.write_reduction(&mut text, &call.name, kind),
            };
            written.expect("a string takes all");
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let name = format!("{}_{:08x}", call.name, hasher.finish() as u32);
            let text = text.replace(NAME, &name);
            Generated {
                name,
                text: format!(
                    "#include \"generated.cuh\"\n\nnamespace {{\n{text}\nEXPORT_TABLE(generated)\n"
                ),
            }
        })
    }
}

/// What stands for a kernel's name before its text is known.
const NAME: &str = "KERNEL_NAME";

impl<'a> Kernel<'a> {
    fn of(call: &'a KernelCall) -> Self {
        let (args, dtype) = (arguments(call), call.name.instance());
        let mut kernel =
            Kernel { args, dtype, width: 1, is_wide: is_wide(args), rows: None, reduced_axis: None };
        let vector = VECTOR_BYTES / dtype.size_bytes();
        let fits = kernel.is_in_vectors(vector);
        let mut begins = true;
        if call.name.kind == ROWS {
            begins = args.row_size.is_multiple_of(vector as u64);
        } else if !call.name.kind.is_empty() {
            let rows = rows(call);
            let is_shared = rows.is_shared();
            let are_columns = !is_shared && fits && rows.are_columns_in_vectors(vector);
            begins = are_columns || rows.is_in_vectors(vector);
            kernel.rows = Some(match (is_shared, are_columns) {
                (true, _) => Rows::Together,
                (_, true) => Rows::Columns,
                _ => Rows::Alone,
            });
            kernel.reduced_axis = rows.axis_in(&args.sizes[..args.rank as usize]).filter(|_| !is_shared);
        }
        if begins && fits {
            kernel.width = vector;
        }
        kernel
    }

    /// The inputs and outputs by number, each with its address. Draws are placed as a first output.
    fn operands(&self) -> impl Iterator<Item = (usize, u64)> {
        let inputs = self.args.inputs.iter().copied().enumerate().take(self.args.input_count as usize);
        let outputs = (self.args.output_count as usize).max(usize::from(self.draws().next().is_some()));
        inputs.chain((MAX_FUSED_INPUTS..).zip(self.args.outputs).take(outputs))
    }

    /// The steps by number: codes and places of values.
    fn steps(&self) -> impl Iterator<Item = (usize, &[u8; 4])> {
        self.args.steps[..self.args.step_count as usize].iter().enumerate()
    }

    /// Whether a step that does not draw reads a value, or it is reduced at the end.
    fn uses(&self, value: u32) -> bool {
        let reading = self.steps().filter(|(_, step)| StepKind::of_code(step[0]) != StepKind::Draw);
        let of_steps = reading.flat_map(|(_, &[_, a, b, c])| [a, b, c]).map(u32::from);
        of_steps.chain([self.args.reduced]).any(|used| used == value)
    }

    /// The steps that draw, by number, and their scalars.
    fn draws(&self) -> impl Iterator<Item = (usize, [usize; 2])> {
        let draws = self.steps().filter(|(_, step)| StepKind::of_code(step[0]) == StepKind::Draw);
        draws.map(|(n, &[_, a, b, _])| (n, [a, b].map(|place| usize::from(place) - MAX_FUSED_INPUTS)))
    }

    fn run(&self, operand: usize) -> Run {
        let args = self.args;
        let follows = match operand.checked_sub(MAX_FUSED_INPUTS) {
            None => args.strided >> operand & 1 == 0,
            Some(_) => args.scattered == 0,
        };
        match args.strides[operand][0] {
            _ if follows => Run::Whole,
            0 if operand < MAX_FUSED_INPUTS => Run::One,
            1 => Run::Row,
            _ => Run::Strided,
        }
    }

    /// Whether so many neighbours are always of one row, and begin where a vector may.
    fn is_in_vectors(&self, count: usize) -> bool {
        let (args, count) = (self.args, count as i64);
        let mut operands = self.operands().map(|(operand, address)| (self.run(operand), operand, address));
        let is_placed = args.strided != 0 || args.scattered != 0;
        (!is_placed || args.sizes[0] as i64 % count == 0)
            && operands.all(|(run, operand, address)| {
                let is_aligned = address % VECTOR_BYTES as u64 == 0;
                match run {
                    Run::Whole => is_aligned,
                    Run::Row => {
                        is_aligned && args.strides[operand][1..].iter().all(|stride| stride % count == 0)
                    }
                    Run::One | Run::Strided => true,
                }
            })
    }

    fn write_elementwise(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "typedef {} T;\ntypedef {} Index;\n}}  // namespace\n", self.dtype, self.index())?;
        writeln!(text, "KERNEL({NAME}, Fused) {{")?;
        writeln!(text, "  for_elements<{}, Index>(args, [&](auto width, Index at) {{", self.width)?;
        writeln!(text, "    constexpr u32 V = decltype(width)::value;")?;
        self.write_body(text)?;
        writeln!(text, "  }});\n}}")
    }

    fn write_reduction(&self, text: &mut String, name: &KernelName, kind: &str) -> std::fmt::Result {
        let out = name.second().unwrap_or(self.dtype);
        writeln!(text, "typedef {} T;\ntypedef {} Index;\n}}  // namespace\n", self.dtype, self.index())?;
        writeln!(text, "TEAM_KERNEL({NAME}, FusedReduce) {{")?;
        writeln!(
            text,
            "  const auto values = [&program = args.program](auto width, i64 first, i64 apart) {{"
        )?;
        writeln!(text, "    constexpr u32 V = decltype(width)::value;\n    const Fused& args = program;")?;
        match self.reduced_axis {
            Some(axis) => self.write_row(text, axis)?,
            None => {
                writeln!(text, "    return [=, &args](u64 k, T* made) {{")?;
                writeln!(text, "    const Index at = Index(first + i64(k) * apart);")?;
                self.write_body(text)?;
            }
        }
        writeln!(text, "    }};\n  }};")?;
        let finish = match kind {
            "mean" => "[&](Compute<T> total) { return Div::f(total, Compute<T>(args.rows.divisor)); }",
            _ => "[](Compute<T> total) { return total; }",
        };
        let (reduced, in_vectors) = (if kind == "max" { "Largest" } else { "Sum" }, self.width > 1);
        let reduce = match self.rows {
            Some(Rows::Columns) => format!("reduce_columns_of_vectors<{out}, T, {reduced}>"),
            Some(Rows::Together) => format!("reduce_elements<{out}, T, {reduced}, Together, {in_vectors}>"),
            _ => format!("reduce_elements<{out}, T, {reduced}, Alone, {in_vectors}>"),
        };
        writeln!(text, "  {reduce}(args, values, {finish});\n}}")
    }

    /// Of a row whose elements are equally far apart in every operand: places are found once, and operands that stay
    /// the same are read once.
    fn write_row(&self, text: &mut String, axis: usize) -> std::fmt::Result {
        let args = self.args;
        writeln!(text, "    const Index at = Index(first);")?;
        if args.strided != 0 || args.scattered != 0 {
            self.write_indices(text)?;
        }
        for n in 0..args.input_count as usize {
            let from = self.from(n);
            let dtype = self.type_of(n);
            match self.step_along(n, axis) {
                None => {
                    writeln!(text, "    struct {{ {dtype} of[V]; }} same{n};")?;
                    writeln!(text, "    {};", self.read(n, &format!("same{n}.of"), &from))?;
                }
                Some(_) => writeln!(text, "    const {dtype}* const from{n} = {from};")?,
            }
        }
        for n in 0..args.output_count as usize {
            let operand = MAX_FUSED_INPUTS + n;
            let to =
                format!("static_cast<T*>(args.outputs[{n}]) + {}", self.place(operand, self.run(operand)));
            writeln!(text, "    T* const to{n} = {to};")?;
        }
        if self.draws().next().is_some() {
            let place = self.place(MAX_FUSED_INPUTS, self.run(MAX_FUSED_INPUTS));
            writeln!(text, "    const i64 place = {place};")?;
        }
        writeln!(text, "    return [=, &args](u64 k, T* made) {{")?;
        for n in 0..args.input_count as usize {
            let dtype = self.type_of(n);
            match self.step_along(n, axis) {
                None => writeln!(text, "    const {dtype}* const x{n} = same{n}.of;")?,
                Some(step) => {
                    let read = self.read(n, &format!("x{n}"), &format!("from{n} + i64(k) * {step}"));
                    writeln!(text, "    {dtype} x{n}[V];\n    {read};")?;
                }
            }
        }
        if let Some(step) = self.step_along(MAX_FUSED_INPUTS, axis) {
            self.write_draws(text, &format!("place + i64(k) * {step}"))?;
        }
        self.write_steps(text)?;
        (0..args.output_count as usize).try_for_each(|n| {
            let step = self.step_along(MAX_FUSED_INPUTS + n, axis).expect("outputs differ everywhere");
            writeln!(text, "    {};", self.write(n, &format!("to{n} + i64(k) * {step}")))
        })
    }

    /// How far apart an operand's elements are along an axis, if it has several.
    fn step_along(&self, operand: usize, axis: usize) -> Option<String> {
        match self.run(operand) {
            Run::Whole => Some("apart".into()),
            _ if self.args.strides[operand][axis] == 0 => None,
            _ => Some(format!("args.space.strides[{operand}][{axis}]")),
        }
    }

    /// The type of an input's elements.
    fn type_of(&self, n: usize) -> &'static str {
        if self.args.masks >> n & 1 == 1 { "u8" } else { "T" }
    }

    /// Where the elements of an input begin.
    fn from(&self, n: usize) -> String {
        format!("static_cast<const {}*>(args.inputs[{n}]) + {}", self.type_of(n), self.place(n, self.run(n)))
    }

    /// Reads `V` elements of an input.
    fn read(&self, n: usize, to: &str, from: &str) -> String {
        match self.run(n) {
            Run::Whole | Run::Row => format!("read_row<V>({to}, {from})"),
            Run::One => format!("read_one<V>({to}, {from})"),
            Run::Strided => format!("read_strided<V>({to}, {from}, args.space.strides[{n}][0])"),
        }
    }

    /// Writes `V` elements of an output.
    fn write(&self, n: usize, to: &str) -> String {
        let operand = MAX_FUSED_INPUTS + n;
        match self.run(operand) {
            Run::Whole | Run::Row => format!("write_row<V>({to}, y{n})"),
            _ => format!("write_strided<V>({to}, y{n}, args.space.strides[{operand}][0])"),
        }
    }

    /// Reads, steps and writes of `V` elements from `at` on.
    fn write_body(&self, text: &mut String) -> std::fmt::Result {
        let args = self.args;
        let is_placed = args.strided != 0 || args.scattered != 0;
        if is_placed {
            self.write_indices(text)?;
        }
        for n in 0..args.input_count as usize {
            let read = self.read(n, &format!("x{n}"), &self.from(n));
            writeln!(text, "    {} x{n}[V];\n    {read};", self.type_of(n))?;
        }
        self.write_draws(text, &self.place(MAX_FUSED_INPUTS, self.run(MAX_FUSED_INPUTS)))?;
        self.write_steps(text)?;
        (0..args.output_count as usize).try_for_each(|n| {
            let operand = MAX_FUSED_INPUTS + n;
            let to =
                format!("static_cast<T*>(args.outputs[{n}]) + {}", self.place(operand, self.run(operand)));
            writeln!(text, "    {};", self.write(n, &to))
        })
    }

    /// The index along each dimension, innermost first.
    fn write_indices(&self, text: &mut String) -> std::fmt::Result {
        let last = self.args.rank as usize - 1;
        for axis in 0..last {
            let from = if axis == 0 { "at".into() } else { format!("rest{axis}") };
            writeln!(text, "    const Index rest{} = {from} / Index(args.space.sizes[{axis}]);", axis + 1)?;
            writeln!(
                text,
                "    const Index i{axis} = {from} - rest{} * Index(args.space.sizes[{axis}]);",
                axis + 1
            )?;
        }
        let from = if last == 0 { "at".into() } else { format!("rest{last}") };
        writeln!(text, "    const Index i{last} = {from};")
    }

    /// The random numbers of `V` elements, of which the first is at this place.
    fn write_draws(&self, text: &mut String, place: &str) -> std::fmt::Result {
        self.draws().try_for_each(|(n, [threshold, key])| {
            let words = format!("args.scalars[{threshold}], args.scalars[{key}]");
            let draw = match self.run(MAX_FUSED_INPUTS) {
                Run::Strided => {
                    format!(
                        "draw_strided<V>(d{n}, {words}, {place}, args.space.strides[{MAX_FUSED_INPUTS}][0])"
                    )
                }
                _ => format!("draw_row<V>(d{n}, {words}, {place})"),
            };
            writeln!(text, "    T d{n}[V];\n    {draw};")
        })
    }

    fn write_steps(&self, text: &mut String) -> std::fmt::Result {
        let args = self.args;
        (0..args.output_count).try_for_each(|n| writeln!(text, "    T y{n}[V];"))?;
        for n in (0..MAX_SCALARS).filter(|&n| self.uses((MAX_FUSED_INPUTS + n) as u32)) {
            writeln!(text, "    const T c{n} = scalar<T>(args, {n});")?;
        }
        writeln!(text, "    UNROLLED for (u32 k = 0; k < V; ++k) {{")?;
        for (n, &[code, a, b, c]) in self.steps() {
            let values = [a, b, c].map(|place| self.value(place));
            writeln!(text, "      const T s{n} = {};", step_text(code, values, n))?;
        }
        for n in 0..args.output_count as usize {
            writeln!(text, "      y{n}[k] = s{};", args.made[n])?;
        }
        if self.rows.is_some() {
            writeln!(text, "      made[k] = {};", self.value(args.reduced as u8))?;
        }
        writeln!(text, "    }}")
    }

    /// A value, by the number that the interpreter has for it.
    fn value(&self, place: u8) -> String {
        let place = usize::from(place);
        match place.checked_sub(MAX_FUSED_INPUTS) {
            None => format!("x{place}[k]"),
            Some(scalar) if scalar < MAX_SCALARS => format!("c{scalar}"),
            Some(step) => format!("s{}", step - MAX_SCALARS),
        }
    }

    /// Where an operand's elements begin.
    fn place(&self, operand: usize, run: Run) -> String {
        if run == Run::Whole {
            return "at".into();
        }
        let offset = if self.is_wide { "i64" } else { "i32" };
        let strides = &self.args.strides[operand][..self.args.rank as usize];
        let terms = (0..strides.len()).filter(|&axis| strides[axis] != 0);
        let terms: Vec<String> = terms
            .map(|axis| format!("{offset}(i{axis}) * {offset}(args.space.strides[{operand}][{axis}])"))
            .collect();
        if terms.is_empty() { "0".into() } else { format!("({})", terms.join(" + ")) }
    }

    fn index(&self) -> &'static str {
        if self.is_wide { "u64" } else { "u32" }
    }
}

/// What a step computes of these values; it is step `n`.
fn step_text(code: u8, [a, b, c]: [String; 3], n: usize) -> String {
    match StepKind::of_code(code) {
        StepKind::Unary(kind) => format!("step<T, {kind:?}>({a})"),
        StepKind::Binary(kind) => format!("step<T, {kind:?}>({a}, {b})"),
        StepKind::MaskFill => format!("{b} ? {c} : {a}"),
        StepKind::Draw => format!("d{n}[k]"),
        StepKind::Row(_) => unreachable!("rows are reduced between passes"),
    }
}

/// Whether a flat index, or an offset in an operand, does not fit 31 bits.
fn is_wide(args: &Fused) -> bool {
    const MOST: u64 = 1 << 31;
    // Beyond the last element, a thread still computes where its next one would be.
    const BEYOND: u64 = 1 << 20;
    let sizes = &args.sizes[..args.rank as usize];
    let extent = |strides: &[i64; MAX_RANK]| -> u64 {
        sizes
            .iter()
            .zip(strides)
            .map(|(size, stride)| size.saturating_sub(1).saturating_mul(stride.unsigned_abs()))
            .sum()
    };
    args.count + BEYOND > MOST || args.strides.iter().any(|strides| extent(strides) >= MOST)
}

#[cfg(test)]
mod tests;
