//! The program `overcommit`, the environment, and what holds for sources and documents.

mod book;
mod cli;
mod documentation;
mod environment;
mod imports;
#[path = "../support/process.rs"]
mod process;
mod rooms;
