//! The JSON that commands print: one object, with the version of its form.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

/// Rises when a key goes or changes its meaning. The book's page on JSON lists the keys.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    value: T,
}

/// Prints an object.
pub fn print(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(&Versioned { version: VERSION, value })?);
    Ok(())
}

/// Prints an object with a list of this name.
pub fn print_list(name: &str, list: &[impl Serialize]) -> Result<()> {
    print(&BTreeMap::from([(name, list)]))
}
