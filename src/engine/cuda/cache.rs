//! Compiled kernels on disk, by what they were made from. Whatever is not as it was written counts as not there.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A folder of images. Without one, nothing is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

/// What a file begins with, before the hash of its image.
const MAGIC: &[u8; 8] = b"OVERCU01";

/// Two numbers that differ where the bytes do.
fn hash(bytes: &[u8]) -> [u8; 16] {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, bytes).hash(&mut hasher);
        hasher.finish().to_le_bytes()
    };
    let mut both = [0; 16];
    both[..8].copy_from_slice(&half(1));
    both[8..].copy_from_slice(&half(2));
    both
}

/// The user's folder for what can be made again.
fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .or_else(|| absolute("LOCALAPPDATA"))
}

impl Cache {
    /// In the user's cache folder.
    pub fn of_user() -> Self {
        Cache { folder: user_folder().map(|folder| folder.join("burn-overcommit").join("kernels")) }
    }

    /// In a folder of one's own.
    #[cfg(test)]
    pub fn at(folder: &Path) -> Self {
        Cache { folder: Some(folder.into()) }
    }

    fn path(&self, recipe: &[u8]) -> Option<PathBuf> {
        let name: String = hash(recipe).iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.as_ref().map(|folder| folder.join(name))
    }

    /// The image made from `recipe`, if it was kept and is whole.
    pub fn read(&self, recipe: &[u8]) -> Option<Vec<u8>> {
        let bytes = fs::read(self.path(recipe)?).ok()?;
        let image = bytes.strip_prefix(MAGIC)?;
        let (expected, image) = image.split_at_checked(16)?;
        (hash(image) == expected).then(|| image.to_vec())
    }

    /// Keeps an image. Processes that write the same one do not disturb each other.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, recipe: &[u8], image: &[u8]) -> io::Result<()> {
        let Some(path) = self.path(recipe) else { return Ok(()) };
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let own = path.with_extension(std::process::id().to_string());
        let mut file = fs::File::create(&own)?;
        file.write_all(MAGIC)?;
        file.write_all(&hash(image))?;
        file.write_all(image)?;
        drop(file);
        fs::rename(own, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("kernels"));
        assert_eq!(cache.read(b"source"), None);
        cache.write(b"source", b"image").unwrap();
        assert_eq!(cache.read(b"source"), Some(b"image".to_vec()));
        assert_eq!(cache.read(b"another"), None);
        Cache::default().write(b"source", b"image").unwrap();
        assert_eq!(Cache::default().read(b"source"), None);
    }

    #[test]
    fn what_was_changed_counts_as_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path());
        cache.write(b"source", b"image").unwrap();
        let path = cache.path(b"source").unwrap();
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            fs::write(&path, changed).unwrap();
            assert_eq!(cache.read(b"source"), None, "byte {place}");
        }
        fs::write(&path, &whole[..10]).unwrap();
        assert_eq!(cache.read(b"source"), None);
    }
}
