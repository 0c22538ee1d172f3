//! What NVRTC makes of every kernel: for `scripts/check-kernels`, whether it is what the engine expects; for `scripts/check-sass`, the
//! machine code.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::compile::{self, Source, Target, Unit};
use super::libraries::Library;
use crate::disk_cache::DiskCache;
use crate::engine::{Instruction, Launch, host, kernels};
use crate::op::lower::KernelName;
use crate::op::lower::generated::Generated;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Kernels made, for all architectures.
    pub compiled: usize,
    /// Kernels not made.
    pub failed: usize,
    /// Kernels whose arguments have another size than on the host, and kernels that nobody asks for.
    pub mismatches: usize,
    /// Architectures compiled for.
    pub architectures: usize,
    /// What is wrong, in words.
    pub messages: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { compiled, failed, mismatches, architectures, .. } = self;
        write!(
            f,
            "kernels: compiled={compiled} failed={failed} abi-mismatches={mismatches} architectures={architectures}"
        )
    }
}

impl Report {
    fn add(&mut self, other: Report) {
        self.compiled += other.compiled;
        self.failed += other.failed;
        self.mismatches += other.mismatches;
        self.messages.extend(other.messages);
    }
}

/// Which kernels are compiled, and for what.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Compute capabilities without their point.
    pub architectures: Vec<u32>,
    /// Files of `kernels/` without their ending; all, if there are none.
    pub files: Vec<String>,
    /// Of each file for one type of element alone, another for each architecture.
    pub sample: bool,
}

/// A file for one type of element, and the kernels that are asked for in it.
type Work = (Unit, Vec<KernelName>);

/// Machine code of a file of kernels for one type of element.
#[derive(Debug)]
pub struct Cubin {
    /// The compute capability without its point.
    pub architecture: u32,
    /// What the driver loads.
    pub image: Vec<u8>,
    /// The kernels in it that the engine launches.
    pub kernels: Vec<KernelName>,
}

impl Selection {
    /// File by file.
    fn units(&self) -> Vec<Vec<Work>> {
        let mut units = BTreeMap::<&str, BTreeMap<&str, Work>>::new();
        for name in KernelName::all() {
            let unit = Unit::of(&name);
            if self.files.is_empty() || self.files.iter().any(|file| file == unit.file) {
                let of_file = units.entry(unit.file).or_default();
                of_file.entry(unit.instance.name()).or_insert((unit, Vec::new())).1.push(name);
            }
        }
        units.into_values().map(|of_file| of_file.into_values().collect()).collect()
    }

    /// Of a file's units those that are compiled for the architecture at this place.
    fn of_file<'a>(&self, units: &'a [Work], architecture: usize) -> &'a [Work] {
        let one = architecture % units.len();
        if self.sample { &units[one..=one] } else { units }
    }
}

/// Compiles kernels with the NVRTC of a folder, and compares their arguments with those of the host engine. `threads` compile side by
/// side.
///
/// # Errors
/// If there is no NVRTC.
pub fn check_kernels(folder: Option<&Path>, selection: &Selection, threads: usize) -> Result<Report, String> {
    open(folder)?;
    let (major, minor) = compile::version()?;
    println!("NVRTC {major}.{minor}");
    let architectures = selection.architectures.len();
    let report = Mutex::new(Report { architectures, ..Report::default() });
    for_each_unit(selection, threads, |architecture, (unit, names), _| {
        let found = check_unit(architecture, unit, names);
        report.lock().expect("no other thread panicked").add(found);
    });
    Ok(report.into_inner().expect("no thread panicked"))
}

/// Compiles kernels with the NVRTC of a folder. `threads` compile side by side, and each gives what it made to `take`, with how many
/// units there are.
///
/// # Errors
/// If there is no NVRTC; what it says of a kernel is given to `take`.
pub fn cubins(
    folder: Option<&Path>,
    selection: &Selection,
    threads: usize,
    take: impl Fn(Result<Cubin, String>, usize) + Sync,
) -> Result<(), String> {
    open(folder)?;
    for_each_unit(selection, threads, |architecture, (unit, kernels), units| {
        let compiled = compile::compile(&unit.source(), Target::Code(architecture));
        let image = compiled.map(|compiled| compiled.image);
        take(image.map(|image| Cubin { architecture, image, kernels: kernels.clone() }), units);
    });
    Ok(())
}

