//! Folders where libraries of CUDA may be.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of a list that is separated as PATH is.
pub(super) fn configured_folders(list: Option<&Path>) -> Vec<PathBuf> {
    let folders = list.into_iter().flat_map(|list| env::split_paths(list).collect::<Vec<_>>());
    folders.filter(|folder| !folder.as_os_str().is_empty()).collect()
}

/// Where CUDA is installed: named by the environment, by the distributions, by Python's wheels.
pub(super) fn usual_folders() -> Vec<PathBuf> {
    let named =
        ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let installed = ["/usr/local/cuda", "/opt/cuda", "/usr/local/cuda-13", "/usr/local/cuda-12"];
    let homes = named.chain(installed.map(PathBuf::from));
    let mut folders: Vec<PathBuf> = (homes)
        .flat_map(|home| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|folder| home.join(folder)))
        .collect();
    let system =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"];
    folders.extend(system.map(PathBuf::from));
    folders.extend(python_folders().into_iter().flat_map(|site| nvidia_folders(&site)));
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Folders of Python packages.
fn python_folders() -> Vec<PathBuf> {
    let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let prefixes = prefixes.chain(home).chain(["/usr/local", "/usr"].map(PathBuf::from));
    let libraries = prefixes.flat_map(|prefix| subfolders(&prefix.join("lib")));
    let pythons = libraries
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    let mut sites: Vec<PathBuf> =
        env::var_os("PYTHONPATH").map_or(Vec::new(), |paths| env::split_paths(&paths).collect());
    sites.extend(pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|site| python.join(site))));
    sites
}

/// `nvidia/*/lib` of a folder of Python packages.
pub(super) fn nvidia_folders(site: &Path) -> Vec<PathBuf> {
    subfolders(&site.join("nvidia")).into_iter().map(|package| package.join("lib")).collect()
}

/// In the order of their names, the latest version first.
fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_by(|a, b| b.cmp(a));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_folders_can_be_configured() {
        let list = env::join_paths(["/opt/cudnn/lib", "/opt/cublas/lib"]).unwrap();
        let expected = ["/opt/cudnn/lib", "/opt/cublas/lib"].map(PathBuf::from);
        assert_eq!(configured_folders(Some(list.as_ref())), expected);
        assert_eq!(configured_folders(Some("/opt/cuda".as_ref())), [PathBuf::from("/opt/cuda")]);
        assert!(configured_folders(None).is_empty() && configured_folders(Some("".as_ref())).is_empty());
    }

    #[test]
    fn wheels_are_looked_into() {
        let site = tempfile::tempdir().unwrap();
        let lib = site.path().join("nvidia/cuda_nvrtc/lib");
        fs::create_dir_all(&lib).unwrap();
        assert_eq!(nvidia_folders(site.path()), [lib]);
    }
}
