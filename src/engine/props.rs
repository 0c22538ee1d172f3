use serde::{Deserialize, Serialize};

use super::{KernelRates, Tier};
use crate::op::{Dtype, Inputs, Op, Outputs, View, Work};

/// Properties of an engine's device, on which the cost model works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Props {
    /// The device's name, for people.
    pub name: String,
    /// Bytes of device memory.
    pub device_bytes: usize,
    /// Bytes of host memory for offloaded storages.
    pub host_bytes: usize,
    /// Whether both are parts of the same memory, so that moving bytes from one to the other saves none.
    pub shares_memory: bool,
    /// Rates of arithmetic.
    pub flops: Flops,
    /// Bytes of device memory that are read or written per second.
    pub memory_bytes_per_second: f64,
    /// Bytes per second that one copy lane copies from the device to the host.
    pub offload_bytes_per_second: f64,
    /// Bytes per second that one copy lane copies from the host to the device.
    pub fetch_bytes_per_second: f64,
    /// Bytes per second that go one way to another device of the machine; `None` if that is no faster than to the host.
    pub peer_bytes_per_second: Option<f64>,
    /// Time of the device for one launch or copy, in addition to that of its work.
    pub overhead_ns: u64,
    /// Size of the pages by which device memory can be mapped, a multiple of [`ALIGN_BYTES`](super::ALIGN_BYTES);
    /// `None` if it cannot be mapped by page.
    pub page_bytes: Option<usize>,
    /// Bytes of addresses that can be reserved for views of pages, if these are fewer than the pool asks for.
    pub view_bytes: Option<usize>,
    /// Times of the program's thread, which runs ahead of the device.
    #[serde(default)]
    pub host: HostTimes,
    /// Rates of this crate's CUDA kernels, which are far from the roofline, if they are known. `None` prices them by
    /// the roofline, like those of libraries.
    pub kernels: Option<KernelRates>,
}

/// Times that the program's thread takes. They add up beside the device's times; where the one waits for the other, the longer sum
/// counts. A time of 0 is unknown, and costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTimes {
    /// An op of the program: Burn's call, its place in the autodiff graph, and this crate's decisions.
    pub op_ns: u64,
    /// A launch of one of this crate's kernels, or of a copy.
    pub launch_ns: u64,
    /// A call of a library that multiplies or convolves.
    pub library_ns: u64,
    /// An eviction, without the copy.
    pub eviction_ns: u64,
    /// A call that maps neighbouring pages, without the pages.
    pub map_call_ns: u64,
    /// A mapped page.
    pub map_page_ns: u64,
    /// Pinning a GiB of host memory.
    pub pin_gib_ns: u64,
}

impl HostTimes {
    /// The time to map so many neighbouring pages.
    pub fn map_ns(&self, pages: usize) -> u64 {
        self.map_call_ns + pages as u64 * self.map_page_ns
    }

    /// The time to pin so many bytes of host memory.
    pub fn pin_ns(&self, bytes: usize) -> u64 {
        (bytes as f64 / f64::from(1 << 30) * self.pin_gib_ns as f64) as u64
    }
}

/// Of a machine with an H100: launches, pages and pinned memory as measured there (driver 580.159); calls of libraries so that steps
/// bound by the host take as long as there. Ops and evictions take as long as their code does on a current processor, without a GPU.
pub(crate) const MEASURED_HOST: HostTimes = HostTimes {
    op_ns: 3_900,
    launch_ns: 4_300,
    library_ns: 15_000,
    eviction_ns: 20_000,
    map_call_ns: 0,
    map_page_ns: 53_000,
    pin_gib_ns: 578_000_000,
};

/// The page size of NVIDIA's GPUs. Other engines use it too, so that decisions are the same.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// The pages that a budget has at least. A budget of fewer of the smallest pages is mapped by page only on request, since rounding
/// would take a large part of it.
pub(crate) const MIN_PAGES: usize = 48;
/// The largest page.
const MAX_PAGE_BYTES: usize = 32 << 20;

