//! `devices`: what can be simulated.

use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::engine::sim::profiles;
use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// One JSON array.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let profiles = profiles();
    if options.json {
        let rows = profiles.iter().map(|profile| {
            let props = &profile.props;
            json!({
                "key": profile.key, "name": props.name, "memory_bytes": props.device_bytes,
                "memory_bytes_per_second": props.memory_bytes_per_second,
                "link_bytes_per_second": props.link_bytes_per_second, "launch_ns": props.overhead_ns,
                "pricing": props.pricing(),
                "flops": { "f64": props.flops.f64, "f32": props.flops.f32, "f16": props.flops.f16, "bf16": props.flops.bf16 },
            })
        });
        println!("{:#}", json!(rows.collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "key",
        "name",
        "memory",
        "GB/s",
        "TFLOP/s f32",
        "f16",
        "link GB/s",
        "launch us",
        "own kernels",
    ]);
    for profile in &profiles {
        let props = &profile.props;
        let rounded = |value: f64| format!("{value:.1}");
        table.add_row([
            profile.key.clone(),
            props.name.clone(),
            ByteSize(props.device_bytes as u64).to_string(),
            rounded(props.memory_bytes_per_second / 1e9),
            rounded(props.flops.f32 / 1e12),
            rounded(props.flops.f16 / 1e12),
            rounded(props.link_bytes_per_second / 1e9),
            rounded(props.overhead_ns as f64 / 1e3),
            if props.kernels.is_some() { "priced".into() } else { "roofline".into() },
        ]);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
    #[cfg(feature = "cuda")]
    {
        println!("\nFor cuda:N, this machine has:");
        crate::info::print_found();
    }
    Ok(ExitCode::SUCCESS)
}
