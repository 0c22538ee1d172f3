//! Functions that newer versions of Burn ask for give what Burn's own device gives, and so do their gradients.

#[path = "../../tests/functions.rs"]
mod functions;
#[path = "../../tests/same.rs"]
mod same;

use burn_overcommit_022 as face;
