//! Plain data: the settings that a user can choose, their environment variables, and what tests set.

mod amount;
mod builder;
mod choices;
mod environment;
mod fault;
mod oracle;
mod policy;
mod reads;
mod settings;
mod tunables;
mod variable;

pub use amount::Amount;
pub(crate) use amount::MIN_BUDGET_BYTES;
pub(crate) use builder::BUDGET_SHARE;
pub use builder::Config;
pub use choices::{Exactness, Placement, PlanCache, Planning};
pub use fault::PlantedFault;
pub use oracle::Oracle;
pub use policy::Policy;
pub use reads::{Reads, Supply};
pub(crate) use settings::{EvictionMethods, Settings};
pub use tunables::Tunables;
pub use variable::{VARIABLES, Variable};
