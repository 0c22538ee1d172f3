//! The functions of NVIDIA's libraries that the engine calls, itself or through `cudarc`, by their names. A test
//! compares the list with the sources, and `scripts/check-libraries` finds all of them in NVIDIA's own libraries.

use super::libraries::Library;

impl Library {
    /// Those of it that are called.
    pub(super) fn symbols(self) -> &'static [&'static str] {
        match self {
            Library::Driver => &DRIVER,
            Library::Nvrtc => &NVRTC,
            Library::CublasLt => &CUBLAS_LT,
            Library::Cudnn => &CUDNN,
        }
    }

    /// The one that tells its version, of those libraries that tell it in a number.
    pub(super) fn version_symbol(self) -> Option<&'static str> {
        match self {
            Library::Driver | Library::Nvrtc => None,
            Library::CublasLt => Some("cublasLtGetVersion"),
            Library::Cudnn => Some("cudnnGetVersion"),
        }
    }
}

/// The driver's.
const DRIVER: [&str; 43] = [
    "cuCtxEnablePeerAccess",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchHostFunc",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyAsync",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// NVRTC's.
const NVRTC: [&str; 12] = [
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// cuBLASLt's.
const CUBLAS_LT: [&str; 14] = [
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
];

/// cuDNN's.
const CUDNN: [&str; 10] = [
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendExecute",
    "cudnnBackendFinalize",
    "cudnnBackendGetAttribute",
    "cudnnBackendSetAttribute",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnGetVersion",
    "cudnnSetStream",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// What the functions of `cudarc` that the engine uses call in turn.
    const THROUGH_CUDARC: [(&str, &[&str]); 5] = [
        ("result::compile_program", &["nvrtcCompileProgram"]),
        ("result::destroy_program", &["nvrtcDestroyProgram"]),
        ("result::get_program_log", &["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"]),
        ("result::get_ptx", &["nvrtcGetPTXSize", "nvrtcGetPTX"]),
        (".error_string()", &["cuGetErrorString"]),
    ];

    /// The engine's sources but for this.
    fn sources(folder: &Path) -> String {
        let entries = fs::read_dir(folder).expect("the sources are there").flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let text = |path: &std::path::PathBuf| match path.is_dir() {
            true => sources(path),
            false if path.ends_with("symbols.rs") => String::new(),
            false => fs::read_to_string(path).expect("a source is text"),
        };
        paths.iter().map(text).collect()
    }

    /// The library whose function a word is the name of, if it is one. Types end in `_t`, but for one; two are the libraries' own names.
    fn library_of(word: &str) -> Option<Library> {
        let is_other = word.ends_with("_t") || ["nvrtcProgram", "cuDNN", "cuBLASLt"].contains(&word);
        let prefixes = [("cublasLt", 2), ("cudnn", 3), ("nvrtc", 1), ("cu", 0)];
        let function = |prefix: &str| {
            word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        let (_, at) = prefixes.into_iter().find(|(prefix, _)| function(prefix) && !is_other)?;
        Some(Library::ALL[at])
    }

    #[test]
    fn the_lists_are_what_the_sources_call() {
        let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/cuda"));
        let mut called = BTreeSet::new();
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            called.extend(library_of(word).map(|library| (library.stem(), word)));
        }
        for (function, symbols) in THROUGH_CUDARC {
            assert!(text.contains(function), "{function} is not used any more");
            called.extend(symbols.iter().map(|symbol| (library_of(symbol).unwrap().stem(), *symbol)));
        }
        for (at, _) in text.match_indices("result::") {
            let known = THROUGH_CUDARC.iter().any(|(function, _)| text[at..].starts_with(function));
            assert!(
                known || !text[at + 8..].starts_with(|c: char| c.is_ascii_lowercase()),
                "{}",
                &text[at..at + 60]
            );
        }
        let versions =
            Library::ALL.into_iter().filter_map(|library| Some((library.stem(), library.version_symbol()?)));
        called.extend(versions);
        let listed: BTreeSet<_> = (Library::ALL.into_iter())
            .flat_map(|library| library.symbols().iter().map(move |symbol| (library.stem(), *symbol)))
            .collect();
        assert_eq!(listed, called);
    }
}
