//! What a storage is in training, in the categories of PyTorch's profiler.

use std::collections::{HashMap, HashSet};

use super::lives::{Life, Lives};
use crate::trace::{Iterations, Program};

/// What a storage is in training. See [`MemoryUse`](super::MemoryUse) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// A parameter of the model.
    Parameter,
    /// The gradient of a parameter, or made of it for the optimizer's step.
    Gradient,
    /// State of the optimizer.
    OptimizerState,
    /// Made in the forward or the backward pass.
    Activation,
}

impl Category {
    /// All categories.
    pub const ALL: [Category; 4] =
        [Category::Parameter, Category::Gradient, Category::OptimizerState, Category::Activation];

    /// It in the plural, for people.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Category::Parameter => "parameters",
            Category::Gradient => "gradients",
            Category::OptimizerState => "optimizer state",
            Category::Activation => "activations",
        }
    }

    /// Its name in PyTorch's profiles.
    pub(in crate::report) fn name(self) -> &'static str {
        match self {
            Category::Parameter => "parameter",
            Category::Gradient => "gradient",
            Category::OptimizerState => "optimizer_state",
            Category::Activation => "activation",
        }
    }
}

/// How storages are told apart, in a program that names its parameters.
pub(super) struct Categories {
    /// The sizes of parameters.
    sizes: HashSet<usize>,
    /// The ops of the optimizer: those that read its state, and the last that read a parameter.
    optimizer: HashSet<usize>,
    iterations: Option<Iterations>,
    ops: usize,
}

impl Categories {
    /// `None` if the program names no parameter.
    pub fn of(lives: &Lives, iterations: Option<Iterations>) -> Option<Self> {
        let parameters = || lives.of.iter().filter(|life| life.is_parameter);
        parameters().next()?;
        let sizes = parameters().map(|life| life.bytes).collect();
        let mut categories =
            Categories { sizes, optimizer: HashSet::new(), iterations, ops: lives.ops.len() };
        let last_reads = parameters().filter_map(|life| life.reads.last().copied());
        let of_state = lives.of.iter().filter(|life| categories.is_optimizer_state(life));
        categories.optimizer =
            last_reads.chain(of_state.flat_map(|life| life.reads.iter().copied())).collect();
        Some(categories)
    }

    fn is_optimizer_state(&self, life: &Life) -> bool {
        !life.is_parameter && self.sizes.contains(&life.bytes) && life.is_state(self.iterations, self.ops)
    }

    /// The category of a storage; `None` if it is state of another kind, such as data.
    pub fn category(&self, life: &Life) -> Option<Category> {
        let is_like_parameter = self.sizes.contains(&life.bytes);
        let is_state = life.is_state(self.iterations, self.ops);
        let is_read_by_optimizer = || life.reads.iter().any(|read| self.optimizer.contains(read));
        match () {
            () if life.is_parameter => Some(Category::Parameter),
            () if is_state => is_like_parameter.then_some(Category::OptimizerState),
            () if is_like_parameter && is_read_by_optimizer() => Some(Category::Gradient),
            () => life.is_made().then_some(Category::Activation),
        }
    }
}

/// The categories of a program's storages, if it names its parameters.
pub(in crate::report) fn of_storages(program: &Program) -> HashMap<u64, Category> {
    let lives = Lives::of(program);
    let Some(categories) = Categories::of(&lives, program.iterations()) else { return HashMap::new() };
    let category = |life: &Life| Some((life.storage, categories.category(life)?));
    lives.of.iter().filter_map(category).collect()
}
