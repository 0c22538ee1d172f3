//! What a GPU's launches, pages, pinned memory, copies and arithmetic cost, and what an op's submission takes the program's thread.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use burn::tensor::Tensor;
use burn_overcommit::engine::{Engine, Flops, HostTimes, KernelRates, Lane, Launch, Props, Span, Tier};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, View};
use burn_overcommit::runtime::sync;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};
use clap::Args;
use serde_json::json;

use crate::bed::{Bed, engine, engine_with_pages, least};
use crate::say;

#[derive(Args)]
pub struct Options {
    /// Which of the driver's devices.
    #[arg(long, default_value_t = 0)]
    index: u16,
    /// Rows and columns of the matrices that are multiplied.
    #[arg(long, default_value_t = 4096)]
    size: usize,
    /// MiB of each copy.
    #[arg(long, default_value_t = 256)]
    copy_mib: usize,
    /// Launches in a row.
    #[arg(long, default_value_t = 2000)]
    launches: usize,
    /// MiB of pages that are mapped for comparison; none if 0.
    #[arg(long, default_value_t = 32)]
    large_pages_mib: usize,
    /// Where the device profile goes: the file of `sim:FILE.json`.
    #[arg(long)]
    profile: Option<PathBuf>,
}

/// Pages mapped in a row.
const PAGES: usize = 64;
/// Elements of `f32` from which on the engine notes a launch's end by an event, since someone is likely to wait for it.
const MARKED: usize = 64 << 10;

/// Prints one figure.
fn cost(what: &str, value: f64, unit: &str) {
    say(json!({ "kind": "cost", "what": what, "value": value, "unit": unit }));
}

