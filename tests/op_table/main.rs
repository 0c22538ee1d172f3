//! One table of all ops; each check runs all of it.

#[macro_use]
mod case;
mod cases;
mod check;
mod gradients;
mod host;
mod in_place;
mod layouts;
mod reference;
mod special;
mod tolerance;
mod value;
mod values;
