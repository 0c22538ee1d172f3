//! Prints the folder of the libraries, for `OVERCOMMIT_CUDA_LIBRARIES`.

fn main() {
    println!("{}", burn_overcommit_standin::folder().display());
}
