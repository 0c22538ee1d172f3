//! Devices to simulate: a table of vendors' figures, files of measured ones, and how much workspace an op takes there.

use std::fs;
use std::path::Path;

use super::convolution;
use crate::engine::props::{MEASURED_HOST, PAGE_BYTES};
use crate::engine::{Algorithm, Flops, HostTimes, KernelRates, Props};
use crate::op::{Op, Outputs, View, lower};

/// A device to simulate.
///
/// ```
/// use burn_overcommit::{OvercommitDevice, SimProfile};
///
/// // A GPU like another, with a faster link to the host.
/// let mut profile = SimProfile::named("rtx4090").and_then(SimProfile::get).unwrap();
/// profile.key = "mine".into();
/// profile.props = profile.props.with_link(2.0 * profile.props.link_bytes_per_second());
/// let device = OvercommitDevice::Sim(SimProfile::add(profile));
/// assert_eq!(device.to_string(), "sim:mine");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its key in `sim:KEY`.
    pub key: String,
    /// The device's properties.
    pub props: Props,
    /// The workspace of its ops.
    pub workspace: Workspace,
}

impl Profile {
    /// The GPU whose [`Props`] a JSON file holds, as `scripts/gpu-check` measures them. Its key is the file's path.
    ///
    /// # Errors
    /// Why the file cannot be read, or what it lacks, in words.
    pub fn read(path: &Path) -> Result<Self, String> {
        let told = |error: String| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
        let props = props_of(&text).map_err(|error| told(error.to_string()))?;
        Ok(Profile { key: path.display().to_string(), props, workspace: Workspace::Gpu })
    }
}

/// The properties in the text of a file. One rate of the link is that of both ways.
fn props_of(text: &str) -> serde_json::Result<Props> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
    if let Some(rate) = fields.remove("link_bytes_per_second") {
        for way in ["offload_bytes_per_second", "fetch_bytes_per_second"] {
            fields.entry(way).or_insert_with(|| rate.clone());
        }
    }
    serde_json::from_value(fields.into())
}

/// How much workspace ops take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workspace {
    /// As on a GPU: convolutions take the columns of one image unless another algorithm is chosen, matrix products
    /// take none, and all other ops take the workspace of their kernels.
    Gpu,
    /// As on the host engine with this many workers.
    #[cfg(feature = "host")]
    Host {
        /// Threads that one op may use.
        workers: usize,
    },
}

impl Workspace {
    #[cfg_attr(not(feature = "host"), allow(unused_variables))]
    pub(super) fn bytes(self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        match self {
            #[cfg(feature = "host")]
            Workspace::Host { workers } => {
                crate::engine::host::scratch_bytes(op, algorithm, inputs, outputs, workers)
            }
            Workspace::Gpu => match op {
                Op::Matmul => 0,
                _ => convolution::scratch_bytes(op, algorithm, inputs, outputs)
                    .unwrap_or_else(|| lower::scratch_bytes(op, inputs, outputs)),
            },
        }
    }

    /// Algorithms that may be chosen.
    pub(super) fn alternatives(self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        match self {
            #[cfg(feature = "host")]
            Workspace::Host { .. } => Vec::new(),
            Workspace::Gpu => convolution::alternatives(op, inputs),
        }
    }
}

/// Host memory of every profile: the least that servers with such devices have.
const HOST_BYTES: usize = 256 << 30;

/// Key, name as the driver gives it, memory, its bandwidth, arithmetic of `f64`, `f32`, `f16` and `bf16`, link and launch, in the
/// units of the table's head.
type Row = (&'static str, &'static str, usize, f64, [f64; 4], f64, f64);

