//! The command line.

use std::str::FromStr;

use burn_overcommit::Policy;
use bytesize::ByteSize;
use clap::{Parser, ValueEnum};

/// Trains a network in a quarter of the memory that burn-flex takes for it, then one four times deeper in the memory that burn-flex
/// takes for the first, and checks that neither differs by a bit from training with all the memory there is.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Residual blocks of the first network; the deeper one has four times as many.
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    pub depth: usize,
    /// Images a step learns from.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub batch: usize,
    /// Memory of the second run: bytes ("8 MiB") or a part of what a backend takes that stores the result of each op, such as
    /// burn-flex ("25%").
    #[arg(long, default_value = "25%")]
    pub budget: Budget,
    /// Passes over the images.
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub epochs: usize,
    /// How memory is regained: auto, tensor-cache, recompute or evict-all.
    #[arg(long, default_value_t)]
    pub policy: Policy,
    /// What computes: other backends are there if built with the features `flex` and `ndarray`. Of them only the loss, the accuracy and the time of a step are shown.
    #[arg(long, value_enum, default_value_t = BackendChoice::Overcommit)]
    pub backend: BackendChoice,
    /// Decides the weights, the dropout and the order of the images.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum BackendChoice {
    Overcommit,
    #[cfg(feature = "ndarray")]
    Ndarray,
    #[cfg(feature = "flex")]
    Flex,
}

/// An amount of memory, absolute or relative to a need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    Bytes(u64),
    Percent(f64),
}

impl Budget {
    /// The budget in bytes for a run that needs `need_bytes`.
    pub fn of(self, need_bytes: u64) -> u64 {
        match self {
            Budget::Bytes(bytes) => bytes,
            Budget::Percent(percent) => (need_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let budget = match text.strip_suffix('%') {
            Some(number) => {
                Budget::Percent(number.trim().parse().map_err(|_| format!("{text:?} is no percentage"))?)
            }
            None => Budget::Bytes(text.parse::<ByteSize>()?.as_u64()),
        };
        match budget {
            Budget::Bytes(0) => Err("a budget is more than nothing".into()),
            Budget::Percent(percent) if !(percent > 0.0 && percent.is_finite()) => {
                Err("a budget is more than nothing".into())
            }
            budget => Ok(budget),
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_or_percentages() {
        assert_eq!("8 MiB".parse(), Ok(Budget::Bytes(8 << 20)));
        assert_eq!("4096".parse(), Ok(Budget::Bytes(4096)));
        assert_eq!("12.5%".parse::<Budget>().map(|budget| budget.of(800)), Ok(100));
        for text in ["", "0", "0%", "-1%", "NaN%", "much"] {
            assert!(text.parse::<Budget>().is_err(), "{text:?}");
        }
    }
}
