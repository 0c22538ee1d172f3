//! Ops: a table of all of them, each check of which runs all of it; what is launched together; random shapes and strides.

#[macro_use]
mod case;
mod cases;
mod check;
mod fusion;
mod fuzz;
mod gradients;
mod host;
mod in_place;
mod layouts;
mod reference;
mod special;
mod tolerance;
mod value;
mod values;
