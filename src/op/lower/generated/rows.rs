//! Kernels of programs that reduce rows on their way. A block has a row at a time; each of its threads keeps its elements, with all
//! that steps make of them, in registers where a row has few, or else computes them anew between one reduction and the next.

use std::fmt::Write;
use std::ops::Range;

use super::{Kernel, NAME, Run, step_text};
use crate::op::lower::reduce::TEAM;
use crate::op::{MAX_FUSED_INPUTS, MAX_SCALARS, Reduce, StepKind};

/// The most vectors of a row that a thread keeps.
const MAX_ROUNDS: u64 = 4;

impl Kernel<'_> {
    /// How many vectors of a row a thread keeps, a power of two; nothing if they are too many, or single elements.
    fn rounds(&self) -> Option<u64> {
        let rounds = self.args.row_size.div_ceil((TEAM * self.width) as u64).next_power_of_two();
        (self.width > 1 && rounds <= MAX_ROUNDS).then_some(rounds)
    }

    pub(super) fn write_rows(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "typedef {} T;\ntypedef {} Index;", self.dtype, self.index())?;
        match self.rounds() {
            Some(rounds) => writeln!(text, "constexpr u32 V = {}, ROUNDS = {rounds};", self.width)?,
            None => writeln!(text, "constexpr u32 WIDTH = {};", self.width)?,
        }
        writeln!(text, "}}  // namespace\n\nTEAM_KERNEL({NAME}, Fused) {{")?;
        self.write_scalars(text)?;
        writeln!(text, "  const u64 size = args.row_size;")?;
        writeln!(text, "  const Range rows = block_range(args.space.count / size, args.chunk);")?;
        writeln!(text, "  for (u64 row = rows.begin; row < rows.end; ++row) {{")?;
        writeln!(text, "    const Index at = Index(row * size);")?;
        self.write_pointers(text)?;
        if self.rounds().is_some() {
            self.write_held(text)?;
        }
        self.write_passes(text)?;
        for n in (0..self.args.output_count as usize).filter(|&n| self.is_row_output(n)) {
            let to = format!("static_cast<T*>(args.outputs[{n}])[row]");
            let made = self.args.made[n];
            writeln!(text, "    each_lane([&] {{ if (threadIdx.x == 0) {to} = s{made}; }});")?;
        }
        writeln!(text, "  }}\n}}")
    }

    fn is_row_output(&self, n: usize) -> bool {
        self.is_row(self.args.made[n] as usize)
    }

    fn write_scalars(&self, text: &mut String) -> std::fmt::Result {
        let used = (0..MAX_SCALARS).filter(|&n| self.uses((MAX_FUSED_INPUTS + n) as u32));
        used.into_iter().try_for_each(|n| writeln!(text, "  const T c{n} = scalar<T>(args, {n});"))
    }

    /// Where the row begins in each operand; of inputs that are the same all along it, the value.
    fn write_pointers(&self, text: &mut String) -> std::fmt::Result {
        if self.args.strided != 0 {
            self.write_indices(text)?;
        }
        for n in 0..self.args.input_count as usize {
            let (dtype, from) = (self.type_of(n), self.from(n));
            match self.run(n) {
                Run::One => writeln!(text, "    const {dtype} x{n} = *({from});")?,
                _ => writeln!(text, "    const {dtype}* const from{n} = {from};")?,
            }
        }
        let outputs = (0..self.args.output_count as usize).filter(|&n| !self.is_row_output(n));
        outputs
            .into_iter()
            .try_for_each(|n| writeln!(text, "    T* const to{n} = static_cast<T*>(args.outputs[{n}]) + at;"))
    }

    /// What a thread keeps of its elements. What it does not need is in no register.
    fn write_held(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "    struct Held {{")?;
        for n in (0..self.args.input_count as usize).filter(|&n| self.run(n) != Run::One) {
            writeln!(text, "      {} x{n}[ROUNDS][V];", self.type_of(n))?;
        }
        for (n, _) in self.steps().filter(|&(n, _)| !self.is_row(n)) {
            writeln!(text, "      T s{n}[ROUNDS][V];")?;
        }
        writeln!(text, "    }};\n    Kept<Held> kept;")
    }

    /// The steps, in order: those of elements together, up to the next reduction of a row.
    fn write_passes(&self, text: &mut String) -> std::fmt::Result {
        let (mut done, mut is_first, count) = (0, true, self.args.step_count as usize);
        for (n, &[code, a, b, c]) in self.steps().filter(|&(n, _)| self.is_row(n)) {
            let StepKind::Row(kind) = StepKind::of_code(code) else {
                let values = [a, b, c].map(|place| self.value_in_row(place));
                writeln!(text, "    const T s{n} = {};", step_text(code, values, n))?;
                continue;
            };
            match self.rounds() {
                Some(_) => {
                    self.write_held_pass(text, done..n, is_first)?;
                    (done, is_first) = (n, false);
                }
                None => self.write_pass(text, n, Some(a))?,
            }
            let reduced = if kind == Reduce::Max { "Largest" } else { "Sum" };
            let total = match self.rounds() {
                Some(_) => {
                    let value = format!("C(widen({}))", self.value_in_row(a));
                    let load = "UNROLLED for (u32 k = 0; k < V; ++k)";
                    format!(
                        "reduce_held<T, {reduced}, V, ROUNDS>(size, [&](u32 r, Compute<T>* to) {{\n      typedef Compute<T> C;\n      \
                         Held& held = kept();\n      {load} to[k] = {value};\n    }})"
                    )
                }
                None => format!("reduce_made<T, {reduced}, WIDTH>(size, make{n})"),
            };
            let total = match kind {
                Reduce::Mean => format!("Div::f({total}, Compute<T>(size))"),
                _ => total,
            };
            writeln!(text, "    const T s{n} = narrow<T>({total});")?;
        }
        match self.rounds() {
            Some(_) => self.write_held_pass(text, done..count, is_first),
            None => self.write_pass(text, count, None),
        }
    }

    /// These steps of the elements that a thread keeps. The first pass reads, the last one writes.
    fn write_held_pass(&self, text: &mut String, steps: Range<usize>, is_first: bool) -> std::fmt::Result {
        let is_last = steps.end == self.args.step_count as usize;
        writeln!(text, "    each_lane([&] {{\n      Held& held = kept();")?;
        writeln!(text, "      UNROLLED for (u32 r = 0; r < ROUNDS; ++r) {{")?;
        writeln!(
            text,
            "        const u32 k0 = (r * TEAM + threadIdx.x) * V;\n        if (k0 >= size) continue;"
        )?;
        if is_first {
            for n in (0..self.args.input_count as usize).filter(|&n| self.run(n) != Run::One) {
                writeln!(text, "        {};", self.read_in_row(n, &format!("held.x{n}[r]")))?;
            }
        }
        self.write_draws_in_row(text, steps.clone())?;
        writeln!(text, "        UNROLLED for (u32 k = 0; k < V; ++k) {{")?;
        for (n, &[code, a, b, c]) in self.steps().filter(|&(n, _)| steps.contains(&n) && !self.is_row(n)) {
            let values = [a, b, c].map(|place| self.value_in_row(place));
            writeln!(text, "          held.s{n}[r][k] = {};", step_text(code, values, n))?;
        }
        writeln!(text, "        }}")?;
        for n in (0..self.args.output_count as usize).filter(|&n| is_last && !self.is_row_output(n)) {
            writeln!(text, "        write_row<V>(to{n} + k0, held.s{}[r]);", self.args.made[n])?;
        }
        writeln!(text, "      }}\n    }});")
    }

    /// The steps before `end`, computed anew: to be reduced to the value of step `end`, or to be written.
    fn write_pass(&self, text: &mut String, end: usize, reduced: Option<u8>) -> std::fmt::Result {
        let args = self.args;
        match reduced {
            Some(_) => writeln!(text, "    const auto make{end} = [&](auto width, u64 k0, T* made) {{")?,
            None => writeln!(text, "    each_of_row<WIDTH>(size, [&](auto width, u64 k0) {{")?,
        }
        writeln!(text, "      constexpr u32 V = decltype(width)::value;")?;
        for n in (0..args.input_count as usize).filter(|&n| self.run(n) != Run::One) {
            writeln!(
                text,
                "      {} x{n}[V];\n      {};",
                self.type_of(n),
                self.read_in_row(n, &format!("x{n}"))
            )?;
        }
        self.write_draws_in_row(text, 0..end)?;
        let written =
            || (0..args.output_count as usize).filter(|&n| reduced.is_none() && !self.is_row_output(n));
        written().try_for_each(|n| writeln!(text, "      T y{n}[V];"))?;
        writeln!(text, "      UNROLLED for (u32 k = 0; k < V; ++k) {{")?;
        for (n, &[code, a, b, c]) in self.steps().filter(|&(n, _)| n < end && !self.is_row(n)) {
            let values = [a, b, c].map(|place| self.value_in_row(place));
            writeln!(text, "        const T s{n} = {};", step_text(code, values, n))?;
        }
        written().try_for_each(|n| writeln!(text, "        y{n}[k] = s{};", args.made[n]))?;
        if let Some(place) = reduced {
            writeln!(text, "        made[k] = {};", self.value_in_row(place))?;
        }
        writeln!(text, "      }}")?;
        written().try_for_each(|n| writeln!(text, "      write_row<V>(to{n} + k0, y{n});"))?;
        writeln!(text, "    }}{};", if reduced.is_some() { "" } else { ")" })
    }

    /// Reads `V` elements of an input from `k0` on.
    fn read_in_row(&self, n: usize, to: &str) -> String {
        let step = if self.run(n) == Run::Strided {
            format!(" * args.space.strides[{n}][0]")
        } else {
            String::new()
        };
        self.read(n, to, &format!("from{n} + i64(k0){step}"))
    }

    fn write_draws_in_row(&self, text: &mut String, steps: Range<usize>) -> std::fmt::Result {
        self.draws().filter(|(n, _)| steps.contains(n)).try_for_each(|(n, [threshold, key])| {
            let words = format!("args.scalars[{threshold}], args.scalars[{key}]");
            writeln!(text, "      T d{n}[V];\n      draw_row<V>(d{n}, {words}, u64(at) + k0);")
        })
    }

    /// A value of the element `k` of a vector, or of the row.
    fn value_in_row(&self, place: u8) -> String {
        let of = |name: String| match self.rounds() {
            Some(_) => format!("held.{name}[r][k]"),
            None => name,
        };
        let place = usize::from(place);
        match place.checked_sub(MAX_FUSED_INPUTS) {
            None if self.run(place) == Run::One => format!("x{place}"),
            None if self.rounds().is_some() => of(format!("x{place}")),
            None => format!("x{place}[k]"),
            Some(scalar) if scalar < MAX_SCALARS => format!("c{scalar}"),
            Some(step) if self.is_row(step - MAX_SCALARS) => format!("s{}", step - MAX_SCALARS),
            Some(step) => of(format!("s{}", step - MAX_SCALARS)),
        }
    }

    /// Whether a step makes one value for each row.
    fn is_row(&self, step: usize) -> bool {
        self.args.row_steps >> step & 1 == 1
    }
}
