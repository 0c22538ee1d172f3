//! What a program holds, in words, and what would help.

use std::collections::BTreeMap;
use std::fmt;

use super::{Category, HeldGroup, Holding, MemoryUse};
use crate::report::modules::of_layers;
use crate::report::text::{LEFT, RIGHT, write_list, write_paragraph, write_table};
use crate::report::units::{count, share, size};

/// The most groups, and modules, that are listed.
const MAX_LISTED: usize = 12;

/// What is smaller than this part of the peak gets no advice.
const SMALLEST_PART: usize = 50;

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_module = self.peak_module.as_ref().map_or(String::new(), |module| format!(" of {module}"));
        let holds = format!(
            "The program holds at most {} at once, at the op {}{of_module}{}.",
            size(self.peak_bytes),
            self.peak_op,
            match self.iteration_ops {
                Some(ops) => format!(", in iteration {} of {} ops each", self.iteration, count(ops)),
                None => "; most of it does not repeat".into(),
            }
        );
        write_paragraph(f, holds)?;
        let held = Holding::ALL.map(|held| (self.bytes_held(held), held.in_words().to_string()));
        self.parts(f, held.into_iter().filter(|(bytes, _)| *bytes > 0))?;
        self.by_category(f)?;
        self.by_op(f)?;
        self.by_module(f)?;
        self.advise(f)
    }
}

impl HeldGroup {
    /// Why it is held, or what it is in training if that says more.
    fn why(&self) -> &'static str {
        match (self.held, self.category) {
            (Holding::State, Some(Category::Parameter)) => "parameter",
            (Holding::State, Some(Category::OptimizerState)) => "optimizer",
            (Holding::NeededAgain, Some(Category::Gradient)) => "gradient",
            (held, _) => held.in_a_word(),
        }
    }
}

impl MemoryUse {
    fn part(&self, bytes: usize) -> String {
        share(bytes as f64, self.peak_bytes as f64)
    }

    fn by_category(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let categories = Category::ALL.map(|category| (self.bytes_of(category), category.in_words()));
        let held: Vec<String> = (categories.iter().filter(|(bytes, _)| *bytes > 0))
            .map(|(bytes, name)| format!("{} of {name}", size(*bytes)))
            .collect();
        if held.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        write_paragraph(f, format!("Of this: {}.", held.join(", ")))
    }

