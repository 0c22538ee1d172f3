//! What a kernel may take: by its name without types, for all architectures.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};

use crate::table::Row;

const HEADER: &str = "family,registers,stack_bytes,instructions_per_element";

/// The most of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Budget {
    registers: usize,
    stack_bytes: usize,
    /// In hundredths, rounded up.
    instructions_per_element: usize,
}

/// Registers that cost nothing: with so many, a multiprocessor still has all the threads that it can.
const FREE_REGISTERS: usize = 32;

/// Of every family.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Budgets(BTreeMap<String, Budget>);

impl Budget {
    fn of(row: &Row) -> Self {
        let (resources, main_loop) = (&row.figures.resources, &row.figures.main_loop);
        Budget {
            registers: resources.registers,
            stack_bytes: resources.stack_bytes,
            instructions_per_element: (main_loop.instructions * 100).div_ceil(main_loop.elements),
        }
    }

    /// Its parts, by their names, with those that are in hundredths.
    fn parts(&self) -> [(&'static str, usize, usize); 3] {
        [
            ("registers", self.registers, 1),
            ("bytes of stack", self.stack_bytes, 1),
            ("instructions an element", self.instructions_per_element, 100),
        ]
    }

    fn most(self, other: Budget) -> Budget {
        Budget {
            registers: self.registers.max(other.registers),
            stack_bytes: self.stack_bytes.max(other.stack_bytes),
            instructions_per_element: self.instructions_per_element.max(other.instructions_per_element),
        }
    }

    fn parse(columns: &[&str]) -> Option<Budget> {
        let [registers, stack_bytes, instructions_per_element] = columns else { return None };
        let (whole, part) = instructions_per_element.split_once('.')?;
        Some(Budget {
            registers: registers.parse().ok()?,
            stack_bytes: stack_bytes.parse().ok()?,
            instructions_per_element: whole.parse::<usize>().ok()? * 100 + part.parse::<usize>().ok()?,
        })
    }
}

impl Budgets {
    /// Today's worst of each family.
    pub fn of(rows: &[Row]) -> Self {
        let mut budgets = BTreeMap::<String, Budget>::new();
        for row in rows {
            let budget = budgets.entry(row.family.clone()).or_default();
            *budget = budget.most(Budget::of(row));
        }
        Budgets(budgets)
    }

    /// From a table, as they are written.
    pub fn parse(text: &str) -> Result<Self> {
        let budget = |line: &str| {
            let columns: Vec<&str> = line.split(',').collect();
            let budget = Budget::parse(&columns[1..]).with_context(|| format!("no budget: {line}"))?;
            Ok((columns[0].to_string(), budget))
        };
        text.lines().skip(1).map(budget).collect::<Result<_>>().map(Budgets)
    }

    /// What a kernel has more of than it may.
    pub fn exceeded(&self, row: &Row) -> Vec<String> {
        let Some(&budget) = self.0.get(&row.family) else {
            return vec![format!("{} has no budget; --write makes one of what it has", row.family)];
        };
        let budget = Budget { registers: budget.registers.max(FREE_REGISTERS), ..budget };
        let parts = Budget::of(row).parts().into_iter().zip(budget.parts());
        let exceeded = parts.filter(|((_, has, _), (_, may, _))| has > may);
        let text = |((name, has, scale), (_, may, _)): ((&str, usize, usize), (&str, usize, usize))| {
            let figure = |value: usize| value as f64 / scale as f64;
            format!("{} {name}, may have {}", figure(has), figure(may))
        };
        exceeded.map(text).collect()
    }
}

impl fmt::Display for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (family, budget) in &self.0 {
            let Budget { registers, stack_bytes, instructions_per_element: hundredths } = budget;
            let (whole, part) = (hundredths / 100, hundredths % 100);
            writeln!(f, "{family},{registers},{stack_bytes},{whole}.{part:02}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burn_overcommit::engine::cuda::sass::{Accesses, Figures, MainLoop, Resources};

    use super::*;

    fn row(kernel: &str, registers: usize, instructions: usize) -> Row {
        let figures = Figures {
            resources: Resources { registers, stack_bytes: 0, shared_bytes: 0 },
            instructions: 100,
            main_loop: MainLoop { instructions, elements: 3 },
            loads: Accesses::default(),
            stores: Accesses::default(),
        };
        let (kernel, family) = (kernel.to_string(), "add".to_string());
        Row { architecture: 90, kernel, family, figures, occupancy_percent: 100 }
    }

    #[test]
    fn budgets_are_the_worst_and_survive_being_written() {
        let rows = [row("add_f32", 24, 10), row("add_f64", 30, 5)];
        let budgets = Budgets::of(&rows);
        assert_eq!(budgets.to_string(), format!("{HEADER}\nadd,30,0,3.34\n"));
        assert_eq!(Budgets::parse(&budgets.to_string()).unwrap(), budgets);
        assert!(rows.iter().all(|row| budgets.exceeded(row).is_empty()));
    }

    #[test]
    fn what_is_beyond_is_told() {
        let budgets = Budgets::of(&[row("add_f32", 34, 10)]);
        let told = budgets.exceeded(&row("add_f16", 35, 11));
        assert_eq!(told, ["35 registers, may have 34", "3.67 instructions an element, may have 3.34"]);
        assert!(Budgets::default().exceeded(&row("add_f16", 1, 1))[0].contains("no budget"));
        assert!(Budgets::parse("family\nadd,1").is_err());
    }
}