/// The size of pages that suits a budget, a power of two. To map one takes as long whatever its size, 50 us on an H100; a large
/// one leaves more of it unused.
pub(crate) fn page_bytes_for(budget_bytes: usize) -> usize {
    let part = (budget_bytes / MIN_PAGES).max(1);
    (1 << part.ilog2()).clamp(PAGE_BYTES, MAX_PAGE_BYTES)
}

/// Arithmetic operations per second, by element type. Integers count as f32.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flops {
    /// For 64-bit floats.
    pub f64: f64,
    /// For 32-bit floats, without reduced precision inside.
    pub f32: f64,
    /// For 16-bit floats, accumulated in 32 bits.
    pub f16: f64,
    /// For bfloat16, accumulated in 32 bits.
    pub bf16: f64,
}

impl Flops {
    /// The same rate for all types.
    pub fn all(per_second: f64) -> Self {
        Flops { f64: per_second, f32: per_second, f16: per_second, bf16: per_second }
    }

    /// The rate of an element type.
    pub fn of(&self, dtype: Dtype) -> f64 {
        match dtype {
            Dtype::F64 => self.f64,
            Dtype::F16 => self.f16,
            Dtype::BF16 => self.bf16,
            _ => self.f32,
        }
    }
}

impl Props {
    /// Bytes of a tier.
    pub(super) fn capacity_bytes(&self, tier: Tier) -> usize {
        match tier {
            Tier::Device => self.device_bytes,
            Tier::Host => self.host_bytes,
            // Bounded by their limits, and by what the file system and the other devices have.
            Tier::Peer | Tier::Disk => usize::MAX,
        }
    }

    /// Predicted time of one launch, by the roofline model (Williams, Waterman, Patterson, CACM 2009): the slower of
    /// arithmetic and memory traffic, after the launch itself. In nanoseconds.
    pub fn launch_ns(&self, work: &Work) -> u64 {
        if let Some(measured_ns) = work.measured_ns {
            return measured_ns;
        }
        let arithmetic = work.flops as f64 / self.flops.of(work.dtype);
        let traffic = (work.read_bytes + work.written_bytes) as f64 / self.memory_bytes_per_second;
        self.overhead_ns + (arithmetic.max(traffic) * 1e9) as u64
    }

    /// Predicted time of an op: the sum of both parts if it runs as two ops.
    pub fn op_ns(&self, op: &Op, inputs: &[View], outputs: &Outputs) -> u64 {
        let Some((decode, values, then)) = op.in_two(inputs) else {
            return self.one_op_ns(op, inputs, outputs);
        };
        let form: Inputs<View> = inputs[..1].iter().chain(&inputs[2..]).copied().collect();
        let decoded = [values].into_iter().collect();
        self.one_op_ns(&decode, &form, &decoded) + self.one_op_ns(&then, &[values, inputs[1]], outputs)
    }

    fn one_op_ns(&self, op: &Op, inputs: &[View], outputs: &Outputs) -> u64 {
        let prices = self.kernels.and_then(|kernels| kernels.prices(op, inputs, outputs));
        let Some(prices) = prices else { return self.launch_ns(&op.work(inputs, outputs)) };
        prices.iter().map(|price| self.overhead_ns + price.ns as u64).sum()
    }

