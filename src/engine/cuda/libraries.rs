//! Finding the libraries of CUDA: where the linker looks, else in the usual folders, where they are opened by their
//! paths; else where Python looks ([`python`]).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cudarc::{cublaslt, cudnn, driver, nvrtc};

use super::folders::{configured_folders, usual_folders};
use super::python;

/// A library that the engine opens while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// The driver, which comes with the GPU.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
    /// Products of matrices.
    CublasLt,
    /// Convolutions.
    Cudnn,
}

/// A library that is nowhere: what was looked for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    library: Library,
    folders: Vec<PathBuf>,
    /// What the system said of those that are there and could not be opened.
    refused: Vec<String>,
}

impl Library {
    pub const ALL: [Library; 4] = [Library::Driver, Library::Nvrtc, Library::CublasLt, Library::Cudnn];

    /// The name without `lib` and `.so`.
    pub fn stem(self) -> &'static str {
        match self {
            Library::Driver => "cuda",
            Library::Nvrtc => "nvrtc",
            Library::CublasLt => "cublasLt",
            Library::Cudnn => "cudnn",
        }
    }

    /// Major versions that will do, the best first.
    fn majors(self) -> &'static [u32] {
        match self {
            Library::Driver => &[1],
            Library::Nvrtc | Library::CublasLt => &[13, 12],
            Library::Cudnn => &[9],
        }
    }

    /// What it opens by name itself, from its own folder.
    fn companion(self) -> Option<&'static str> {
        (self == Library::Nvrtc).then_some("nvrtc-builtins")
    }

    /// Whether `cudarc` can open it by name: by the linker, or because it is open already.
    fn is_open(self) -> bool {
        // SAFETY: opens the library, whose start-up code is NVIDIA's and may run at any time.
        unsafe {
            match self {
                Library::Driver => driver::sys::is_culib_present(),
                Library::Nvrtc => nvrtc::sys::is_culib_present(),
                Library::CublasLt => cublaslt::sys::is_culib_present(),
                Library::Cudnn => cudnn::sys::is_culib_present(),
            }
        }
    }

    /// Opens it, for as long as the process lives: from the configured folders if it is there, else by the linker, else from
    /// the usual folders, else from those of the Python on the PATH. The configured ones are separated as in PATH.
    pub fn open(self, configured: Option<&Path>) -> Result<(), Missing> {
        let mut refused = Vec::new();
        let mut open_in = |folders: &[PathBuf]| {
            folders.iter().filter_map(|folder| self.find(folder)).any(|file| {
                self.open_file(&file).map_err(|reason| refused.push(reason)).is_ok() && self.is_open()
            })
        };
        let configured = configured_folders(configured);
        let usual = usual_folders();
        if open_in(&configured) || self.is_open() || open_in(&usual) {
            return Ok(());
        }
        // Asked only now, since it is a process; no package has the driver.
        let python = if self == Library::Driver { &[][..] } else { python::folders() };
        let python: Vec<PathBuf> = python.iter().filter(|folder| !usual.contains(*folder)).cloned().collect();
        match open_in(&python) {
            true => Ok(()),
            false => Err(Missing { library: self, folders: [configured, usual, python].concat(), refused }),
        }
    }

    /// The file of the best version in a folder.
    fn find(self, folder: &Path) -> Option<PathBuf> {
        let versions = versions(folder, self.stem());
        let of = |major: Option<u32>| versions.iter().find(|(version, _)| *version == major);
        let best = self.majors().iter().find_map(|&major| of(Some(major))).or_else(|| of(None))?;
        Some(best.1.clone())
    }

    fn open_file(self, file: &Path) -> Result<(), String> {
        let beside = self.companion().zip(file.parent());
        let companions = beside.map_or(Vec::new(), |(stem, folder)| versions(folder, stem));
        let files = companions.iter().map(|(_, path)| path.as_path()).chain([file]);
        files.into_iter().try_for_each(keep_open)
    }
}

/// The files `libSTEM.so` and `libSTEM.so.MAJOR..` of a folder, with their major versions.
fn versions(folder: &Path, stem: &str) -> Vec<(Option<u32>, PathBuf)> {
    let prefix = format!("lib{stem}.so");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let rest = name.to_str()?.strip_prefix(&prefix)?;
        let major = match rest.strip_prefix('.') {
            Some(version) => Some(version.split('.').next()?.parse().ok()?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some((major, entry.path()))
    };
    let mut versions: Vec<_> = entries.filter_map(version).collect();
    versions.sort();
    versions
}

/// Opens a library by its path. Whoever opens it by its name from then on gets the same.
#[cfg(unix)]
fn keep_open(file: &Path) -> Result<(), String> {
    // SAFETY: the start-up code of NVIDIA's libraries may run at any time.
    let library = unsafe { libloading::Library::new(file) };
    library.map(std::mem::forget).map_err(|error| format!("{}: {error}", file.display()))
}

/// A system where names are not shared: the linker alone finds libraries.
#[cfg(not(unix))]
fn keep_open(file: &Path) -> Result<(), String> {
    Err(format!("{}: not in the linker's path", file.display()))
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stem = self.library.stem();
        let names: Vec<String> =
            (self.library.majors().iter()).map(|major| format!("lib{stem}.so.{major}")).collect();
        write!(f, "lib{stem}.so ({}) was not found: not by the linker (LD_LIBRARY_PATH)", names.join(", "))?;
        if !self.folders.is_empty() {
            let folders: Vec<String> = self.folders.iter().map(|path| path.display().to_string()).collect();
            write!(f, ", and not in {}", folders.join(", "))?;
        }
        for reason in &self.refused {
            write!(f, "; {reason}")?;
        }
        let (source, package) = match self.library {
            Library::Driver => return write!(f, ". It comes with NVIDIA's driver"),
            Library::Nvrtc => ("with the CUDA toolkit", "nvidia-cuda-nvrtc-cu12"),
            Library::CublasLt => ("with the CUDA toolkit", "nvidia-cublas-cu12"),
            Library::Cudnn => ("from NVIDIA", "nvidia-cudnn-cu12"),
        };
        write!(
            f,
            ". It comes {source}, and as a Python package (pip install {package}); OVERCOMMIT_CUDA_LIBRARIES names \
             folders"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_version_of_a_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libnvrtc.so.11.2", "libnvrtc.so.12", "libnvrtc.so.13.0.88", "libnvrtc.alt.so.13"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = Library::Nvrtc.find(folder.path()).unwrap();
        assert_eq!(found.file_name().unwrap(), "libnvrtc.so.13.0.88");
        assert_eq!(Library::Driver.find(folder.path()), None);
        fs::write(folder.path().join("libcuda.so"), "").unwrap();
        assert_eq!(Library::Driver.find(folder.path()), Some(folder.path().join("libcuda.so")));
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = Missing {
            library: Library::Nvrtc,
            folders: vec!["/opt/cuda/lib64".into()],
            refused: vec!["/x/libnvrtc.so.13: not a library".into()],
        };
        let text = missing.to_string();
        for part in
            ["libnvrtc.so.13", "libnvrtc.so.12", "/opt/cuda/lib64", "not a library", "LD_LIBRARY_PATH"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