/// Dense peak rates; halves on tensor cores where there are any for them, added up in `f32`, else at the rate of `f32`. The
/// link is what one direction moves from pinned memory; a launch is one of many empty kernels in a row. GB/s and TFLOP/s
/// are powers of ten; vendors write "GB" for GiB of memory.
///
/// None of the vendors' own files was at hand but the K40's: "reprint" is a public page or repository with the vendor's
/// table, "recalled" the vendor's figure without a page at hand, "derived" units times clock, "assumed" the figure of a like device.
#[rustfmt::skip]
const ROWS: [Row; 25] = [
    //                                       GiB    GB/s  TFLOP/s: f64, f32, f16, bf16   link   us
    // Tesla K40 board specification BD-06902-001 (2013): memory, clock. Rates at the base clock: reprint. Link:
    // bandwidthTest on a K40m. Launch: a K80's.
    ("k40c", "Tesla K40c",                    12,  288.0, [1.43, 4.29, 4.29, 4.29],     10.0, 5.7),
    // GeForce GTX TITAN X specifications (2015): reprint; f32 derived at the boost clock (vDNN says 7). Link: vDNN, MICRO
    // 2016, unverified. Launch assumed.
    ("titan-x", "NVIDIA GeForce GTX TITAN X", 12,  336.5, [0.206, 6.6, 6.6, 6.6],       12.8, 5.0),
    // TITAN V product page (2017): reprint. Link and launch assumed.
    ("titan-v", "NVIDIA TITAN V",             12,  652.8, [6.9, 13.8, 110.0, 13.8],     12.4, 1.83),
    // Tesla V100 datasheet, SXM2 16 GB: reprint. Link: nvbandwidth on PCIe 3.0. Launch measured.
    ("v100", "Tesla V100-SXM2-16GB",          16,  900.0, [7.8, 15.7, 125.0, 15.7],     12.4, 1.83),
    // A100 datasheets (2020, 2021): reprint. Link: nvbandwidth on the 40 GB board. Launch measured.
    ("a100-40", "NVIDIA A100-SXM4-40GB",      40, 1555.0, [9.7, 19.5, 312.0, 312.0],    25.1, 2.7),
    ("a100-80", "NVIDIA A100-SXM4-80GB",      80, 2039.0, [9.7, 19.5, 312.0, 312.0],    25.1, 2.7),
    // GeForce RTX 3060 specifications (2021): reprint; halves derived. Link and launch assumed.
    ("rtx3060", "NVIDIA GeForce RTX 3060",    12,  360.0, [0.199, 12.74, 25.5, 25.5],   25.0, 2.7),
    // Ada architecture whitepaper 2.01: reprint. Link and launch assumed.
    ("rtx4090", "NVIDIA GeForce RTX 4090",    24, 1008.0, [1.29, 82.6, 165.2, 165.2],   25.0, 2.5),
    // H100 datasheet and architecture whitepaper, SXM5: reprint. Products, link and the time between two kernels as measured (driver
    // 580.159, cuBLASLt 13.1; benches/results/gpu).
    ("h100", "NVIDIA H100 80GB HBM3",         80, 3350.0, [62.8, 49.7, 839.0, 830.0],    55.0, 1.7),
    // H200 product page: reprint for memory; the rest an H100's.
    ("h200", "NVIDIA H200",                  141, 4800.0, [62.8, 49.7, 839.0, 830.0],    55.0, 1.7),
    // Ampere GA102 whitepaper: recalled; f64 derived. Links and launches are assumed from here on, by the generation of PCIe.
    ("rtx3090", "NVIDIA GeForce RTX 3090",    24,  936.2, [0.556, 35.6, 71.0, 71.0],    25.0, 2.7),
    // GeForce RTX 40 specifications: recalled; halves and f64 derived. The 4060 Ti has eight lanes.
    ("rtx4060ti", "NVIDIA GeForce RTX 4060 Ti", 16, 288.0, [0.345, 22.1, 44.1, 44.1],   12.5, 2.5),
    ("rtx4070", "NVIDIA GeForce RTX 4070",    12,  504.2, [0.455, 29.1, 58.3, 58.3],    25.0, 2.5),
    ("rtx4080", "NVIDIA GeForce RTX 4080",    16,  716.8, [0.762, 48.7, 97.5, 97.5],    25.0, 2.5),
    // Blackwell RTX whitepaper: recalled; f64 derived, and halves of the 5070 Ti.
    ("rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", 16, 896.0, [0.687, 43.9, 87.9, 87.9],   50.0, 2.5),
    ("rtx5080", "NVIDIA GeForce RTX 5080",    16,  960.0, [0.88, 56.3, 112.6, 112.6],   50.0, 2.5),
    ("rtx5090", "NVIDIA GeForce RTX 5090",    32, 1792.0, [1.64, 104.8, 209.5, 209.5],  50.0, 2.5),
    // T4, A10, L4, L40S and RTX A6000 datasheets: recalled, without sparsity; f64 derived. The T4 computes no bf16 on tensor cores.
    ("t4", "Tesla T4",                        16,  320.0, [0.254, 8.1, 65.0, 8.1],      12.4, 2.7),
    ("a10", "NVIDIA A10",                     24,  600.0, [0.488, 31.2, 125.0, 125.0],  25.0, 2.7),
    ("l4", "NVIDIA L4",                       24,  300.0, [0.473, 30.3, 121.0, 121.0],  25.0, 2.5),
    ("l40s", "NVIDIA L40S",                   48,  864.0, [1.43, 91.6, 362.0, 362.0],   25.0, 2.5),
    ("a6000", "NVIDIA RTX A6000",             48,  768.0, [0.605, 38.7, 154.8, 154.8],  25.0, 2.7),
    // HGX B200 datasheet: recalled.
    ("b200", "NVIDIA B200",                  180, 8000.0, [40.0, 80.0, 2250.0, 2250.0], 52.8, 2.7),
    // GH200 datasheet, HBM3: recalled; rates an H100's. Link: as measured by others from host to device; the other way is below.
    ("gh200", "NVIDIA GH200 480GB",           96, 4000.0, [33.5, 66.9, 989.4, 989.4],  420.0, 2.7),
    // DGX Spark specifications: recalled for memory; rates assumed. A copy reads and writes the memory that both have.
    ("gb10", "NVIDIA GB10",                  119,  273.0, [0.48, 31.0, 125.0, 125.0],  136.0, 2.7),
];

