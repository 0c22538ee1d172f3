//! Compiles the kernels for the host engine: once for any processor, once for x86-64-v3, chosen between at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    #[cfg(feature = "host")]
    compile();
}

#[cfg(feature = "host")]
fn compile() {
    let is_x86_64 = std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let variants: &[(&str, Option<&str>)] = if is_x86_64 {
        &[("_base", None), ("_v3", Some("-march=x86-64-v3"))]
    } else {
        &[("_base", None)]
    };
    for (suffix, march) in variants {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .opt_level(3)
            .define("SIMT_SUFFIX", *suffix)
            .warnings(false);
        for flag in [
            "-xc++",
            "-std=c++17",
            "-fwrapv",
            "-fno-exceptions",
            "-fno-math-errno",
            "-ffp-contract=off",
        ] {
            build.flag(flag);
        }
        if let Some(march) = march {
            build.flag(march);
        }
        build
            .file("kernels/conv.cu")
            .compile(&format!("overcommit_kernels{suffix}"));
    }
}
