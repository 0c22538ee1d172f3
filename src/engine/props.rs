use crate::op::Work;

/// What an engine's device is like: what the cost model works on.
#[derive(Clone, Debug, PartialEq)]
pub struct Props {
    /// For people.
    pub name: String,
    /// Device memory there is.
    pub device_bytes: usize,
    /// Host memory there is for offloaded bytes.
    pub host_bytes: usize,
    /// Arithmetic, f32, per second.
    pub flops_per_second: f64,
    /// Device memory, read or written, per second.
    pub memory_bytes_per_second: f64,
    /// One copy lane, per second.
    pub link_bytes_per_second: f64,
    /// Fixed cost of one launch or copy.
    pub overhead_ns: u64,
}

impl Props {
    /// Predicted time of one launch, by the roofline model (Williams, Waterman, Patterson, CACM 2009): the slower of
    /// arithmetic and memory traffic, after the launch itself. In nanoseconds.
    pub fn launch_ns(&self, work: &Work) -> u64 {
        let arithmetic = work.flops as f64 / self.flops_per_second;
        let traffic = (work.read_bytes + work.written_bytes) as f64 / self.memory_bytes_per_second;
        self.overhead_ns + (arithmetic.max(traffic) * 1e9) as u64
    }

    /// Predicted time to copy `bytes` between tiers, one way. In nanoseconds.
    pub fn copy_ns(&self, bytes: usize) -> u64 {
        self.overhead_ns + (bytes as f64 / self.link_bytes_per_second * 1e9) as u64
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
            flops_per_second: 1e9,
            memory_bytes_per_second: 1e9,
            link_bytes_per_second: 5e8,
            overhead_ns: 10,
        };
        let work = |flops, read_bytes| Work { flops, read_bytes, written_bytes: 0 };
        assert_eq!(props.launch_ns(&work(1000, 10)), 1010);
        assert_eq!(props.launch_ns(&work(10, 1000)), 1010);
        assert_eq!(props.copy_ns(1000), 2010);
    }
}
