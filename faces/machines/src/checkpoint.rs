//! What a node goes on from: network and optimizer after some step. A checkpoint is in its place or is not: it is written beside it.

use std::fs;
use std::path::{Path, PathBuf};

use burn::record::{FullPrecisionSettings, NamedMpkFileRecorder, Record, Recorder};
use burn_overcommit::OvercommitDevice;

use crate::Error;
use crate::network::Training;

/// So many are kept: a node that dies while it writes one has the one before, and so have the others.
const KEPT: usize = 2;
/// What the recorder appends to names.
const EXTENSION: &str = "mpk";

fn recorder() -> NamedMpkFileRecorder<FullPrecisionSettings> {
    NamedMpkFileRecorder::default()
}

fn prefix(rank: usize) -> String {
    format!("node-{rank}-step-")
}

/// Where the checkpoint of a node after a step is, without the recorder's extension.
fn place(folder: &Path, rank: usize, step: usize) -> PathBuf {
    folder.join(format!("{}{step}", prefix(rank)))
}

/// The steps after which a node has checkpoints, the last one first.
///
/// # Errors
/// A folder that exists and cannot be read.
pub fn steps(folder: &Path, rank: usize) -> Result<Vec<usize>, Error> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| Error::file(folder, error))? {
        let name = entry.map_err(|error| Error::file(folder, error))?.file_name();
        let step: Option<usize> = name.to_str().and_then(|name| {
            name.strip_prefix(&prefix(rank))?.strip_suffix(&format!(".{EXTENSION}"))?.parse().ok()
        });
        steps.extend(step);
    }
    steps.sort_unstable_by(|a, b| b.cmp(a));
    Ok(steps)
}

/// Writes the checkpoint of a node after a step, and removes those before the last ones.
///
/// # Errors
/// A file that cannot be written.
pub fn save<R: Record<Training>>(folder: &Path, rank: usize, step: usize, record: R) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    let place = place(folder, rank, step).with_extension(EXTENSION);
    let beside = folder.join(format!("unfinished-{rank}.{EXTENSION}"));
    recorder().record(record, beside.clone()).map_err(|error| Error::file(&beside, error))?;
    let written = fs::File::open(&beside).and_then(|file| file.sync_all());
    written.and_then(|()| fs::rename(&beside, &place)).map_err(|error| Error::file(&place, error))?;
    steps(folder, rank)?.into_iter().skip(KEPT).try_for_each(|old| remove(folder, rank, old))
}

fn remove(folder: &Path, rank: usize, step: usize) -> Result<(), Error> {
    let file = place(folder, rank, step).with_extension(EXTENSION);
    fs::remove_file(&file).map_err(|error| Error::file(&file, error))
}

/// Removes the checkpoints of a node after a step from which all nodes go on.
///
/// # Errors
/// A file that cannot be removed.
pub fn forget_after(folder: &Path, rank: usize, step: usize) -> Result<(), Error> {
    let mut later = steps(folder, rank)?.into_iter().filter(|&later| later > step);
    later.try_for_each(|later| remove(folder, rank, later))
}

/// Reads the checkpoint of a node after a step.
///
/// # Errors
/// A file that cannot be read.
pub fn load<R: Record<Training>>(
    folder: &Path,
    rank: usize,
    step: usize,
    device: &OvercommitDevice,
) -> Result<R, Error> {
    let place = place(folder, rank, step);
    recorder().load(place.clone(), device).map_err(|error| Error::file(place, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_are_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let save = |step| save(folder.path(), 3, step, step).expect("it can be written");
        [1, 2, 30].into_iter().for_each(save);
        assert_eq!(steps(folder.path(), 3).expect("it is there"), [30, 2]);
        let device = OvercommitDevice::Host(12);
        assert_eq!(load::<usize>(folder.path(), 3, 30, &device).expect("it is there"), 30);
        assert!(load::<usize>(folder.path(), 3, 1, &device).is_err());
        forget_after(folder.path(), 3, 2).expect("it is there");
        assert_eq!(steps(folder.path(), 3).expect("it is there"), [2]);
        assert!(steps(folder.path(), 4).expect("it is there").is_empty());
        assert!(steps(&folder.path().join("none"), 3).expect("there need not be one").is_empty());
    }
}
