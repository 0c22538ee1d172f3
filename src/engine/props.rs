use serde::{Deserialize, Serialize};

use super::{KernelRates, Tier};
use crate::op::{Dtype, Inputs, Op, Outputs, View, Work};

/// What an engine's device is like: what the cost model works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Props {
    /// For people.
    pub name: String,
    /// Device memory there is.
    pub device_bytes: usize,
    /// Host memory there is for offloaded bytes.
    pub host_bytes: usize,
    /// Whether both are parts of the same memory: what is moved from one to the other is not gone.
    pub shares_memory: bool,
    /// Arithmetic.
    pub flops: Flops,
    /// Device memory, read or written, per second.
    pub memory_bytes_per_second: f64,
    /// One copy lane, per second.
    pub link_bytes_per_second: f64,
    /// Fixed cost of one launch or copy.
    pub overhead_ns: u64,
    /// Size of the pages that device memory can be mapped by, a multiple of [`ALIGN_BYTES`](super::ALIGN_BYTES);
    /// `None` where it cannot.
    pub page_bytes: Option<usize>,
    /// What each call that maps pages side by side takes of the program's time, beside the pages; 0 where that is not known.
    pub map_call_ns: u64,
    /// What mapping one page takes of the program's time; 0 where that is not known.
    pub map_page_ns: u64,
    /// What this crate's own CUDA kernels take, where that is known: they are far from the roofline. `None`: they are at it, as libraries
    /// are taken to be.
    pub kernels: Option<KernelRates>,
}

/// The page size of NVIDIA's GPUs, and so of the other engines: what they decide is to be the same.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// Arithmetic operations per second, by element type. Integers count as f32.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flops {
    /// Of 64-bit floats.
    pub f64: f64,
    /// Of 32-bit floats, exact: no fewer bits inside.
    pub f32: f64,
    /// Of 16-bit floats, added up in 32 bits.
    pub f16: f64,
    /// Of bfloat16, added up in 32 bits.
    pub bf16: f64,
}

impl Flops {
    /// The same for all.
    pub fn all(per_second: f64) -> Self {
        Flops { f64: per_second, f32: per_second, f16: per_second, bf16: per_second }
    }

    /// Of an element type.
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
    /// Memory there is of a tier.
    pub(super) fn capacity_bytes(&self, tier: Tier) -> usize {
        match tier {
            Tier::Device => self.device_bytes,
            Tier::Host => self.host_bytes,
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

    /// Predicted time of an op: of each after the other, if it is two.
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

    /// What predicted times go by, in words.
    pub fn pricing(&self) -> &'static str {
        match self.kernels {
            Some(_) => "own kernels priced by their machine code, libraries by the roofline",
            None => "all ops priced by the roofline",
        }
    }

    /// Predicted time to copy `bytes` between tiers, one way. In nanoseconds.
    pub fn copy_ns(&self, bytes: usize) -> u64 {
        self.overhead_ns + (bytes as f64 / self.link_bytes_per_second * 1e9) as u64
    }

    /// Predicted time to move `bytes` within device memory, where they are read and written. In nanoseconds.
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
            link_bytes_per_second: 5e8,
            overhead_ns: 10,
            page_bytes: None,
            map_call_ns: 0,
            map_page_ns: 0,
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
    }
}