    /// The basis of predicted times, in words.
    pub fn pricing(&self) -> &'static str {
        match self.kernels {
            Some(_) => "own kernels priced by their machine code, libraries by the roofline",
            None => "all ops priced by the roofline",
        }
    }

    /// Bytes per second of a copy to the host and back: the harmonic mean of both ways.
    pub fn link_bytes_per_second(&self) -> f64 {
        2.0 * self.offload_bytes_per_second
            / (1.0 + self.offload_bytes_per_second / self.fetch_bytes_per_second)
    }

    /// The same device with copies to the host and back at this rate. One way stays as many times faster than the other.
    pub fn with_link(&self, bytes_per_second: f64) -> Self {
        let link_bytes_per_second = self.link_bytes_per_second();
        let scaled = |rate: f64| bytes_per_second * (rate / link_bytes_per_second);
        Props {
            offload_bytes_per_second: scaled(self.offload_bytes_per_second),
            fetch_bytes_per_second: scaled(self.fetch_bytes_per_second),
            ..self.clone()
        }
    }

    /// Predicted time to copy `bytes` to the host. In nanoseconds.
    pub fn offload_ns(&self, bytes: usize) -> u64 {
        self.copy_at_ns(bytes, self.offload_bytes_per_second)
    }

    /// Predicted time to copy `bytes` from the host. In nanoseconds.
    pub fn fetch_ns(&self, bytes: usize) -> u64 {
        self.copy_at_ns(bytes, self.fetch_bytes_per_second)
    }

    /// Predicted time to copy `bytes` one way, as the mean of both. In nanoseconds.
    pub fn copy_ns(&self, bytes: usize) -> u64 {
        self.copy_at_ns(bytes, self.link_bytes_per_second())
    }

    fn copy_at_ns(&self, bytes: usize, bytes_per_second: f64) -> u64 {
        self.overhead_ns + (bytes as f64 / bytes_per_second * 1e9) as u64
    }

    /// The size of a simulated device's pages. Where a page has a price, it follows the budget, as on a GPU.
    pub(crate) fn simulated_page_bytes(&self, budget_bytes: usize) -> Option<usize> {
        if self.host.map_page_ns > 0 { Some(page_bytes_for(budget_bytes)) } else { self.page_bytes }
    }

    /// The bytes that can be moved within device memory in a time.
    pub(crate) fn movable_bytes(&self, ns: u64) -> usize {
        (ns.saturating_sub(self.overhead_ns) as f64 / 1e9 * self.memory_bytes_per_second / 2.0) as usize
    }

    /// Predicted time to move `bytes` within device memory, which reads and writes them. In nanoseconds.
    pub fn move_ns(&self, bytes: usize) -> u64 {
        self.overhead_ns + (2.0 * bytes as f64 / self.memory_bytes_per_second * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_traffic_counts() {
        let props = Props {
            name: "test".into(),
            device_bytes: 0,
            host_bytes: 0,
            shares_memory: false,
            flops: Flops { f64: 5e8, ..Flops::all(1e9) },
            memory_bytes_per_second: 1e9,
            offload_bytes_per_second: 5e8,
            fetch_bytes_per_second: 5e8,
            peer_bytes_per_second: None,
            overhead_ns: 10,
            page_bytes: None,
            view_bytes: None,
            host: HostTimes::default(),
            kernels: None,
        };
        let work = |flops, read_bytes| Work {
            flops,
            read_bytes,
            written_bytes: 0,
            dtype: Dtype::F32,
            measured_ns: None,
        };
        assert_eq!(props.launch_ns(&work(1000, 10)), 1010);
        assert_eq!(props.launch_ns(&Work { dtype: Dtype::F64, ..work(1000, 10) }), 2010);
        assert_eq!(props.launch_ns(&work(10, 1000)), 1010);
        assert_eq!(props.launch_ns(&Work { measured_ns: Some(7), ..work(10, 1000) }), 7);
        assert_eq!((props.copy_ns(1000), props.move_ns(1000)), (2010, 2010));
        let uneven = Props { fetch_bytes_per_second: 1e9, ..props.clone() };
        let copies = |props: &Props| [props.offload_ns(3000), props.fetch_ns(3000), props.copy_ns(3000)];
        assert_eq!(copies(&uneven), [6010, 3010, 4510]);
        assert_eq!(copies(&uneven.with_link(2.0 * uneven.link_bytes_per_second())), [3010, 1510, 2260]);
        // Not even the last bit of a rate changes where both ways are as fast.
        let link = 52.8e9 / 3.0;
        assert_eq!(props.with_link(link).link_bytes_per_second(), link);
    }
}
