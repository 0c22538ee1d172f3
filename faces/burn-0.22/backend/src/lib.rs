//! The backend behind `burn-overcommit-022`: Burn 0.22's traits, implemented by burn-overcommit. Programs take their devices from that
//! crate.
#![deny(missing_docs)]

mod convert;
mod quantized;
mod traits;

use burn_overcommit::OvercommitDevice;
pub use convert::Member;

/// The backend. Burn 0.22 knows it by its devices alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overcommit;

// Burn's dispatch asks a LibTorch device for these names.
#[allow(non_upper_case_globals, non_snake_case, missing_docs)]
#[doc(hidden)]
impl Member {
    pub const Cpu: Self = Member(OvercommitDevice::Host(0));
    // Devices that there are not: their first use says so.
    pub const Mps: Self = Member(OvercommitDevice::Cuda(u16::MAX));
    pub const Vulkan: Self = Self::Mps;

    pub fn Cuda(index: usize) -> Self {
        Member(OvercommitDevice::Cuda(index.try_into().unwrap_or(u16::MAX)))
    }
}
