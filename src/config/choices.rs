//! Settings that are a choice among a few values.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Whether results have the same bits however much memory is free.
///
/// ```
/// use burn_overcommit::{Config, Exactness, OvercommitDevice, configure};
///
/// configure(&OvercommitDevice::Host(0), Config::new().exactness(Exactness::Fast))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exactness {
    /// One algorithm per shape, with the same bits under every budget.
    #[default]
    Exact,
    /// The engine's fastest algorithm for a convolution whose workspace fits the free memory, unless a policy's plan says
    /// otherwise. A recomputation uses the algorithm of the first run.
    Fast,
}

/// When an iteration is planned, once the program has shown that it repeats. No result depends on this.
///
/// ```
/// use burn_overcommit::{Config, Planning, OvercommitDevice, configure};
///
/// configure(&OvercommitDevice::Host(0), Config::new().planning(Planning::AtOnce))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Planning {
    /// In a background thread, while the program goes on. A simulation plans at once, since its clock stands still meanwhile.
    #[default]
    Background,
    /// While the program waits, so that every run makes the same decisions.
    AtOnce,
    /// Never.
    Off,
}

impl FromStr for Planning {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "background" => Ok(Planning::Background),
            "at-once" => Ok(Planning::AtOnce),
            "off" => Ok(Planning::Off),
            _ => Err(()),
        }
    }
}

/// Where plans are kept, so that the next run of the same program follows them from its first iterations on. No result depends on
/// this.
///
/// ```
/// use burn_overcommit::{Config, PlanCache, OvercommitDevice, configure};
///
/// configure(&OvercommitDevice::Host(0), Config::new().plan_cache(PlanCache::Folder("plans".into())))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PlanCache {
    /// In the folder `burn-overcommit/plans` of the user's cache folder.
    #[default]
    User,
    /// In a folder of one's own. It is made when the first plan is kept.
    Folder(PathBuf),
    /// Nowhere.
    Off,
}

impl FromStr for PlanCache {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "off" { PlanCache::Off } else { PlanCache::Folder(text.into()) })
    }
}

/// How addresses in device memory are chosen.
///
/// ```
/// use burn_overcommit::{Config, Placement, OvercommitDevice, configure};
///
/// configure(&OvercommitDevice::Host(0), Config::new().placement(Placement::BestFit))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// The smallest free range that is large enough.
    BestFit,
    /// The address that an active plan states, if it states addresses, else by best fit. The planned addresses are those of
    /// SmartPool (Zhang et al., arXiv:1903.06631, section 3).
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
