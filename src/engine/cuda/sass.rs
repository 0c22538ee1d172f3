//! What machine code says of kernels, read from the text of `cuobjdump`: registers and stack, instructions, loops, loads and stores. For
//! `scripts/check-sass`.
//!
//! *Loops* are found by branches to a lower address: a loop is what lies between the two, and loops that overlap are one, so that only
//! outermost loops are left. The *main loop* is one that stores to global memory; if there is none, one that loads from it; if there is
//! none either, the whole body. Of several, as where a kernel has a way of its own for elements that lie in order, it is the one with
//! the fewest instructions an element.
//!
//! *Instructions* are those that lie in it, each once: those of all branches, whichever is taken, an inner loop's as if it ran once, and
//! none of functions that are called. Fillings do not count.
//!
//! *Elements* are what one turn stores, by the widths of its stores, those of all branches; of a loop without stores, what it loads. An
//! element has the bytes of the kernel's widest type, or of its narrowest store (or load) where that is less: kernels have a way that
//! takes single elements.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Instructions that load from global memory, or that store to it, by bytes of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses(BTreeMap<u32, usize>);

impl Accesses {
    /// Of one kind (`LDG` or `STG`) among instructions.
    fn of<'a>(kind: &str, code: impl IntoIterator<Item = &'a Instruction<'a>>) -> Self {
        let mut accesses = Accesses::default();
        for operation in code.into_iter().map(Instruction::operation) {
            let mut parts = operation.split('.');
            if parts.next() == Some(kind) {
                *accesses.0.entry(bytes(parts)).or_default() += 1;
            }
        }
        accesses
    }

    /// How many instructions.
    pub fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// How many of them move 128 bits for each thread.
    pub fn of_128_bits(&self) -> usize {
        self.0.get(&16).copied().unwrap_or_default()
    }

    fn narrowest(&self) -> Option<u32> {
        self.0.keys().next().copied()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(&bytes, count)| bytes as usize * count).sum()
    }
}

/// What an access with these modifiers moves for a thread.
fn bytes<'a>(modifiers: impl Iterator<Item = &'a str>) -> u32 {
    let width = |modifier| match modifier {
        "U8" | "S8" => Some(1),
        "U16" | "S16" => Some(2),
        "64" => Some(8),
        "128" => Some(16),
        "256" => Some(32),
        _ => None,
    };
    modifiers.filter_map(width).next().unwrap_or(4)
}

/// What a kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: usize,
    /// Local memory of a thread.
    pub stack_bytes: usize,
    /// Shared memory of a block.
    pub shared_bytes: usize,
}

/// A kernel's main loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainLoop {
    /// Instructions in it.
    pub instructions: usize,
    /// Elements that a turn stores, or loads; one for a body that does neither.
    pub elements: usize,
}

impl MainLoop {
    fn of(code: &[Instruction], kind: &str, element_bytes: u32) -> Self {
        let elements = Accesses::of(kind, code).bytes() / element_bytes.max(1) as usize;
        MainLoop { instructions: code.iter().filter(|at| at.is_work()).count(), elements: elements.max(1) }
    }

    /// Instructions for an element.
    pub fn per_element(&self) -> f64 {
        self.instructions as f64 / self.elements as f64
    }
}

/// A kernel's machine code.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// What it takes.
    pub resources: Resources,
    /// All its instructions, with those of functions that it calls.
    pub instructions: usize,
    /// What it does for its elements.
    pub main_loop: MainLoop,
    /// From global memory.
    pub loads: Accesses,
    /// To global memory.
    pub stores: Accesses,
}

/// The kernels in what `cuobjdump -res-usage -sass` says; `widest_bytes` are those of an element of a kernel's widest type.
pub fn read(text: &str, widest_bytes: impl Fn(&str) -> usize) -> BTreeMap<String, Figures> {
    let resources = resources(text);
    let bodies = text.split("Function : ").skip(1);
    let named = bodies.filter_map(|body| body.split_once('\n'));
    named
        .map(|(name, body)| {
            let name = name.trim();
            let code: Vec<Instruction> = body.lines().filter_map(Instruction::read).collect();
            let resources = resources.get(name).copied().unwrap_or_default();
            (name.to_string(), figures(&code, resources, widest_bytes(name) as u32))
        })
        .collect()
}

