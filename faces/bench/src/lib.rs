//! Benchmarks that compare faces: `cargo bench`.
