//! The least overheads known for the public logs, from wherever: published, or measured with other planners.

/// What a cell is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// An overhead: time as a multiple of that with all memory.
    Overhead(f64),
    /// It can be done, at whatever overhead.
    Feasible,
    /// Nobody got there.
    Infeasible,
}

use Known::{Feasible, Overhead};

/// Budgets of the columns, as percentages of the live peak.
pub const PERCENTS: [u32; 5] = [70, 50, 40, 30, 20];

/// A log, and the least overheads known for it in each of [`PERCENTS`].
pub struct Log {
    /// Its file, without `.log`.
    pub name: &'static str,
    /// By recomputation alone.
    pub recompute: [Option<Known>; 5],
    /// With copies too, at 12.5 GB/s each way.
    pub both: [Option<Known>; 5],
}

/// Every log.
pub const LOGS: [Log; 4] = [
    Log {
        name: "resnet32",
        recompute: of([1.041, 1.107, 1.140, 1.179, 1.332]),
        both: [None, Some(Overhead(1.07)), None, Some(Overhead(1.12)), None],
    },
    Log {
        name: "unet",
        recompute: [
            Some(Overhead(1.085)),
            Some(Overhead(1.136)),
            Some(Overhead(1.270)),
            Some(Feasible),
            None,
        ],
        both: [None, Some(Overhead(1.03)), None, Some(Overhead(1.06)), None],
    },
    Log {
        name: "transformer",
        recompute: of([1.029, 1.051, 1.080, 1.121, 1.176]),
        both: [None, Some(Overhead(1.04)), None, Some(Overhead(1.075)), None],
    },
    Log { name: "treelstm", recompute: of([1.008, 1.116, 1.173, 1.317, 1.530]), both: [None; 5] },
];

const fn of(overheads: [f64; 5]) -> [Option<Known>; 5] {
    let [a, b, c, d, e] = overheads;
    [Some(Overhead(a)), Some(Overhead(b)), Some(Overhead(c)), Some(Overhead(d)), Some(Overhead(e))]
}