fn figures(code: &[Instruction], resources: Resources, widest_bytes: u32) -> Figures {
    let (loads, stores) = (Accesses::of("LDG", code), Accesses::of("STG", code));
    let bytes_of = |accesses: &Accesses| accesses.narrowest().unwrap_or(widest_bytes).min(widest_bytes);
    let kinds = [("STG", bytes_of(&stores)), ("LDG", bytes_of(&loads))];
    let loops: Vec<&[Instruction]> = loops(code).into_iter().map(|range| &code[range]).collect();
    let touching = |parts: &[&[Instruction]]| {
        kinds.into_iter().find_map(|(kind, element_bytes)| {
            let parts = parts.iter().filter(|part| Accesses::of(kind, **part).count() > 0);
            parts
                .map(|part| MainLoop::of(part, kind, element_bytes))
                .min_by(|a, b| a.per_element().total_cmp(&b.per_element()))
        })
    };
    let body = || touching(&[code]).unwrap_or_else(|| MainLoop::of(code, "STG", widest_bytes));
    let main_loop = touching(&loops).unwrap_or_else(body);
    let instructions = code.iter().filter(|at| at.is_work()).count();
    Figures { resources, instructions, main_loop, loads, stores }
}

/// Where the outermost loops are among the instructions.
fn loops(code: &[Instruction]) -> Vec<RangeInclusive<usize>> {
    let back = |(end, at): (usize, &Instruction)| {
        let target = at.branch().filter(|&target| target < at.address)?;
        let start = code.binary_search_by_key(&target, |instruction| instruction.address).ok()?;
        Some((start, end))
    };
    let mut branches: Vec<(usize, usize)> = code.iter().enumerate().filter_map(back).collect();
    branches.sort_unstable();
    let mut loops: Vec<RangeInclusive<usize>> = Vec::new();
    for (start, end) in branches {
        match loops.last_mut() {
            Some(last) if start <= *last.end() => *last = *last.start()..=end.max(*last.end()),
            _ => loops.push(start..=end),
        }
    }
    loops
}

