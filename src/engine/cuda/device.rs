//! What a device says of itself, and what follows for the cost model.

use std::sync::Arc;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::driver::{Attribute, Called, Context, Device};
use super::memory::{self, Pages};
use crate::engine::{Flops, KernelRates, MEASURED_HOST, Props, page_bytes_for};
use crate::messages;

/// The oldest driver that will do, as it says it: of CUDA 12.8.
const MIN_VERSION: u32 = 12080;
/// The oldest architecture: the compilers of CUDA 13 know none before.
const MIN_ARCHITECTURE: u32 = 75;

/// What one copy lane moves per second, by architecture: PCIe 3, 4 and 5, as measured on other machines.
const LINKS: [(u32, f64); 3] = [(90, 52.8e9), (80, 25.1e9), (0, 12.4e9)];
/// One of many launches in a row.
const OVERHEAD_NS: u64 = 2700;

/// Whether the driver is new enough.
pub(super) fn check_version(version: u32) -> Called<()> {
    let text = |version: u32| format!("{}.{}", version / 1000, version % 1000 / 10);
    match version >= MIN_VERSION {
        true => Ok(()),
        false => Err(format!(
            "NVIDIA's driver is one for CUDA {}; CUDA {} is the oldest that will do",
            text(version),
            text(MIN_VERSION)
        )),
    }
}

/// Compute capability without its point.
pub(super) fn architecture(device: Device) -> Called<u32> {
    let major = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let architecture = u32::try_from(10 * major + minor).unwrap_or(0);
    match architecture >= MIN_ARCHITECTURE {
        true => Ok(architecture),
        false => Err(format!(
            "the device is of compute capability {major}.{minor}; 7.5 is the oldest that will do"
        )),
    }
}

/// Operations per second of each kind for each of f32 that an architecture has outside of tensor cores, whose rates are
/// those of dense products: from the tables of NVIDIA's programming guide. First the f32 lanes of a multiprocessor.
fn rates(architecture: u32) -> (f64, [f64; 3]) {
    match architecture {
        75 => (64.0, [1.0 / 32.0, 8.0, 1.0]),
        80 => (64.0, [0.5, 16.0, 16.0]),
        90 | 100 => (128.0, [0.5, 16.0, 16.0]),
        _ => (128.0, [1.0 / 64.0, 2.0, 2.0]),
    }
}

/// The size of pages, if the device maps them, and the bytes of addresses for views where these are fewer than the pool asks for: as a
/// first page and first reservations show, since some drivers offer more than they do.
fn paging(
    context: &Arc<Context>,
    page_bytes: Option<usize>,
    device_bytes: usize,
) -> (Option<usize>, Option<usize>) {
    let page_bytes = page_bytes.unwrap_or_else(|| page_bytes_for(device_bytes));
    let Some(page_bytes) = memory::page_bytes(context, page_bytes) else { return (None, None) };
    match Pages::probe(context, page_bytes, device_bytes) {
        Ok(view_bytes) => {
            if let Some(bytes) = view_bytes {
                let message = format_args!(
                    "the driver reserves {bytes} bytes of addresses for views of pages and no more: fewer are kept"
                );
                messages::tell(log::Level::Warn, message);
            }
            (Some(page_bytes), view_bytes)
        }
        Err(error) => {
            let message = format_args!(
                "device memory cannot be mapped by pages of {page_bytes} bytes ({error}): it is taken as a whole"
            );
            messages::tell(log::Level::Warn, message);
            (None, None)
        }
    }
}

/// The profile of a device as it is now. Nothing is measured for it: decisions are to be the same in every run.
pub(super) fn props(context: &Arc<Context>, page_bytes: Option<usize>) -> Called<Props> {
    let device = context.device();
    let architecture = architecture(device)?;
    let number = |attribute| device.attribute(attribute).map(f64::from);
    let clock_hz = 1e3 * number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
    let units = number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let memory_hz = 1e3 * number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bus_bytes = number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? / 8.0;
    let (lanes, [f64, f16, bf16]) = rates(architecture);
    // A multiplication and an addition each cycle.
    let f32 = (2.0 * units * lanes * clock_hz).max(1e9);
    let link = LINKS.iter().find(|(least, _)| architecture >= *least).map_or(12.4e9, |(_, link)| *link);
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    // Both edges of the clock.
    let memory_bytes_per_second = (2.0 * memory_hz * bus_bytes).max(1e9);
    let device_bytes = context.free_bytes()?;
    let (page_bytes, view_bytes) = paging(context, page_bytes, device_bytes);
    let name = device.name()?;
    let shares_memory = number(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? > 0.0;
    if shares_memory {
        let message =
            format_args!("{name} shares its memory with the host: `auto` recomputes before it offloads");
        messages::tell(log::Level::Info, message);
    }
    // A copy within one memory reads and writes it.
    let link = if shares_memory { memory_bytes_per_second / 2.0 } else { link };
    Ok(Props {
        name,
        device_bytes,
        host_bytes: System::new_with_specifics(memory).available_memory() as usize,
        shares_memory,
        flops: Flops { f64: f64 * f32, f32, f16: f16 * f32, bf16: bf16 * f32 },
        memory_bytes_per_second,
        offload_bytes_per_second: link,
        fetch_bytes_per_second: link,
        peer_bytes_per_second: None,
        overhead_ns: OVERHEAD_NS,
        page_bytes,
        view_bytes,
        host: MEASURED_HOST,
        kernels: Some(KernelRates::of(memory_bytes_per_second, units as u32, clock_hz)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_is_named() {
        assert_eq!(check_version(12080), Ok(()));
        assert_eq!(check_version(13010), Ok(()));
        let error = check_version(12040).unwrap_err();
        assert!(error.contains("12.4") && error.contains("12.8"), "{error}");
    }
}
