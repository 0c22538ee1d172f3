//! See [`burn_overcommit_022::serve`].

fn main() -> std::process::ExitCode {
    burn_overcommit_022::serve()
}
