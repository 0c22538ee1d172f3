//! Which of NVIDIA's libraries are found, where, of which version, and whether they have what the engine calls.

use std::fmt;
use std::path::{Path, PathBuf};

use super::libraries::Library;
use super::{compile, driver};

/// A library that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLibrary {
    /// Its file, where the system tells.
    pub file: Option<PathBuf>,
    /// Of CUDA, or its own, where it tells.
    pub version: Option<String>,
    /// How many of its functions the engine calls.
    pub symbols: usize,
    /// Those of them that it does not have.
    pub missing: Vec<&'static str>,
}

/// Its version and file, and what it lacks, if anything.
impl fmt::Display for FoundLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version.as_deref().unwrap_or("of an unknown version"))?;
        if let Some(file) = &self.file {
            write!(f, ": {}", file.display())?;
        }
        if !self.missing.is_empty() {
            write!(f, ", which lacks {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

/// The driver, NVRTC, cuBLASLt and cuDNN by their names; or, in words, what was looked for and where. The folders, separated as in `PATH`,
/// come before all others. What is found stays open.
pub fn found_libraries(folders: Option<&Path>) -> Vec<(&'static str, Result<FoundLibrary, String>)> {
    let found = |library: Library| {
        let opened = library.open(folders).map_err(|missing| missing.to_string());
        (library.stem(), opened.map(|()| library.found()))
    };
    Library::ALL.into_iter().map(found).collect()
}

impl Library {
    /// What it is, once it is open.
    fn found(self) -> FoundLibrary {
        let handle = self.handle();
        // SAFETY: the symbols are only looked for.
        let is_missing = |symbol: &str| unsafe { handle.get::<*const u8>(symbol) }.is_err();
        let symbols = self.symbols();
        let missing: Vec<&str> = symbols.iter().copied().filter(|symbol| is_missing(symbol)).collect();
        FoundLibrary { file: self.file(), version: self.version(handle), symbols: symbols.len(), missing }
    }

    /// As `cudarc` has it.
    fn handle(self) -> &'static libloading::Library {
        // SAFETY: it is open.
        unsafe {
            match self {
                Library::Driver => cudarc::driver::sys::culib(),
                Library::Nvrtc => cudarc::nvrtc::sys::culib(),
                Library::CublasLt => cudarc::cublaslt::sys::culib(),
                Library::Cudnn => cudarc::cudnn::sys::culib(),
            }
        }
    }

    /// Its file, from the process's list of what is mapped, which Linux has.
    fn file(self) -> Option<PathBuf> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let start = format!("/lib{}.so", self.stem());
        let of_line = |line: &str| {
            let path = &line[line.find('/')?..];
            let rest = &path[path.rfind(&start)? + start.len()..];
            (rest.is_empty() || rest.starts_with('.')).then(|| PathBuf::from(path))
        };
        maps.lines().find_map(of_line)
    }

    /// Its version as those that are to read it write it.
    fn version(self, handle: &libloading::Library) -> Option<String> {
        match self {
            Library::Driver => {
                driver::version().ok().map(|version| format!("{}.{}", version / 1000, version % 1000 / 10))
            }
            Library::Nvrtc => compile::version().ok().map(|(major, minor)| format!("{major}.{minor}")),
            Library::CublasLt | Library::Cudnn => {
                // SAFETY: it takes nothing, and gives a number.
                let version =
                    unsafe { handle.get::<unsafe extern "C" fn() -> usize>(self.version_symbol()?).ok()?() };
                Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
            }
        }
    }
}
