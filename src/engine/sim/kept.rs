//! Profiles that a user keeps by name: JSON files in a folder of the user's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::profiles::{Profile, profiles};

/// The user's folder of profiles.
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .or_else(|| absolute("APPDATA"));
    config.map(|config| config.join("burn-overcommit").join("devices"))
}

/// The file of a key, which must be a name and no path.
fn file_of(key: &str) -> Option<PathBuf> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_key = !key.is_empty() && key.bytes().all(is_name);
    folder().filter(|_| is_key).map(|folder| folder.join(format!("{key}.json")))
}

impl Profile {
    /// Keeps the device of a JSON file, so that every program of this user finds it by the file's name: `sim:mine` after `mine.json`.
    /// One that was kept under that name is replaced. Its file is in the folder `burn-overcommit/devices` of the user's configuration.
    ///
    /// # Errors
    /// Why the file cannot be read or kept, in words.
    pub fn keep(path: &Path) -> Result<Self, String> {
        let profile = Profile::read(path)?;
        let key = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if profiles().iter().any(|known| known.key == key) {
            return Err(format!("sim:{key} is a device of the table: give the file another name"));
        }
        let expected = || format!("\"{key}\" names no device: letters, digits, - and _ do");
        let to = file_of(&key).ok_or_else(expected)?;
        let text = serde_json::to_string_pretty(&profile.props).map_err(|error| error.to_string())?;
        to.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&to, text))
            .map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(Profile { key, ..profile })
    }

    /// The device that this user keeps under a key; nothing if there is none.
    ///
    /// # Errors
    /// Why its file cannot be read, in words.
    pub(crate) fn kept(key: &str) -> Option<Result<Self, String>> {
        let file = file_of(key).filter(|file| file.exists())?;
        Some(Profile::read(&file).map(|profile| Profile { key: key.into(), ..profile }))
    }

    /// The devices that this user keeps, by key. Files that cannot be read are left out.
    pub fn all_kept() -> Vec<Self> {
        let entries = folder().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let key = |entry: fs::DirEntry| entry.path().file_stem()?.to_str().map(str::to_owned);
        let mut kept: Vec<Self> =
            entries.filter_map(key).filter_map(|key| Profile::kept(&key)?.ok()).collect();
        kept.sort_by(|a, b| a.key.cmp(&b.key));
        kept
    }
}
