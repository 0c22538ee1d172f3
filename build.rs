//! Compiles the kernels for the host engine, and puts their sources into the program for the CUDA engine.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    // Set by cargo-fuzz.
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    #[cfg(feature = "host")]
    host::compile();
    #[cfg(feature = "cuda")]
    cuda::embed();
}

/// The files of `kernels/` with one of these endings, by name.
#[cfg(any(feature = "host", feature = "cuda"))]
fn sources(endings: &[&str]) -> Vec<std::path::PathBuf> {
    let mut files: Vec<std::path::PathBuf> = std::fs::read_dir("kernels")
        .expect("the crate has a folder of kernels")
        .map(|entry| entry.expect("the folder of kernels can be read").path())
        .filter(|path| {
            endings.iter().any(|ending| path.extension().is_some_and(|extension| extension == *ending))
        })
        .collect();
    files.sort();
    files
}

#[cfg(feature = "cuda")]
mod cuda {
    use std::path::Path;

    /// Names and texts of all sources: `SOURCES`.
    pub fn embed() {
        let rows: String = (super::sources(&["cu", "cuh"]).iter())
            .map(|file| {
                let path = std::fs::canonicalize(file).expect("a source that was listed");
                let name = file.file_name().expect("a source has a name").to_string_lossy();
                format!("    ({name:?}, include_str!({path:?})),\n")
            })
            .collect();
        let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        let text = format!("pub(super) const SOURCES: &[(&str, &str)] = &[\n{rows}];\n");
        std::fs::write(Path::new(&folder).join("sources.rs"), text).expect("OUT_DIR can be written");
    }
}

#[cfg(feature = "host")]
mod host {
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::path::{Path, PathBuf};

    /// The kernels that a training on the processor is measurably faster with at the second level: copies of images, random numbers.
    const AT_SECOND_LEVEL: [&str; 2] = ["conv", "create"];

    /// Kernels for x86-64 take processors with AVX2, unless the one that compiles has none. One build, since it takes half a minute.
    pub fn compile() {
        println!("cargo::rerun-if-env-changed=DOCS_RS");
        println!("cargo::rustc-check-cfg=cfg(kernels_use_avx2)");
        let is_x86 = std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
        let uses_avx2 = is_x86 && !is_older_processor();
        if uses_avx2 {
            println!("cargo::rustc-cfg=kernels_use_avx2");
        }
        let files = super::sources(&["cu"]);
        build(&files, uses_avx2.then_some("-march=x86-64-v3"));
        let folder = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        std::fs::write(Path::new(&folder).join("tables.rs"), tables(&files)).expect("OUT_DIR can be written");
    }

    /// Returns whether the processor that compiles is of x86-64, for itself, and without AVX2.
    fn is_older_processor() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::env::var("HOST") == std::env::var("TARGET") && !is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Rust declarations of the tables that `EXPORT_TABLE` defines, one per file, and a list of them: `TABLES`.
    fn tables(files: &[PathBuf]) -> String {
        let names: Vec<String> = (files.iter())
            .map(|file| file.file_stem().expect("a source has a name").to_string_lossy())
            .map(|stem| format!("overcommit_kernels_{stem}_host"))
            .collect();
        let declarations: String = (names.iter())
            .map(|name| format!("    fn {name}(count: *mut u64) -> *const Kernel;\n"))
            .collect();
        format!(
            "unsafe extern \"C\" {{\n{declarations}}}\nconst TABLES: &[Table] = &[{}];\n",
            names.join(", ")
        )
    }

    fn build(files: &[PathBuf], instruction_set: Option<&str>) {
        // Documentation takes the declarations alone, and docs.rs, which sets this, need not have a C++ compiler.
        if std::env::var_os("DOCS_RS").is_some() {
            return;
        }
        let is_at_second = |file: &&PathBuf| {
            file.file_stem().is_some_and(|stem| AT_SECOND_LEVEL.iter().any(|name| stem == *name))
        };
        let (at_second, at_first): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(is_at_second);
        let compiled = |level: u32, files: &[&PathBuf]| objects(&compiler(level, instruction_set), files);
        let linked = compiled(1, &at_first).and_then(|objects| {
            cc::Build::new()
                .cpp(true)
                .cargo_warnings(false)
                .objects(objects)
                .objects(compiled(2, &at_second)?)
                .try_compile("overcommit_kernels")
        });
        if let Err(error) = linked {
            panic!(
                "burn-overcommit: the `host` feature needs a C++17 compiler such as g++ or clang++ \
                 (set CXX to name it, or build without the feature): {error}"
            );
        }
    }

    fn compiler(level: u32, instruction_set: Option<&str>) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .opt_level(level)
            .debug(false)
            .warnings(false)
            .cargo_warnings(false)
            .define("SIMT_SUFFIX", "_host");
        // Integers wrap, and floats round after each operation, as in Rust and whatever the instruction set.
        for flag in [
            "-fwrapv",
            "-fno-strict-aliasing",
            "-fno-exceptions",
            "-fno-rtti",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-ffp-contract=off",
        ] {
            build.flag(flag);
        }
        // The vectors of the third level alone.
        build.flag("-ftree-vectorize").flag_if_supported("-fvect-cost-model=dynamic");
        // The sources are named `.cu`, which compilers take for CUDA.
        build.flag("-x").flag("c++");
        if let Some(flag) = instruction_set {
            build.flag(flag);
        }
        build
    }

    /// The objects of these files. They are kept beside the build folders of all packages, named by what they are made from, so
    /// that builds with other features, and of the crates for other versions of Burn, find them there.
    fn objects(build: &cc::Build, files: &[&PathBuf]) -> Result<Vec<PathBuf>, cc::Error> {
        let own = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        // The profile's folder / build / this package / out.
        let kept = own.ancestors().nth(3).unwrap_or(&own).join("overcommit-kernels");
        std::fs::create_dir_all(&kept).expect("the target folder can be written");
        let compiler = build.try_get_compiler()?;
        let command = format!("{:?} {:?}", compiler.path(), compiler.args());
        let kept = |file: &&PathBuf| {
            let name = file.file_stem().expect("a source has a name").to_string_lossy();
            kept.join(format!("{name}-{}.o", key(file, &command)))
        };
        let missing: Vec<&PathBuf> = files.iter().copied().filter(|file| !kept(file).exists()).collect();
        let made = build.clone().files(&missing).out_dir(&own).try_compile_intermediates()?;
        for (file, made) in missing.iter().zip(made) {
            let moved = std::fs::rename(made, kept(file));
            assert!(moved.is_ok() || kept(file).exists(), "the target folder can be written: {moved:?}");
        }
        Ok(files.iter().map(kept).collect())
    }

    /// Changes with what the object of this file is made from: the command, its text and the headers it includes.
    fn key(file: &Path, command: &str) -> String {
        let mut hasher = DefaultHasher::new();
        command.hash(&mut hasher);
        let mut paths = vec![file.to_path_buf()];
        let mut at = 0;
        while at < paths.len() {
            let text = std::fs::read_to_string(&paths[at]).expect("a source can be read");
            text.hash(&mut hasher);
            for line in text.lines().filter_map(|line| line.strip_prefix("#include \"")) {
                let header = file.with_file_name(line.trim_end_matches('"'));
                if !paths.contains(&header) {
                    paths.push(header);
                }
            }
            at += 1;
        }
        hasher.finish().to_string()
    }
}