    /// Groups with the same words, the most bytes first. Layers that are alike are one.
    fn rows(&self) -> Vec<((&'static str, &str, String), usize, usize)> {
        let mut rows = BTreeMap::new();
        for group in &self.groups {
            let module = group.module.as_deref().map(of_layers).unwrap_or_default();
            let (times, bytes) = rows.entry((group.why(), group.made_by.as_str(), module)).or_insert((0, 0));
            (*times, *bytes) = (*times + group.count, *bytes + group.bytes);
        }
        let mut rows: Vec<_> = rows.into_iter().map(|(row, (times, bytes))| (row, times, bytes)).collect();
        rows.sort_by_key(|&(_, _, bytes)| std::cmp::Reverse(bytes));
        rows
    }

    /// Writes parts of the memory, with words for each.
    fn parts(&self, f: &mut fmt::Formatter<'_>, parts: impl Iterator<Item = (usize, String)>) -> fmt::Result {
        let rows = parts.map(|(bytes, words)| [size(bytes), self.part(bytes), words]);
        write_table(f, [RIGHT, RIGHT, LEFT], rows)
    }

    fn by_op(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        let head = ["held", "", "times", "why", "made by", "module"].map(String::from);
        let all = self.rows();
        let (listed, rest) = all.split_at(all.len().min(MAX_LISTED));
        let rows = listed.iter().map(|((why, made_by, module), times, bytes)| {
            let (held, part) = (size(*bytes), self.part(*bytes));
            [held, part, count(*times), why.to_string(), made_by.to_string(), module.clone()]
        });
        let more = (!rest.is_empty()).then(|| {
            let bytes = rest.iter().map(|(_, _, bytes)| bytes).sum();
            let times = rest.iter().map(|(_, times, _)| times).sum();
            let kinds = format!("{} more kinds", rest.len());
            [size(bytes), self.part(bytes), count(times), String::new(), kinds, String::new()]
        });
        let alignments = [RIGHT, RIGHT, RIGHT, LEFT, LEFT, LEFT];
        write_table(f, alignments, std::iter::once(head).chain(rows).chain(more))
    }

    /// What each module holds for the backward pass.
    fn by_module(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modules = self.needed_by_module();
        if modules.is_empty() {
            return Ok(());
        }
        let all = modules.len();
        let mut named: BTreeMap<String, usize> = BTreeMap::new();
        for (module, bytes) in modules {
            let name = if all > MAX_LISTED { of_layers(module) } else { module.into() };
            *named.entry(name).or_default() += bytes;
        }
        let mut modules: Vec<(String, usize)> = named.into_iter().collect();
        modules.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        writeln!(f, "\nWhat is needed again, by module:")?;
        let (listed, rest) = modules.split_at(modules.len().min(MAX_LISTED));
        let rest_bytes = rest.iter().map(|(_, bytes)| bytes).sum();
        let more = (!rest.is_empty()).then(|| (rest_bytes, format!("in {} more modules", rest.len())));
        self.parts(f, listed.iter().map(|(module, bytes)| (*bytes, module.clone())).chain(more))
    }

    fn needed(&self) -> impl Iterator<Item = &HeldGroup> {
        self.groups.iter().filter(|group| group.held == Holding::NeededAgain)
    }

    fn needed_by_module(&self) -> BTreeMap<&str, usize> {
        let mut modules = BTreeMap::new();
        for group in self.needed() {
            if let Some(module) = &group.module {
                *modules.entry(module.as_str()).or_default() += group.bytes;
            }
        }
        modules
    }

    /// The largest group that is held for this reason, for people.
    fn largest(&self, held: Holding) -> String {
        let Some(group) = self.groups.iter().find(|group| group.held == held) else { return String::new() };
        let module = group.module.as_ref().map_or(String::new(), |module| format!(" of {module}"));
        format!("most by {}{module}", group.made_by)
    }

    fn advise(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut advice = Vec::new();
        let [needed, idle, leaked] =
            [Holding::NeededAgain, Holding::Idle, Holding::Leaked].map(|held| self.bytes_held(held));
        let is_worth = |bytes: usize| bytes > self.peak_bytes / SMALLEST_PART;
        if is_worth(leaked) {
            advice.push(format!(
                "{} are leaked, {}: drop these tensors, or take their values out (`into_scalar`, `into_data`) where you collect them.",
                size(leaked),
                self.largest(Holding::Leaked)
            ));
        }
        if is_worth(idle) {
            advice.push(format!(
                "{} are idle, {}: if they are of a forward pass that no backward pass follows, run it on the inner backend \
                 (`Module::valid`), since Burn keeps its values until the next backward pass; else drop them earlier.",
                size(idle),
                self.largest(Holding::Idle)
            ));
        }
        if is_worth(needed) {
            advice.extend(self.advice_for_needed(needed));
        }
        if advice.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nWhat would help:")?;
        write_list(f, advice)
    }

    /// What makes less be needed again.
    fn advice_for_needed(&self, needed: usize) -> Vec<String> {
        let mut advice = vec![
            "A smaller budget: what is needed again may leave device memory. --budget 50% tells at what cost."
                .to_string(),
            format!("Half the batch: about {} less.", size(needed / 2)),
        ];
        let cheap_bytes: usize = self.needed().filter(|group| group.is_cheap).map(|group| group.bytes).sum();
        if cheap_bytes > 0 {
            advice.push(format!(
                "The backend MemorySaving<Overcommit>, and layers of `autodiff::nn`: up to {} less, which ops make that are cheap to \
                 repeat.",
                size(cheap_bytes)
            ));
        }
        let modules = self.needed_by_module();
        let (all, largest) = (modules.values().sum::<usize>(), modules.values().max().copied().unwrap_or(0));
        if modules.len() > 1 {
            advice.push(format!(
                "`autodiff::checkpoint` around each module: up to {} less, if only the inside of the largest is there at once.",
                size(all - largest)
            ));
        }
        advice.push(format!(
            "An encoding, if results may change: the policy `gist` in half the bits takes up to {} less.",
            size(needed / 2)
        ));
        advice
    }
}
