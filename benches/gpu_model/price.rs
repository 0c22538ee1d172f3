//! What the launches of a step take on a GPU, by the model of this crate's kernels and the roofline of NVIDIA's libraries.

use std::collections::{BTreeMap, HashMap};

use burn_overcommit::engine::{KernelPrice, Launch, Props};

/// Kernels that take less than this are over before the next is launched.
const SHORT_NS: f64 = 2e3;
/// What the program's thread takes for a launch, Burn's part and the bookkeeping included: a step of ResNet-50 on a stand-in that does nothing
/// (`STANDIN_IDLE=1 gpu_check train --side 32 --batch 1`), divided by its launches.
pub const HOST_NS_PER_LAUNCH: f64 = 4e3;

/// A step, priced.
#[derive(Clone, Debug, Default)]
pub struct Priced {
    /// Launches of kernels and calls of libraries.
    pub launches: usize,
    /// Of these, kernels that take less than 2 us.
    pub short: usize,
    /// This crate's kernels.
    pub own_ns: f64,
    /// The same, if only their bytes counted.
    pub bytes_ns: f64,
    /// The same, if what only they hand on to each other were never in memory.
    pub fewest_ns: f64,
    /// Products and convolutions, by the roofline.
    pub library_ns: f64,
    /// The whole step: the device and the program's thread overlap.
    pub step_ns: f64,
    /// The time of this crate's kernels by what they are, element types left out.
    pub families: BTreeMap<String, (usize, f64)>,
}

/// Prices a step on a device.
pub fn price(launches: &[Launch], props: &Props) -> Priced {
    let rates = props.kernels.expect("a device whose kernels are priced");
    let roofline = Props { kernels: None, overhead_ns: 0, ..props.clone() };
    let mut priced = Priced::default();
    let (mut device_ns, mut host_ns) = (0.0f64, 0.0f64);
    for launch in launches {
        let instruction = &launch.instruction;
        let kernels = rates.prices(&instruction.op, &instruction.views, &instruction.outputs);
        let is_own = kernels.is_some();
        let kernels = kernels.unwrap_or_else(|| {
            let ns = roofline.op_ns(&instruction.op, &instruction.views, &instruction.outputs) as f64;
            vec![KernelPrice { name: instruction.op.name().to_string(), blocks: 0, bytes: 0, ns }]
        });
        for kernel in kernels {
            host_ns += HOST_NS_PER_LAUNCH;
            device_ns = device_ns.max(host_ns) + kernel.ns;
            priced.launches += 1;
            if is_own {
                priced.add_own(&kernel, rates.memory_bytes_per_second);
            } else {
                priced.library_ns += kernel.ns;
            }
        }
    }
    priced.step_ns = device_ns;
    priced.fewest_ns = fewest_bytes(launches, props) as f64 / rates.memory_bytes_per_second * 1e9;
    priced
}

impl Priced {
    fn add_own(&mut self, kernel: &KernelPrice, memory_bytes_per_second: f64) {
        self.short += usize::from(kernel.ns < SHORT_NS);
        self.own_ns += kernel.ns;
        self.bytes_ns += kernel.bytes as f64 / memory_bytes_per_second * 1e9;
        let is_type = |part: &&str| {
            let number = part.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
            !matches!(number, "8" | "16" | "32" | "64")
        };
        let family = kernel.name.split('_').filter(is_type).collect::<Vec<_>>().join("_");
        let (count, ns) = self.families.entry(family).or_default();
        (*count, *ns) = (*count + 1, *ns + kernel.ns);
    }
}

/// The least that this crate's kernels have to read and write: each value that a library, or the step before, hands them once, and
/// each that they hand on once.
fn fewest_bytes(launches: &[Launch], props: &Props) -> u64 {
    let rates = props.kernels.expect("a device whose kernels are priced");
    // By address: what is there now was made by a kernel of this crate, and whether it was counted.
    let mut made: HashMap<u64, Made> = HashMap::new();
    let mut bytes = 0;
    for launch in launches {
        let instruction = &launch.instruction;
        let is_own = rates.prices(&instruction.op, &instruction.views, &instruction.outputs).is_some();
        for (span, view) in launch.inputs.iter().zip(&instruction.views) {
            let made = made.entry(span.address).or_insert(Made { by_own: false, is_counted: false });
            if made.by_own != is_own && !made.is_counted {
                made.is_counted = true;
                bytes += view.distinct_bytes() as u64;
            }
        }
        for span in &launch.outputs {
            made.insert(span.address, Made { by_own: is_own, is_counted: false });
        }
    }
    // What is left at the end is what the next step begins with.
    let last = launches.iter().flat_map(|launch| launch.outputs.iter());
    let sizes: HashMap<u64, usize> = last.map(|span| (span.address, span.bytes)).collect();
    let left = made.iter().filter(|(_, made)| made.by_own && !made.is_counted);
    bytes + left.filter_map(|(address, _)| sizes.get(address)).map(|&bytes| bytes as u64).sum::<u64>()
}

/// What lies at an address.
struct Made {
    by_own: bool,
    is_counted: bool,
}
