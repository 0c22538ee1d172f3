//! Where the Python on the PATH has its packages, among which NVIDIA's libraries may be, also those of an environment
//! that is not active. It is asked only where a library is nowhere else, once, and never for the driver.

use std::env;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::folders::nvidia_folders;

/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where it is installed, then where it looks for packages, a line each.
const QUESTION: &str = "import sys; print('\\n'.join([sys.prefix, *sys.path]))";

/// The folders of libraries of the Python on the PATH, which is asked once.
pub(super) fn folders() -> &'static [PathBuf] {
    static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOLDERS.get_or_init(|| {
        let answer = env::var_os("PATH").and_then(|path| ask(&path, PATIENCE));
        answer.map_or(Vec::new(), |answer| library_folders(&answer))
    })
}

/// What the first `python3` of a path answers; nothing if there is none, or if it fails or takes longer.
fn ask(path: &OsStr, patience: Duration) -> Option<String> {
    let program =
        env::split_paths(path).map(|folder| folder.join("python3")).find(|program| program.is_file())?;
    let mut command = Command::new(program);
    command.args(["-c", QUESTION]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let start = Instant::now();
    // The answer is shorter than what a pipe holds, so it can be read afterwards.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < patience => thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut answer = String::new();
    child.stdout.take()?.read_to_string(&mut answer).ok().filter(|_| status.success())?;
    Some(answer)
}

/// Those that are there of `lib` where it is installed, as Conda has them, and of its packages, as wheels have them.
fn library_folders(answer: &str) -> Vec<PathBuf> {
    let mut lines = answer.lines().filter(|line| !line.is_empty()).map(Path::new);
    let installed = lines.next().map(|prefix| prefix.join("lib"));
    let folders = installed.into_iter().chain(lines.flat_map(nvidia_folders));
    folders.filter(|folder| folder.is_dir()).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    /// A folder whose `python3` is this script of the shell. Another process writes it: while one that is forked here has it open
    /// for writing, it could not be run.
    fn with_python(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > python3 && chmod +x python3", "sh", script]);
        assert!(shell.current_dir(folder.path()).status().unwrap().success());
        folder
    }

    #[test]
    fn python_is_asked_where_its_packages_are() {
        let environment = tempfile::tempdir().unwrap();
        let site = environment.path().join("lib/python3.12/site-packages");
        let cudnn = site.join("nvidia/cudnn/lib");
        fs::create_dir_all(&cudnn).unwrap();
        let script = format!(
            "[ \"$1\" = -c ] && printf '%s\\n' {} '' /nowhere {}",
            environment.path().display(),
            site.display()
        );
        let python = with_python(&script);
        let path = env::join_paths([Path::new("/nowhere"), python.path(), Path::new("/usr/bin")]).unwrap();
        let answer = ask(&path, Duration::from_secs(60)).expect("it answers");
        assert_eq!(library_folders(&answer), [environment.path().join("lib"), cudnn]);
    }

    #[test]
    fn a_python_that_does_not_answer_does_no_harm() {
        let ask = |path: &Path, ms| ask(path.as_os_str(), Duration::from_millis(ms));
        assert_eq!(ask(Path::new("/nowhere"), 60_000), None);
        assert_eq!(ask(with_python("echo /usr; exit 1").path(), 60_000), None);
        assert_eq!(ask(with_python("exec sleep 600").path(), 50), None);
        assert!(library_folders("").is_empty());
    }
}