/// The lines `Function NAME:` and below each `REG:24 STACK:0 SHARED:0 ..`.
fn resources(text: &str) -> BTreeMap<&str, Resources> {
    let named = text.split("Function ").skip(1).filter_map(|part| part.split_once(":\n"));
    named
        .filter_map(|(name, rest)| {
            let line = rest.lines().next()?;
            let figure = |key: &str| {
                let mut words = line.split_whitespace().filter_map(|word| word.split_once(':'));
                words.find(|(word, _)| *word == key)?.1.parse().ok()
            };
            let (registers, stack_bytes, shared_bytes) =
                (figure("REG")?, figure("STACK")?, figure("SHARED")?);
            Some((name, Resources { registers, stack_bytes, shared_bytes }))
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Instruction<'a> {
    address: u64,
    /// Without what it is conditional on.
    text: &'a str,
}

impl<'a> Instruction<'a> {
    /// From a line such as `/*01a0*/  @!P0 BRA 0x650 ;  /* 0x0000000400288947 */`.
    fn read(line: &'a str) -> Option<Self> {
        let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let text = rest.split_once(';')?.0.trim();
        let text = match text.strip_prefix('@') {
            Some(conditional) => conditional.split_once(char::is_whitespace)?.1.trim_start(),
            None => text,
        };
        Some(Instruction { address, text })
    }

    fn operation(&self) -> &'a str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// Where it goes to, if it is a branch within the kernel.
    fn branch(&self) -> Option<u64> {
        let is_branch = self.operation().split('.').next() == Some("BRA");
        let target = self.text.split_whitespace().last().filter(|_| is_branch)?;
        u64::from_str_radix(target.strip_prefix("0x")?, 16).ok()
    }

    /// Whether it is none of those that fill up the end.
    fn is_work(&self) -> bool {
        self.operation() != "NOP" && self.branch() != Some(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `cuobjdump` writes it, with a second line of each instruction's code.
    fn dump(name: &str, lines: &[&str]) -> String {
        let code: String = (lines.iter().enumerate())
            .map(|(at, line)| {
                let address = at * 16;
                format!("        /*{address:04x}*/    {line} ;   /* 0x1 */\n             /* 0x000fe2 */\n")
            })
            .collect();
        format!(
            "\nResource usage:\n Common:\n  GLOBAL:15 CONSTANT[4]:48\n Function {name}:\n  REG:26 STACK:16 SHARED:1024 LOCAL:0 \
             CONSTANT[0]:856\n\n\tcode for sm_90\n\t.target\tsm_90\n\n\t\tFunction : {name}\n\t.headerflags\t@\"EF_CUDA_SM90\"\n{code}\
             \t\t..........\n"
        )
    }

    fn figures_of(lines: &[&str], widest_bytes: usize) -> Figures {
        let mut found = read(&dump("add_f32", lines), |_| widest_bytes);
        assert_eq!(found.len(), 1);
        found.remove("add_f32").expect("the kernel has its name")
    }

    #[test]
    fn resources_are_read() {
        let found = figures_of(&["EXIT"], 4);
        let expected = Resources { registers: 26, stack_bytes: 16, shared_bytes: 1024 };
        assert_eq!(found.resources, expected);
        assert_eq!(found.instructions, 1);
    }

    #[test]
    fn the_main_loop_stores() {
        let found = figures_of(
            &[
                "MOV R1, c[0x0][0x28]",
                "LDG.E R2, desc[UR4][R2.64]",
                "@!P0 BRA 0x10",
                "LDG.E.128 R4, desc[UR4][R2.64]",
                "STG.E.128 desc[UR4][R2.64], R4",
                "@P0 BRA P2, 0x30",
                "EXIT",
                "BRA 0x70",
                "NOP",
            ],
            4,
        );
        assert_eq!(found.main_loop, MainLoop { instructions: 3, elements: 4 });
        assert_eq!(found.instructions, 7);
        assert_eq!((found.loads.count(), found.loads.of_128_bits()), (2, 1));
        assert_eq!((found.stores.count(), found.stores.of_128_bits()), (1, 1));
    }

    #[test]
    fn loops_that_overlap_are_one_and_the_best_is_taken() {
        let found = figures_of(
            &[
                "IADD3 R0, R0, 0x1, RZ",
                "STG.E.U16 desc[UR4][R2.64], R4",
                "@P0 BRA 0x10",
                "IADD3 R0, R0, 0x1, RZ",
                "@!UP0 BRA 0x0",
                "STG.E.64 desc[UR4][R2.64], R4",
                "@P0 BRA 0x50",
                "EXIT",
            ],
            2,
        );
        // Of the loops with five instructions for one element, and two for four.
        assert_eq!(found.main_loop, MainLoop { instructions: 2, elements: 4 });
    }

    #[test]
    fn without_stores_loads_count_and_without_loops_the_body() {
        let loads = ["LDG.E.64 R2, desc[UR4][R2.64]", "BRA 0x0", "STG.E desc[UR4][R2.64], R4", "EXIT"];
        assert_eq!(figures_of(&loads, 8).main_loop, MainLoop { instructions: 2, elements: 1 });
        let body = ["LDG.E R2, desc[UR4][R2.64]", "STG.E.64 desc[UR4][R2.64], R4", "EXIT", "BRA 0x30"];
        assert_eq!(figures_of(&body, 4).main_loop, MainLoop { instructions: 3, elements: 2 });
        let nothing = ["MOV R1, R2", "EXIT"];
        assert_eq!(figures_of(&nothing, 4).main_loop, MainLoop { instructions: 2, elements: 1 });
    }

    #[test]
    fn the_narrowest_store_is_an_element_where_types_are_wider() {
        let compare = ["STG.E.U8 desc[UR4][R2.64], R4", "BRA 0x0", "STG.E desc[UR4][R2.64], R4", "BRA 0x20"];
        assert_eq!(figures_of(&compare, 8).main_loop, MainLoop { instructions: 2, elements: 4 });
    }
}
