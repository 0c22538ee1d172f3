//! Compiles the kernels as the GPU is given them, with a driver and a compiler that run them on a CPU.

use std::path::{Path, PathBuf};
use std::process::Command;

const KERNELS: &str = "../kernels";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=driver");
    println!("cargo::rerun-if-changed={KERNELS}");
    // Sanitizers are asked for by the first two.
    ["CXX", "CXXFLAGS", "DOCS_RS"].iter().for_each(|name| println!("cargo::rerun-if-env-changed={name}"));
    // Documentation and lints need no libraries.
    let is_only_read = std::env::var_os("DOCS_RS").is_some();
    if is_only_read || std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let files = kernels();
    let mut build = compiler();
    build.define("SIMT_EMULATED", None).define("SIMT_SUFFIX", "_emulated").files(&files);
    let mut objects = build.compile_intermediates();
    std::fs::write(out.join("tables.h"), tables(&files)).expect("OUT_DIR can be written");
    objects.extend(compiler().include(&out).file("driver/driver.cpp").compile_intermediates());
    let mut fragments = compiler();
    fragments.include(KERNELS).define("SIMT_EMULATED", None).file("driver/fragments.cpp");
    objects.extend(fragments.compile_intermediates());
    link(&out.join("libcuda.so"), &objects, None);
    let headers = headers(&out);
    let mut nvrtc = compiler();
    for (name, text) in
        [("STANDIN_COMPILER", command()), ("STANDIN_HEADERS", format!("{}/", headers.display()))]
    {
        nvrtc.define(name, &*format!("\"{text}\""));
    }
    nvrtc.file("driver/nvrtc.cpp");
    link(&out.join("libnvrtc.so"), &nvrtc.compile_intermediates(), None);
    for (library, file) in [("libcublasLt.so", "driver/cublaslt.cpp"), ("libcudnn.so", "driver/cudnn.cpp")] {
        // With the kernels' element types.
        let mut build = compiler();
        build.include(KERNELS).define("SIMT_EMULATED", None).file(file);
        link(&out.join(library), &build.compile_intermediates(), Some(&out));
    }
}

fn kernels() -> Vec<PathBuf> {
    files_with("cu")
}

fn files_with(extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(KERNELS).expect("the workspace has a folder of kernels");
    let paths = entries.map(|entry| entry.expect("the folder of kernels can be read").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

/// A folder with the headers, and with what the compiler makes of generated kernels' own beforehand: without it, most of the time
/// that such a kernel takes goes to reading them.
fn headers(out: &Path) -> PathBuf {
    let folder = out.join("headers");
    std::fs::create_dir_all(&folder).expect("OUT_DIR can be written");
    for file in files_with("cuh") {
        std::fs::copy(&file, folder.join(file.file_name().expect("a header has a name")))
            .expect("OUT_DIR can be written");
    }
    let header = folder.join("generated.cuh");
    let tool = compiler().get_compiler();
    let mut command = Command::new(tool.path());
    // GCC takes the language from one place only.
    command.args(tool.args().iter().filter(|word| *word != "-x" && *word != "c++"));
    command.args(["-x", "c++-header", "-DSIMT_EMULATED", "-DSIMT_SUFFIX=_emulated"]);
    command.arg(&header).arg("-o").arg(folder.join("generated.cuh.gch"));
    assert!(command.status().is_ok_and(|status| status.success()), "{} cannot be compiled", header.display());
    folder
}

/// Rounds as the host engine's build does; little is gained here by more than the first level.
fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(1).debug(false).pic(true).warnings(false).cargo_metadata(false);
    for flag in
        ["-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
    {
        build.flag(flag);
    }
    build.flag("-x").flag("c++");
    build
}

/// The compiler with its flags, as the shell takes it: for what is compiled while a program runs.
fn command() -> String {
    let tool = compiler().get_compiler();
    let words = [tool.path().as_os_str()].into_iter().chain(tool.args().iter().map(|word| word.as_os_str()));
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What the driver includes: the tables that the kernels' files export.
fn tables(files: &[PathBuf]) -> String {
    let stem = |file: &PathBuf| file.file_stem().expect("a source has a name").to_string_lossy().into_owned();
    let names: Vec<String> = files.iter().map(stem).collect();
    let declarations: String = (names.iter())
        .map(|name| format!("extern \"C\" const Entry* overcommit_kernels_{name}_emulated(u64*);\n"))
        .collect();
    let rows: String = (names.iter())
        .map(|name| format!("  {{\"{name}\", overcommit_kernels_{name}_emulated}},\n"))
        .collect();
    format!("{declarations}const Table TABLES[] = {{\n{rows}}};\n")
}

/// Under the name that programs look for first, so that no other library takes its place. With the driver of that folder, if
/// one is named.
fn link(library: &Path, objects: &[PathBuf], driver: Option<&Path>) {
    let name = library.file_name().expect("a library has a name").to_string_lossy();
    let mut command = Command::new(compiler().get_compiler().path());
    command.args(["-shared", "-o"]).arg(library).arg(format!("-Wl,-soname,{name}")).args(objects);
    if let Some(folder) = driver {
        command.arg("-L").arg(folder).args(["-lcuda", "-Wl,-rpath,$ORIGIN"]);
    }
    let status = (command.status()).unwrap_or_else(|error| panic!("the linker does not start: {error}"));
    assert!(status.success(), "{name} cannot be linked");
}
