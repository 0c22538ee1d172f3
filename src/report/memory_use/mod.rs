//! What a program holds at its peak, who made it, what of it is of no use, and what would help.

mod category;
mod holding;
mod lives;
mod words;

use std::collections::HashMap;

use self::category::Categories;
pub use self::category::Category;
pub(super) use self::category::of_storages;
pub use self::holding::Holding;
use self::lives::{Life, Lives};
use crate::trace::Program;

/// Storages that ops of one kind made in one module, and that are held for one reason. See [`MemoryUse`] for an example.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct HeldGroup {
    /// The [module](crate::module) that made them, or for an op of a backward pass the one whose values it read.
    pub module: Option<String>,
    /// The op that made them.
    pub made_by: String,
    /// Why they are held.
    pub held: Holding,
    /// What they are in training, if the program [names](crate::module) its parameters.
    pub category: Option<Category>,
    /// Whether they take few operations to be made again.
    pub is_cheap: bool,
    /// Their number.
    pub count: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// What a program holds when it holds the most. It follows the program's requests alone: as if nothing were evicted, by exact
/// sizes, and without workspaces. `Display` prints it with advice.
///
/// ```
/// use burn_overcommit::report::{Holding, MemoryUse};
/// use burn_overcommit::trace::Program;
///
/// let holds = MemoryUse::of(&Program::default());
/// assert_eq!((holds.peak_bytes, holds.bytes_held(Holding::Leaked)), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The most bytes that it holds at once. If it has iterations, the last one is left out, since nobody knows what comes after.
    pub peak_bytes: usize,
    /// The op that runs then.
    pub peak_op: String,
    /// Its module.
    pub peak_module: Option<String>,
    /// The number of ops of an iteration, if most of the program repeats.
    pub iteration_ops: Option<usize>,
    /// The number of the iteration, from 1.
    pub iteration: usize,
    /// What is held, the most bytes first.
    pub groups: Vec<HeldGroup>,
}

impl MemoryUse {
    /// What this program holds.
    pub fn of(program: &Program) -> Self {
        let lives = Lives::of(program);
        let iterations = program.iterations();
        let ops = lives.ops.len();
        let known = ops - iterations.map_or(0, |of| of.ops);
        let Some(peak) = (0..known).max_by_key(|&op| (lives.live_bytes[op], op)) else {
            return MemoryUse::default();
        };
        let held: Vec<(&Life, Holding)> = lives
            .of
            .iter()
            .filter(|life| life.is_held_at(peak))
            .map(|life| (life, life.held_at(peak, iterations, ops)))
            .collect();
        let categories = Categories::of(&lives, iterations);
        MemoryUse {
            peak_bytes: lives.live_bytes[peak],
            peak_op: lives.ops[peak].name.to_string(),
            peak_module: lives.modules[peak].map(String::from),
            iteration_ops: iterations.map(|of| of.ops).or(program.loops.then_some(ops)),
            iteration: iterations.map_or(1, |of| peak.saturating_sub(of.since) / of.ops + 1),
            groups: grouped(&held, |life| categories.as_ref()?.category(life)),
        }
    }

    /// Bytes that are held for this reason.
    pub fn bytes_held(&self, held: Holding) -> usize {
        self.groups.iter().filter(|group| group.held == held).map(|group| group.bytes).sum()
    }

    /// Bytes of this category that are held; 0 if the program does not [name](crate::module) its parameters.
    pub fn bytes_of(&self, category: Category) -> usize {
        self.groups.iter().filter(|group| group.category == Some(category)).map(|group| group.bytes).sum()
    }
}

fn grouped(held: &[(&Life, Holding)], category: impl Fn(&Life) -> Option<Category>) -> Vec<HeldGroup> {
    let kind = |life: &Life| (life.module.clone(), life.made_by.clone(), life.bytes);
    let leaked: Vec<_> =
        held.iter().filter(|(_, held)| *held == Holding::Leaked).map(|(life, _)| kind(life)).collect();
    let mut groups: HashMap<_, (usize, usize)> = HashMap::new();
    for &(life, mut held) in held {
        // What is leaked in each iteration is so in the last ten, too.
        if held == Holding::Idle && leaked.contains(&kind(life)) {
            held = Holding::Leaked;
        }
        let key = (life.module.clone(), life.made_by.clone(), (held, category(life)), life.is_cheap);
        let (count, bytes) = groups.entry(key).or_default();
        (*count, *bytes) = (*count + 1, *bytes + life.bytes);
    }
    let group = |((module, made_by, (held, category), is_cheap), (count, bytes))| HeldGroup {
        module,
        made_by,
        held,
        category,
        is_cheap,
        count,
        bytes,
    };
    let mut groups: Vec<HeldGroup> = groups.into_iter().map(group).collect();
    let key = |group: &HeldGroup| {
        (group.module.clone(), group.made_by.clone(), group.held, group.category, group.is_cheap)
    };
    groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| key(a).cmp(&key(b))));
    groups
}
