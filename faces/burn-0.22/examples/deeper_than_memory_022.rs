//! [The program](../../examples/deeper_than_memory.rs) with this version of Burn.

#[path = "../../examples/deeper_than_memory.rs"]
mod program;

use burn_overcommit_022 as face;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::main()
}
