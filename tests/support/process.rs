//! Tests in processes of their own: for environment variables, loggers, memory, and whatever ends a process.

use std::process::Command;

const CHILD: &str = "TEST_IS_CHILD";

/// This test program once more, to run one test alone: `child(module_path!(), "name")`.
pub fn child(module: &str, test: &str) -> Command {
    // The test harness names tests without their crate.
    let (_, module) = module.split_once("::").expect("tests are in modules");
    let mut command = Command::new(std::env::current_exe().expect("the program has a path"));
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture"]).env(CHILD, "1");
    command
}

/// Returns whether this process is such a child.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Returns whether this process runs that test alone; if not, runs it so in a child and panics if it fails there.
pub fn is_alone(module: &str, test: &str) -> bool {
    if !is_child() {
        let output = child(module, test).output().expect("it runs once more");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    is_child()
}
