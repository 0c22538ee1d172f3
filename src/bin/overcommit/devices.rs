//! `devices`: what can be simulated.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Error, Result};
use burn_overcommit::Profile;
use burn_overcommit::engine::sim::profiles;
use bytesize::ByteSize;
use clap::Args;
use comfy_table::{CellAlignment, ColumnConstraint, presets};
use serde_json::json;

use crate::json;
use crate::options::{table, width};

/// The least width of lines that have a device's name.
const NAMED_WIDTH: u16 = 110;

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// Keeps the device of a JSON file, such as gpu-check writes, under the file's name: mine.json is sim:mine from then on.
    #[arg(long, value_name = "FILE")]
    add: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(file) = &options.add {
        Profile::keep(file).map_err(Error::msg)?;
    }
    let mut profiles = profiles();
    profiles.extend(Profile::all_kept());
    if options.json {
        let rows = profiles.iter().map(|profile| {
            let props = &profile.props;
            json!({
                "key": profile.key, "name": props.name, "memory_bytes": props.device_bytes,
                "memory_bytes_per_second": props.memory_bytes_per_second,
                "offload_bytes_per_second": props.offload_bytes_per_second,
                "fetch_bytes_per_second": props.fetch_bytes_per_second, "launch_ns": props.overhead_ns,
                "pricing": props.pricing(),
                "flops": { "f64": props.flops.f64, "f32": props.flops.f32, "f16": props.flops.f16, "bf16": props.flops.bf16 },
            })
        });
        json::print_list("devices", &rows.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(presets::ASCII_MARKDOWN);
    table.set_header([
        "key",
        "name",
        "memory",
        "GB/s",
        "TFLOP/s f32",
        "f16",
        "link GB/s",
        "launch us",
        "kernels",
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
            match [props.fetch_bytes_per_second, props.offload_bytes_per_second] {
                [to_device, to_host] if to_device == to_host => rounded(to_device / 1e9),
                ways => ways.map(|rate| rounded(rate / 1e9)).join(" / "),
            },
            rounded(props.overhead_ns as f64 / 1e3),
            if props.kernels.is_some() { "priced".into() } else { "roofline".into() },
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        match index {
            // Narrow terminals have no room for names.
            1 if width().is_some_and(|width| width < NAMED_WIDTH) => {
                column.set_constraint(ColumnConstraint::Hidden);
            }
            0 | 2 | 8 => {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            _ => {}
        }
        column.set_cell_alignment(if index < 2 { CellAlignment::Left } else { CellAlignment::Right });
    }
    println!("{table}");
    #[cfg(feature = "cuda")]
    {
        println!("\nFor cuda:N, this machine has:");
        crate::info::print_found();
    }
    Ok(ExitCode::SUCCESS)
}
