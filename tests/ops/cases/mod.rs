//! The table: every op of Burn's backend traits, a line for each way of calling it.

use crate::case::Case;
use burn_backend::Backend;

mod activation;
mod bits;
mod compare;
mod conv;
mod convert;
mod create;
mod fused;
mod index;
mod linear;
mod pointwise;
mod pool;
mod reduce;
mod sort;
mod view;

/// All cases, or those of a part: `OP_TABLE_PART=2/8` is the second of eight, for `scripts/gpu-check`, which runs them side by side.
pub fn all<B: Backend>() -> Vec<Case<B>> {
    let cases = every();
    let Ok(text) = std::env::var("OP_TABLE_PART") else { return cases };
    let numbers =
        text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    let is_part = |&(part, parts): &(usize, usize)| (1..=parts).contains(&part);
    let (part, parts) =
        numbers.filter(is_part).unwrap_or_else(|| panic!("OP_TABLE_PART={text}: expected 2/8, say"));
    cases.into_iter().skip(part - 1).step_by(parts).collect()
}

fn every<B: Backend>() -> Vec<Case<B>> {
    [
        pointwise::cases,
        compare::cases,
        bits::cases,
        convert::cases,
        create::cases,
        view::cases,
        index::cases,
        reduce::cases,
        fused::cases,
        sort::cases,
        linear::cases,
        activation::cases,
        conv::cases,
        pool::cases,
    ]
    .iter()
    .flat_map(|cases| cases())
    .collect()
}
