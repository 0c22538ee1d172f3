//! What a user chooses among.

use std::str::FromStr;

/// Whether results are the same bits whatever memory is free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exactness {
    /// One algorithm per shape: the same bits under every budget.
    #[default]
    Exact,
    /// Of the engine's algorithms for a convolution, the fastest whose workspace fits what is free, unless a policy's plan says
    /// otherwise. What is recomputed is so by the algorithm that made it.
    Fast,
}

/// When an iteration is planned, once the program has shown that it repeats. What is computed never depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Planning {
    /// By a thread beside the program, which goes on as before until the plan is there. On a simulation, whose clock stands
    /// still meanwhile, at once.
    #[default]
    Beside,
    /// While the program waits: every run then decides alike.
    AtOnce,
    /// Never.
    Off,
}

impl FromStr for Planning {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "beside" => Ok(Planning::Beside),
            "at-once" => Ok(Planning::AtOnce),
            "off" => Ok(Planning::Off),
            _ => Err(()),
        }
    }
}

/// How addresses in device memory are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// The smallest free range that is large enough.
    BestFit,
    /// Where a plan is followed, as it says, if it has addresses: those of SmartPool (Zhang et al., arXiv:1903.06631, section
    /// 3). Else by best fit.
    #[default]
    SmartPool,
}

impl FromStr for Placement {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "best-fit" => Ok(Placement::BestFit),
            "smartpool" => Ok(Placement::SmartPool),
            _ => Err(()),
        }
    }
}

impl FromStr for Exactness {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "exact" => Ok(Exactness::Exact),
            "fast" => Ok(Exactness::Fast),
            _ => Err(()),
        }
    }
}
