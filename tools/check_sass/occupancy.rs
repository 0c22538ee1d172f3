//! How much of a multiprocessor's threads a kernel can use, by what a block of it takes.

use burn_overcommit::engine::cuda::sass::Resources;

/// A multiprocessor, from the table of compute capabilities in NVIDIA's CUDA programming guide.
struct Multiprocessor {
    architecture: u32,
    shared_bytes: usize,
}

const KNOWN: [Multiprocessor; 3] = [
    Multiprocessor { architecture: 80, shared_bytes: 164 << 10 },
    Multiprocessor { architecture: 90, shared_bytes: 228 << 10 },
    Multiprocessor { architecture: 100, shared_bytes: 228 << 10 },
];

/// Of all that are known: warps and blocks at a time, its quarters and the registers of each.
const WARPS: usize = 64;
const BLOCKS: usize = 32;
const QUARTERS: usize = 4;
const QUARTER_REGISTERS: usize = 16 << 10;
/// Registers are given to a warp, and shared memory to a block, in pieces of these sizes.
const REGISTERS_PIECE: usize = 256;
const SHARED_PIECE_BYTES: usize = 128;
/// Shared memory of each block that is the system's.
const SYSTEM_BYTES: usize = 1 << 10;
const WARP: usize = 32;

/// An architecture of those whose multiprocessors are known.
pub fn known(text: &str) -> Result<u32, String> {
    let known = || KNOWN.iter().map(|known| known.architecture);
    let number = text.parse().ok().filter(|number| known().any(|known| known == *number));
    number.ok_or_else(|| format!("one of {:?}", known().collect::<Vec<u32>>()))
}

/// Percent of a multiprocessor's warps that blocks of so many threads can be.
pub fn percent(architecture: u32, threads: usize, resources: &Resources) -> usize {
    let found = KNOWN.iter().find(|known| known.architecture == architecture);
    let shared_bytes = found.expect("options take known architectures alone").shared_bytes;
    let warps = threads.div_ceil(WARP);
    let of_warp = (resources.registers * WARP).next_multiple_of(REGISTERS_PIECE).max(REGISTERS_PIECE);
    let by_registers = QUARTER_REGISTERS / of_warp * QUARTERS / warps;
    let of_block = resources.shared_bytes.next_multiple_of(SHARED_PIECE_BYTES) + SYSTEM_BYTES;
    let blocks = [WARPS / warps, BLOCKS, by_registers, shared_bytes / of_block].into_iter().min();
    blocks.unwrap_or_default() * warps * 100 / WARPS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(registers: usize, shared_bytes: usize, threads: usize) -> usize {
        percent(90, threads, &Resources { registers, stack_bytes: 0, shared_bytes })
    }

    #[test]
    fn what_runs_out_first_decides() {
        assert_eq!(of(32, 0, 128), 100);
        // 40 registers are 1280 of a warp: 12 warps a quarter.
        assert_eq!(of(40, 0, 128), 75);
        assert_eq!(of(33, 0, 128), 75);
        assert_eq!(of(255, 0, 128), 12);
        // Nine kibibytes with the system's: 25 blocks of a warp.
        assert_eq!(of(32, 8 << 10, 1), 39);
        assert_eq!(percent(80, 1, &Resources { registers: 32, stack_bytes: 0, shared_bytes: 8 << 10 }), 28);
        assert_eq!(of(16, 0, 1), 50);
    }

    #[test]
    fn other_architectures_are_refused() {
        assert_eq!(known("80"), Ok(80));
        assert!(known("70").is_err() && known("sm_80").is_err());
    }
}
