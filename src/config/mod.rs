//! Plain data that all is set by: what a user can choose, the environment variables for it, and what tests plant.

mod amount;
mod builder;
mod choices;
mod environment;
mod fault;
mod oracle;
mod policy;
mod reads;
mod settings;
mod variable;

pub use amount::Amount;
pub(crate) use amount::LEAST_BUDGET_BYTES;
pub use builder::Config;
pub(crate) use builder::{BUDGET_SHARE, LEAST_PAGES};
pub use choices::{Exactness, Placement, Planning};
#[cfg(feature = "cuda")]
pub(crate) use environment::log_by_environment;
pub use fault::Sabotage;
pub use oracle::Foresight;
pub use policy::Policy;
pub use reads::{Reads, Supply};
pub(crate) use settings::{AllowedWays, Fusion, Settings};
pub use variable::{VARIABLES, Variable};