pub fn run(options: &Options) -> Result<()> {
    let host_us = submission_us(options.index, options.launches)?;
    let bytes = options.copy_mib << 20;
    let made = engine(options.index)?;
    let props = made.props().clone();
    say(
        json!({ "kind": "device", "name": props.name, "free_bytes": props.device_bytes, "host_bytes": props.host_bytes,
        "published_memory_gbps": props.memory_bytes_per_second / 1e9 }),
    );
    let [map_call_us, map_page_us] = pages(&made)?;
    if options.large_pages_mib > 0 {
        pages(&engine_with_pages(options.index, Some(options.large_pages_mib << 20))?)?;
    }
    let device_bytes = (4 * bytes).max(5 * options.size * options.size * 8).min(props.device_bytes / 2);
    let bed = Bed::new(made, device_bytes)?;
    let small = View::contiguous(Dtype::F32, Shape::new(&[MARKED - 64]));
    let launch_us =
        bed.seconds(&bed.launch(Op::Binary(Binary::Add), &[small, small])?, options.launches)? * 1e6;
    cost("launch without an event", launch_us, "us");
    host_times(&bed)?;
    let marked = View::contiguous(Dtype::F32, Shape::new(&[MARKED]));
    let marked_us =
        bed.seconds(&bed.launch(Op::Binary(Binary::Add), &[marked, marked])?, options.launches)? * 1e6;
    cost("launch with an event", marked_us, "us");
    let ([offload_gbps, fetch_gbps], pin_gib_ms) = copies(&bed, bytes)?;
    let own_gbps = own_kernel(&bed, bytes)?;
    let flops = flops(&bed, options.size)?;
    let rates = props.kernels.map(|rates| KernelRates { memory_bytes_per_second: own_gbps * 1e9, ..rates });
    let measured = Props {
        name: format!("{}, measured", props.name),
        flops,
        memory_bytes_per_second: own_gbps * 1e9,
        offload_bytes_per_second: offload_gbps * 1e9,
        fetch_bytes_per_second: fetch_gbps * 1e9,
        peer_bytes_per_second: None,
        view_bytes: None,
        host: HostTimes {
            // Without autodiff, so that it is the least.
            op_ns: ((host_us - launch_us).max(0.0) * 1e3) as u64,
            launch_ns: (launch_us * 1e3) as u64,
            pin_gib_ns: (pin_gib_ms * 1e6) as u64,
            map_call_ns: (map_call_us * 1e3) as u64,
            map_page_ns: (map_page_us * 1e3) as u64,
            ..props.host
        },
        kernels: rates,
        ..props
    };
    if let Some(path) = &options.profile {
        std::fs::write(path, serde_json::to_string_pretty(&measured)? + "\n")
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// What the thread that launches takes for it, where the device does not hold it up.
fn host_times(bed: &Bed) -> Result<()> {
    const FEW: usize = 500;
    let view = View::contiguous(Dtype::F32, Shape::new(&[64]));
    for (what, op, views) in [
        ("an addition", Op::Binary(Binary::Add), vec![view; 2]),
        ("a copy", Op::Copy { dtype: Dtype::F32 }, vec![view]),
    ] {
        let launch = bed.launch(op, &views)?;
        bed.seconds(&launch, 1)?;
        let mut submitted = f64::INFINITY;
        let whole = least(|| {
            let begin = Instant::now();
            (0..FEW).try_for_each(|_| bed.run(&launch))?;
            submitted = submitted.min(begin.elapsed().as_secs_f64());
            bed.finish(Lane::Compute)
        })?;
        cost(&format!("launch of {what} of 64 elements, of the thread"), submitted * 1e6 / FEW as f64, "us");
        cost(&format!("launch of {what} of 64 elements"), whole * 1e6 / FEW as f64, "us");
    }
    Ok(())
}

/// What the program's thread takes to submit an op through Burn's own calls, in microseconds.
fn submission_us(index: u16, launches: usize) -> Result<f64> {
    let device = OvercommitDevice::Cuda(index);
    configure(&device, Config::new().fusion(false))?;
    let one = Tensor::<Overcommit, 1>::zeros([64], &device);
    let run = || {
        let mut sum = one.clone();
        for _ in 0..launches {
            sum = sum + one.clone();
        }
        sum
    };
    let _ = run().into_data();
    let mut least_us = f64::INFINITY;
    for _ in 0..5 {
        sync(&device)?;
        let begin = Instant::now();
        let sum = run();
        least_us = least_us.min(begin.elapsed().as_secs_f64() * 1e6 / launches as f64);
        drop(sum);
    }
    cost("submission of an op through Burn", least_us, "us");
    Ok(least_us)
}

/// What a call that maps pages anew takes beside its pages, and a page, in microseconds: 0 where device memory is not mapped by page.
fn pages(engine: &dyn Engine) -> Result<[f64; 2]> {
    let Some(page_bytes) = engine.props().page_bytes else { return Ok([0.0; 2]) };
    let page = format!("page of {} MiB", page_bytes >> 20);
    let range = engine.reserve(PAGES * page_bytes)?;
    let pages: Vec<u32> = (0..PAGES as u32).collect();
    let turned: Vec<u32> = pages.iter().rev().copied().collect();
    let per_page_us = |seconds: f64| seconds * 1e6 / PAGES as f64;
    let timed = |run: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let begin = Instant::now();
        run()?;
        Ok(per_page_us(begin.elapsed().as_secs_f64()))
    };
    // SAFETY: nothing is submitted on these addresses.
    let map = |at: Span, pages: &[u32]| -> Result<()> { Ok(unsafe { engine.map_pages(at, pages, &[]) }?) };
    cost(&format!("{page} mapped the first time"), timed(&mut || map(range, &pages))?, "us");
    let anew = least(|| map(range, &turned))?;
    let anew = per_page_us(anew);
    cost(&format!("{page} mapped anew, with its neighbours"), anew, "us");
    let alone = least(|| {
        let each = pages.iter().enumerate();
        each.into_iter()
            .try_for_each(|(place, &page)| map(range.slice(place * page_bytes, page_bytes), &[page]))
    })?;
    let alone = per_page_us(alone);
    cost(&format!("{page} mapped anew, alone"), alone, "us");
    let released = timed(&mut || {
        engine.release_pages(&pages);
        Ok(())
    })?;
    cost(&format!("{page} given back"), released, "us");
    // What a page takes alone is a call and a page.
    Ok([(alone - anew).max(0.0), anew])
}

/// Copies between tiers: alone, both ways at once, and beside a kernel that keeps device memory busy. GB/s of each way alone, and milliseconds that
/// pinning a GiB takes.
fn copies(bed: &Bed, bytes: usize) -> Result<([f64; 2], f64)> {
    let engine = &bed.engine;
    let begin = Instant::now();
    let host = engine.map(Tier::Host, 2 * bytes)?;
    let gib = (2 * bytes) as f64 / f64::from(1 << 30);
    let pin_gib_ms = begin.elapsed().as_secs_f64() * 1e3 / gib;
    cost("pinned allocation", pin_gib_ms, "ms/GiB");
    let memory = bed.memory();
    let (down, up) = (memory.slice(0, bytes), memory.slice(bytes, bytes));
    let (to, from) = (host.slice(0, bytes), host.slice(bytes, bytes));
    // SAFETY: all are mapped, as large and apart, and what is copied is waited for.
    let copy = |lane, from: Span, to: Span| -> Result<()> { Ok(unsafe { engine.copy(lane, from, to) }?) };
    let offload = || copy(Lane::Offload, down, to);
    let fetch = || copy(Lane::Fetch, from, up);
    let gbps = |seconds: f64| bytes as f64 / seconds / 1e9;
    let alone = |lane: Lane, submit: &dyn Fn() -> Result<()>| -> Result<f64> {
        Ok(gbps(least(|| submit().and_then(|()| bed.finish(lane)))?))
    };
    let (down_gbps, up_gbps) = (alone(Lane::Offload, &offload)?, alone(Lane::Fetch, &fetch)?);
    cost("offload", down_gbps, "GB/s");
    cost("fetch", up_gbps, "GB/s");
    let both = least(|| {
        offload()?;
        fetch()?;
        bed.finish(Lane::Offload)?;
        bed.finish(Lane::Fetch)
    })?;
    cost("offload and fetch at once, each", gbps(both), "GB/s");
    let tiny = least(|| {
        copy(Lane::Fetch, from.slice(0, 256), up.slice(0, 256)).and_then(|()| bed.finish(Lane::Fetch))
    })?;
    cost("copy of 256 bytes, waited for", tiny * 1e6, "us");
    beside_a_kernel(bed, bytes, &offload)?;
    engine.unmap(host);
    Ok(([down_gbps, up_gbps], pin_gib_ms))
}

/// A copy beside kernels that read and write device memory, and these beside the copy.
fn beside_a_kernel(bed: &Bed, bytes: usize, offload: &dyn Fn() -> Result<()>) -> Result<()> {
    let busy =
        bed.launch(Op::Binary(Binary::Add), &[View::contiguous(Dtype::F32, Shape::new(&[bytes / 4])); 2])?;
    let alone = bed.seconds(&busy, 8)?;
    let copied = least(|| offload().and_then(|()| bed.finish(Lane::Offload)))?;
    // As many as run while the copy does.
    let count = ((copied / alone) as usize).clamp(1, 1000);
    let kernels = || (0..count).try_for_each(|_| bed.run(&busy));
    let kernels_alone = least(|| kernels().and_then(|()| bed.finish(Lane::Compute)))?;
    let (mut kernels_beside, mut copy_beside) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..5 {
        let begin = Instant::now();
        offload()?;
        kernels()?;
        bed.finish(Lane::Compute)?;
        kernels_beside = kernels_beside.min(begin.elapsed().as_secs_f64());
        bed.finish(Lane::Offload)?;
        copy_beside = copy_beside.min(begin.elapsed().as_secs_f64());
    }
    cost("offload beside kernels, of its time alone", copy_beside / copied, "x");
    cost("kernels beside an offload, of their time alone", kernels_beside / kernels_alone, "x");
    Ok(())
}

/// What a kernel of this crate's that only adds moves, in GB/s.
fn own_kernel(bed: &Bed, bytes: usize) -> Result<f64> {
    let inside = least(|| {
        // SAFETY: both are mapped, as large and apart, and the copy is waited for.
        unsafe {
            bed.engine.copy(Lane::Compute, bed.memory().slice(0, bytes), bed.memory().slice(bytes, bytes))
        }?;
        bed.finish(Lane::Compute)
    })?;
    cost("device memory, by the driver's copy", 2.0 * bytes as f64 / inside / 1e9, "GB/s");
    let view = View::contiguous(Dtype::F32, Shape::new(&[bytes / 4]));
    let launch: Launch = bed.launch(Op::Binary(Binary::Add), &[view, view])?;
    let gbps = 3.0 * bytes as f64 / bed.seconds(&launch, 8)? / 1e9;
    cost("device memory, by this crate's addition", gbps, "GB/s");
    Ok(gbps)
}

/// What products reach.
fn flops(bed: &Bed, size: usize) -> Result<Flops> {
    let work = 2.0 * (size as f64).powi(3);
    let rate = |dtype: Dtype| -> Result<f64> {
        let square = View::contiguous(dtype, Shape::new(&[size; 2]));
        let per_second = work / bed.seconds(&bed.launch(Op::Matmul, &[square, square])?, 3)?;
        cost(&format!("product of {dtype}"), per_second / 1e12, "TFLOP/s");
        Ok(per_second)
    };
    Ok(Flops {
        f64: rate(Dtype::F64)?,
        f32: rate(Dtype::F32)?,
        f16: rate(Dtype::F16)?,
        bf16: rate(Dtype::BF16)?,
    })
}
