//! What can be made again, kept on disk under a key: compiled kernels and plans. Whatever is not as it was written counts as not
//! there.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

/// A folder of files. Without one, nothing is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskCache {
    folder: Option<PathBuf>,
}

/// What a file begins with, before the hash of its contents.
const MAGIC: &[u8; 8] = b"OVERCU01";

/// The bytes of a file before its contents.
pub const SEAL_BYTES: usize = MAGIC.len() + 16;

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

/// A file of these contents, of which the first [`SEAL_BYTES`] tell whether it is whole.
pub fn sealed(contents: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), &hash(contents), contents].concat()
}

/// The user's folder for what can be made again.
fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .or_else(|| absolute("LOCALAPPDATA"))
}

impl DiskCache {
    /// In a folder of this name in the user's cache folder.
    pub fn of_user(name: &str) -> Self {
        DiskCache { folder: user_folder().map(|folder| folder.join("burn-overcommit").join(name)) }
    }

    /// In a folder of one's own.
    pub fn at(folder: &Path) -> Self {
        DiskCache { folder: Some(folder.into()) }
    }

    fn path(&self, key: &[u8]) -> Option<PathBuf> {
        let name: String = hash(key).iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.as_ref().map(|folder| folder.join(name))
    }

    /// Whether there is a file under `key`, whole or not.
    pub fn has(&self, key: &[u8]) -> bool {
        self.path(key).is_some_and(|path| path.exists())
    }

    /// The contents kept under `key`, if they are whole.
    pub fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let bytes = fs::read(&path).ok()?;
        let contents = bytes.strip_prefix(MAGIC)?;
        let (expected, contents) = contents.split_at_checked(16)?;
        (hash(contents) == expected).then(|| contents.to_vec())
    }

    /// Keeps contents, for the user's own eyes. Whoever else writes under the same key does not disturb this: the last file is kept,
    /// and nothing is written through a link.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, key: &[u8], contents: &[u8]) -> io::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // A name that nobody can know beforehand.
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(&sealed(contents))?;
        file.persist(path)?;
        Ok(())
    }

    /// Marks the file under `key` as used now.
    pub fn touch(&self, key: &[u8]) {
        let file = self.path(key).and_then(|path| fs::File::options().append(true).open(path).ok());
        // A file that cannot be marked is removed earlier than others.
        let _ = file.map(|file| file.set_modified(SystemTime::now()));
    }

    /// Removes the files that were used the longest ago, until all together take at most so many bytes.
    pub fn trim(&self, max_bytes: u64) {
        let Some(entries) = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok()) else { return };
        let file = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries.flatten().filter_map(file).collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|&(_, bytes, _)| bytes).sum();
        for (_, file_bytes, path) in files {
            if bytes <= max_bytes {
                return;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            bytes -= file_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::at(&folder.path().join("kept"));
        assert_eq!(cache.read(b"source"), None);
        cache.write(b"source", b"image").unwrap();
        assert_eq!(cache.read(b"source"), Some(b"image".to_vec()));
        assert_eq!(cache.read(b"another"), None);
        DiskCache::default().write(b"source", b"image").unwrap();
        assert_eq!(DiskCache::default().read(b"source"), None);
    }

    /// Whoever knows the process's number could lay a link under the name of a file that is still being written.
    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_links_and_files_are_the_users_own() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::at(&folder.path().join("kept"));
        let (path, elsewhere) = (cache.path(b"source").unwrap(), folder.path().join("elsewhere"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&elsewhere, b"another's").unwrap();
        symlink(&elsewhere, &path).unwrap();
        symlink(&elsewhere, path.with_extension(std::process::id().to_string())).unwrap();
        cache.write(b"source", b"image").unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"another's");
        assert_eq!(cache.read(b"source"), Some(b"image".to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_was_changed_counts_as_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::at(folder.path());
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

    #[test]
    fn what_was_used_the_longest_ago_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::at(folder.path());
        for (place, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
            cache.write(key, &[0; 76]).unwrap();
            let file = fs::File::options().append(true).open(cache.path(key).unwrap()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(place as u64)).unwrap();
        }
        cache.touch(b"a");
        cache.trim(200);
        assert_eq!([b"a", b"b", b"c"].map(|key| cache.read(key).is_some()), [true, false, true]);
        cache.trim(200);
        assert!(cache.read(b"a").is_some());
    }
}
