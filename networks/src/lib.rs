//! The networks of the papers on training beyond device memory, over any Burn backend: what examples, tests and benches
//! share. Each is built as its own paper has it, with the count of parameters published for it; what could not be
//! held against a source is marked unverified.
//!
//! ```ignore
//! let spec = by_name("resnet-50").unwrap().with_side(64);
//! let mut network = spec.network::<B>(&device);
//! let mut optimizer = SgdConfig::new().init();
//! for _ in 0..steps {
//!     let sample = spec.sample(batch, &device);
//!     let (trained, loss) = training_step(network, &mut optimizer, 0.01, sample);
//!     network = trained;
//! }
//! ```
//!
//! Nothing here reads a tensor's value, and no network's depth is the stack's: 10,000 layers are a loop.

pub mod alexnet;
pub mod densenet;
pub mod googlenet;
pub mod gpt;
pub mod inception;
mod layers;
pub mod lstm;
mod mixed;
mod network;
pub mod nin;
pub mod overfeat;
pub mod resnet;
mod spec;
pub mod unet;
pub mod vgg;

pub use network::{Network, Sample, SampleInput, parameter_count, training_step};
pub use spec::{Architecture, EXAMPLES, Input, Spec, by_name};