/// The rate of the link from the device to the host, in GB/s, where it is less than the other way's.
const OFFLOADS: [(&str, f64); 1] = [("gh200", 170.0)];

/// Devices that have one memory with the host.
const SHARING: [&str; 1] = ["gb10"];

/// Multiprocessors and boost clock in GHz of the devices whose kernels were read: H100 and H200 by the architecture's whitepaper and as
/// seen under load, the RTX 4090 by Ada's. The instruction counts are sm_90's for all three.
const KERNELS: [(&str, u32, f64); 3] = [("rtx4090", 128, 2.52), ("h100", 132, 1.7), ("h200", 132, 1.7)];

/// What NVLink moves one way between two devices of a machine, in GB/s: half of what the datasheets give for both ways together.
const NVLINKS: [(&str, f64); 6] = [
    ("v100", 150.0),
    ("a100-40", 300.0),
    ("a100-80", 300.0),
    ("h100", 450.0),
    ("h200", 450.0),
    ("b200", 900.0),
];

/// A device's rate in one of these tables, in bytes per second.
fn rate_of(key: &str, rates: &[(&str, f64)]) -> Option<f64> {
    rates.iter().find(|row| row.0 == key).map(|row| row.1 * 1e9)
}

fn kernel_rates(key: &str, memory_bytes_per_second: f64) -> Option<KernelRates> {
    let row = KERNELS.iter().find(|row| row.0 == key);
    row.map(|&(_, multiprocessors, ghz)| KernelRates::of(memory_bytes_per_second, multiprocessors, ghz * 1e9))
}

/// The vendors' devices and, with the feature `host`, the host engine of this machine under the key `host`.
pub fn profiles() -> Vec<Profile> {
    let profile = |&(key, name, gib, bandwidth, tflops, link, launch_us): &Row| {
        let [f64, f32, f16, bf16] = tflops.map(|rate| rate * 1e12);
        let kernels = kernel_rates(key, bandwidth * 1e9);
        let props = Props {
            name: name.to_string(),
            device_bytes: gib << 30,
            host_bytes: HOST_BYTES,
            shares_memory: SHARING.contains(&key),
            flops: Flops { f64, f32, f16, bf16 },
            memory_bytes_per_second: bandwidth * 1e9,
            offload_bytes_per_second: rate_of(key, &OFFLOADS).unwrap_or(link * 1e9),
            fetch_bytes_per_second: link * 1e9,
            peer_bytes_per_second: rate_of(key, &NVLINKS),
            overhead_ns: (launch_us * 1e3) as u64,
            page_bytes: Some(PAGE_BYTES),
            view_bytes: None,
            host: if kernels.is_some() { MEASURED_HOST } else { HostTimes::default() },
            kernels,
        };
        Profile { key: key.to_string(), props, workspace: Workspace::Gpu }
    };
    #[allow(unused_mut, reason = "without the host engine there is no more")]
    let mut profiles: Vec<Profile> = ROWS.iter().map(profile).collect();
    #[cfg(feature = "host")]
    profiles.push(host());
    profiles
}

/// The host engine as it is by default.
#[cfg(feature = "host")]
fn host() -> Profile {
    let options = crate::engine::host::HostOptions::default();
    let workspace = Workspace::Host { workers: options.workers };
    Profile { key: "host".to_string(), props: options.props(), workspace }
}
