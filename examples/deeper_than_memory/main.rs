//! Trains networks that are deeper than the memory they are given, and proves that nothing changed.
//!
//! `cargo run --release -p burn-overcommit-examples --bin deeper_than_memory`; `-- --help` lists the options.

mod compare;
mod learner;
mod memory;
mod model;
mod options;
mod overcommit;
mod report;
mod train;

use std::error::Error;
use std::process::ExitCode;

#[cfg(any(feature = "flex", feature = "ndarray"))]
use burn::backend::Autodiff;
#[cfg(feature = "flex")]
use burn::backend::Flex;
#[cfg(feature = "ndarray")]
use burn::backend::NdArray;
use burn::tensor::backend::AutodiffBackend;
use clap::Parser;

use crate::compare::compare;
use crate::memory::Unmetered;
use crate::options::{BackendChoice, Options};
use crate::overcommit::{Pool, Training};
use crate::train::{Setup, run};
use burn_overcommit_examples::digits as data;

use crate::data::Digits;

fn main() -> ExitCode {
    burn_overcommit_examples::begin();
    let options = Options::parse();
    let result = match options.backend {
        BackendChoice::Overcommit => train_overcommitted(&options),
        #[cfg(feature = "ndarray")]
        BackendChoice::Ndarray => train_elsewhere::<Autodiff<NdArray>>(&options),
        #[cfg(feature = "flex")]
        BackendChoice::Flex => train_elsewhere::<Autodiff<Flex>>(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("deeper_than_memory: {error}");
        ExitCode::FAILURE
    })
}

/// The four runs; fails if a budget changed a bit.
fn train_overcommitted(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let memory = Pool::new(options.policy);
    let comparison = compare::<Training>(options, &Digits::load()?, memory.device(), &memory)?;
    println!("{}\n", report::table(&comparison));
    println!("{}\n", report::shares(&comparison));
    println!("{}", report::summary(&comparison));
    Ok(if comparison.is_identical() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same network on another backend: nothing but the type differs.
#[cfg_attr(not(any(feature = "flex", feature = "ndarray")), expect(dead_code))]
fn train_elsewhere<B: AutodiffBackend>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let outcome = run::<B>(Setup::from(options), &Digits::load()?, &B::Device::default(), &Unmetered)?;
    println!("{}", report::single(&outcome));
    Ok(ExitCode::SUCCESS)
}
