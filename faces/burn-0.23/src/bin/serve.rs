//! See [`burn_overcommit_023::serve`].

fn main() -> std::process::ExitCode {
    burn_overcommit_023::serve()
}
