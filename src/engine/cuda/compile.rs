//! Kernels compiled by NVRTC: for each file, the instances of one element type at a time.

use std::ffi::{CString, c_char};
use std::fmt::Write;
use std::ptr;

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use crate::op::Dtype;
use crate::op::lower::KernelName;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// What is compiled at once: the kernels of a file that are instances of one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    pub file: &'static str,
    pub instance: Dtype,
}

/// A file that is compiled.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its name, for messages.
    pub name: String,
    pub text: String,
}

/// Which instructions to make, as NVRTC is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Those of an architecture, such as 90.
    Code(u32),
    /// Those that the driver translates, for a device newer than the compiler.
    Intermediate(u32),
}

/// What NVRTC made.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// What the driver loads.
    pub image: Vec<u8>,
    /// The intermediate code, as text: what `check` reads.
    #[cfg_attr(not(feature = "host"), allow(dead_code))]
    pub ptx: String,
}

impl Unit {
    pub fn of(name: &KernelName) -> Self {
        Unit { file: name.file(), instance: name.instance() }
    }

    /// The source: which instances are wanted, and the file.
    pub fn source(&self) -> Source {
        Source { name: format!("{}.cu", self.file), text: self.text() }
    }

    fn text(&self) -> String {
        let mut text = String::from("#define SIMT_PARTIAL\n");
        let mut names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
        names.dedup();
        for name in names {
            let instances = if name == self.instance.name() { "__VA_ARGS__" } else { "" };
            writeln!(text, "#define ONLY_{name}(...) {instances}").expect("a string takes all");
        }
        text + text_of(&format!("{}.cu", self.file))
    }
}

fn text_of(name: &str) -> &'static str {
    let source = SOURCES.iter().find(|(other, _)| *other == name);
    source.unwrap_or_else(|| panic!("there is no kernel file `{name}`")).1
}

/// What the sources include.
fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES.iter().copied().filter(|(name, _)| name.ends_with(".cuh"))
}

/// Everything that decides what a source becomes, the compiler's version included: what a cache goes by.
pub(super) fn recipe(source: &Source, target: Target, (major, minor): (i32, i32)) -> Vec<u8> {
    let mut bytes = source.text.clone().into_bytes();
    for (name, text) in headers() {
        bytes.extend([name.as_bytes(), text.as_bytes()].concat());
    }
    bytes.extend(options(target).join(" ").into_bytes());
    bytes.extend(format!("NVRTC {major}.{minor}").into_bytes());
    bytes
}

fn options(target: Target) -> [String; 4] {
    let architecture = match target {
        Target::Code(number) => format!("sm_{number}"),
        Target::Intermediate(number) => format!("compute_{number}"),
    };
    // Floats round after each operation, as on the host engine.
    [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".into(),
        "-default-device".into(),
        "--fmad=false".into(),
    ]
}

/// The compiler's major and minor version.
pub(super) fn version() -> Result<(i32, i32), String> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point to integers.
    let asked = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    asked.result().map_err(|error| failed("nvrtcVersion", error))?;
    Ok((major, minor))
}

/// What to make for a device: its own instructions, if this compiler knows them.
pub(super) fn target(architecture: u32) -> Result<Target, String> {
    let mut count = 0;
    // SAFETY: it points to an integer.
    let asked = unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) };
    asked.result().map_err(|error| failed("nvrtcGetNumSupportedArchs", error))?;
    let mut known = vec![0; count as usize];
    // SAFETY: there is room for as many as it said.
    let asked = unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
    asked.result().map_err(|error| failed("nvrtcGetSupportedArchs", error))?;
    choose(architecture, &known)
}

fn choose(architecture: u32, known: &[i32]) -> Result<Target, String> {
    let known = known.iter().map(|&number| number as u32);
    if known.clone().any(|number| number == architecture) {
        return Ok(Target::Code(architecture));
    }
    let older = known.filter(|&number| number < architecture).max();
    older.map(Target::Intermediate).ok_or_else(|| format!("this NVRTC does not know sm_{architecture}"))
}

fn failed(call: &str, error: NvrtcError) -> String {
    format!("{call}: {error}")
}

/// A program of NVRTC's, given back when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created, and nobody uses it any more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

impl Program {
    fn new(source: &Source) -> Result<Self, String> {
        let text = |text: &str| CString::new(text).expect("sources have no zeros");
        let (source, name) = (text(&source.text), text(&source.name));
        let (names, texts): (Vec<CString>, Vec<CString>) =
            headers().map(|(name, content)| (text(name), text(content))).unzip();
        let pointers =
            |strings: &[CString]| -> Vec<*const c_char> { strings.iter().map(|s| s.as_ptr()).collect() };
        let mut program = ptr::null_mut();
        // SAFETY: all strings end with a zero and outlive the call; there are as many names as texts.
        let created = unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                names.len() as i32,
                pointers(&texts).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        created.result().map_err(|error| failed("nvrtcCreateProgram", error))?;
        Ok(Program(program))
    }

    fn log(&self) -> String {
        // SAFETY: the program lives.
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        text_from(&log)
    }

    fn ptx(&self) -> Result<String, String> {
        // SAFETY: the program lives and was compiled.
        let ptx = unsafe { result::get_ptx(self.0) }.map_err(|error| failed("nvrtcGetPTX", error))?;
        Ok(text_from(&ptx))
    }

    fn cubin(&self) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program lives and was compiled, and `bytes` is a size.
        let asked = unsafe { sys::nvrtcGetCUBINSize(self.0, &mut bytes) };
        asked.result().map_err(|error| failed("nvrtcGetCUBINSize", error))?;
        let mut image = vec![0u8; bytes];
        // SAFETY: there is room for as many bytes as it said.
        let asked = unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) };
        asked.result().map_err(|error| failed("nvrtcGetCUBIN", error))?;
        Ok(image)
    }
}

/// What a C string in a buffer says.
fn text_from(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Compiles a source. NVRTC must be open.
///
/// # Errors
/// What NVRTC says, with its log.
pub(super) fn compile(source: &Source, target: Target) -> Result<Compiled, String> {
    let program = Program::new(source)?;
    // SAFETY: the program lives.
    let compiled = unsafe { result::compile_program(program.0, &options(target)) };
    compiled.map_err(|error| format!("{} for {target:?}: {error}\n{}", source.name, program.log()))?;
    let ptx = program.ptx()?;
    let image = match target {
        Target::Code(_) => program.cubin()?,
        // The driver wants the zero at the end.
        Target::Intermediate(_) => [ptx.as_bytes(), &[0]].concat(),
    };
    Ok(Compiled { image, ptx })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_a_file_that_is_there() {
        for name in KernelName::all() {
            let source = Unit::of(&name).text();
            assert!(source.contains("EXPORT_TABLE"), "{name}");
            assert_eq!(source.matches("__VA_ARGS__\n").count(), 1, "{name}");
        }
    }

    #[test]
    fn a_newer_device_gets_what_the_driver_translates() {
        assert_eq!(choose(90, &[75, 80, 90]), Ok(Target::Code(90)));
        assert_eq!(choose(100, &[75, 80, 90]), Ok(Target::Intermediate(90)));
        assert!(choose(70, &[75, 80]).is_err());
    }
}