/// Compiles kernels with the NVRTC of a folder, and keeps them where engines of this user find them. `threads` compile side by side.
/// Gives how many files there are now, each for a type and an architecture.
///
/// # Errors
/// If there is no NVRTC, what it says of a kernel, or what the file system does.
pub fn fill_cache(folder: Option<&Path>, selection: &Selection, threads: usize) -> Result<usize, String> {
    open(folder)?;
    let version = compile::version()?;
    let (cache, kept) = (DiskCache::of_user("kernels"), Mutex::new(Ok(0)));
    for_each_unit(selection, threads, |architecture, (unit, _), _| {
        let target = Target::Code(architecture);
        let recipe = compile::recipe(&unit.source(), target, version);
        let written = compile::compile(&unit.source(), target)
            .and_then(|compiled| cache.write(&recipe, &compiled.image).map_err(|error| error.to_string()));
        let mut kept = kept.lock().expect("no other thread panicked");
        *kept = written.and_then(|()| kept.as_ref().map(|count| count + 1).map_err(String::clone));
    });
    kept.into_inner().expect("no thread panicked")
}

/// Compiles the kernels that are generated for launches with the NVRTC of a folder, and keeps them where engines of this user find
/// them. Gives how many there are.
///
/// # Errors
/// If there is no NVRTC, if it refuses a kernel, or if a file cannot be written: the reason, in words.
pub fn cache_generated(
    folder: Option<&Path>,
    architecture: u32,
    launches: &[Launch],
) -> Result<usize, String> {
    open(folder)?;
    let (version, target) = (compile::version()?, Target::Code(architecture));
    let cache = DiskCache::of_user("kernels");
    let mut sources = BTreeMap::new();
    for launch in launches {
        let Instruction { op, views, outputs, .. } = &*launch.instruction;
        for call in kernels::calls(op, views, outputs).unwrap_or_default() {
            sources.extend(Generated::of(&call).map(|generated| (generated.text, generated.name)));
        }
    }
    for (text, name) in &sources {
        let source = Source { name: format!("{name}.cu"), text: text.clone() };
        let image = compile::compile(&source, target)?.image;
        cache.write(&compile::recipe(&source, target, version), &image).map_err(|error| error.to_string())?;
    }
    Ok(sources.len())
}

fn open(folder: Option<&Path>) -> Result<(), String> {
    Library::Nvrtc.open(folder).map_err(|missing| missing.to_string())
}

/// Does each unit of a selection for each architecture, on so many threads; the last argument is how many there are.
fn for_each_unit(selection: &Selection, threads: usize, run: impl Fn(u32, &Work, usize) + Sync) {
    let units = selection.units();
    let work: Vec<(u32, &Work)> = (selection.architectures.iter().enumerate())
        .flat_map(|(at, &number)| {
            let of_file = units.iter().flat_map(move |of_file| selection.of_file(of_file, at));
            of_file.map(move |work| (number, work))
        })
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(&(architecture, unit)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(architecture, unit, work.len());
                }
            });
        }
    });
}

fn check_unit(architecture: u32, unit: &Unit, names: &[KernelName]) -> Report {
    let mut report = Report::default();
    let ptx = match compile::compile(&unit.source(), Target::Code(architecture)) {
        Ok(compiled) => compiled.ptx,
        Err(error) => {
            return Report { failed: names.len(), messages: vec![error], ..report };
        }
    };
    let found = entries(&ptx);
    let names: Vec<String> = names.iter().map(KernelName::to_string).collect();
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        let at = format!("{name} for sm_{architecture}");
        match found.get(name.as_str()) {
            None => {
                report.failed += 1;
                report.messages.push(format!("{at}: {}.cu has no such kernel", unit.file));
            }
            Some(&bytes) => {
                report.compiled += 1;
                let on_host = host::kernel_args_bytes(name);
                if on_host != Some(bytes) {
                    report.mismatches += 1;
                    report.messages.push(format!("{at}: takes {bytes} bytes, on the host {on_host:?}"));
                }
            }
        }
    }
    for name in found.keys().filter(|&&name| !wanted.contains(name)) {
        report.mismatches += 1;
        report.messages.push(format!("{name}: nobody asks for it in {}.cu", unit.file));
    }
    report
}

/// The kernels in intermediate code, and the bytes of their arguments: one struct each.
fn entries(ptx: &str) -> BTreeMap<&str, u64> {
    (ptx.split(".entry ").skip(1))
        .filter_map(|text| {
            let (name, rest) = text.split_once('(')?;
            let parameters = rest.split_once(')')?.0;
            let bytes = parameters.rsplit_once('[')?.1.split_once(']')?.0;
            Some((name.trim(), bytes.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let ptx = ".visible .entry add_f32(\n\t.param .align 8 .b8 add_f32_param_0[376]\n)\n{ ret; }\n\
                   .visible .entry sub_f32(\n\t.param .align 8 .b8 sub_f32_param_0[8]\n)\n{ ret; }\n";
        assert_eq!(entries(ptx).into_iter().collect::<Vec<_>>(), [("add_f32", 376), ("sub_f32", 8)]);
    }
}
