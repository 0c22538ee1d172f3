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

pub fn all<B: Backend>() -> Vec<Case<B>> {
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
