//! The names of devices.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::engine::sim::{self, Profile};

/// Where tensors live and ops run.
///
/// [`default`](OvercommitDevice::default) is the device the environment names, else the first NVIDIA GPU where driver, GPU and
/// NVRTC are there and new enough, else `Host(0)`. A message says which, and why it is not the GPU. It is decided
/// once per process and never fails; where the environment names no device that there is, its first use does.
///
/// ```
/// use burn_overcommit::OvercommitDevice;
/// assert_eq!("host:1".parse(), Ok(OvercommitDevice::Host(1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OvercommitDevice {
    /// An NVIDIA GPU by index.
    Cuda(u16),
    /// The host engine: "device memory" is a bounded arena. Each index is a device of its own.
    Host(u16),
    /// No data and a virtual clock, on the device profile with this index.
    Sim(SimProfile),
    /// What the environment names, where there is no such device: [`default`](OvercommitDevice::default) never fails, and the first
    /// use of this says what was expected.
    Misnamed,
}

/// A row of the table of simulated devices: `sim:h200` by name, [`named`](SimProfile::named) or
/// [`add`](SimProfile::add)ed, or [kept](Profile::keep) by the user; `sim:FILE.json` is [read](Profile::read) from a file once.
/// See [`SimProfile::named`] and [`Profile`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimProfile(u16);

/// The vendors' profiles, and those added since.
/// All profiles, and whether they are found by their keys.
static PROFILES: LazyLock<RwLock<Vec<(Profile, bool)>>> =
    LazyLock::new(|| RwLock::new(sim::profiles().into_iter().map(|profile| (profile, true)).collect()));

impl SimProfile {
    /// The latest profile with that key.
    ///
    /// ```
    /// use burn_overcommit::{OvercommitDevice, SimProfile};
    /// let device = OvercommitDevice::Sim(SimProfile::named("h200").unwrap());
    /// assert_eq!(device.to_string(), "sim:h200");
    /// ```
    pub fn named(key: &str) -> Option<Self> {
        let profiles = PROFILES.read().unwrap_or_else(PoisonError::into_inner);
        let found = profiles.iter().rposition(|(profile, is_named)| *is_named && profile.key == key);
        found.map(|index| SimProfile(index as u16))
    }

    /// A device of one's own.
    ///
    /// # Panics
    /// If there are more than 65,535.
    pub fn add(profile: Profile) -> Self {
        SimProfile::insert(profile, true)
    }

    /// A device that its key does not name: one with more memory than the device of that name has.
    pub(crate) fn add_unnamed(profile: Profile) -> Self {
        SimProfile::insert(profile, false)
    }

    fn insert(profile: Profile, is_named: bool) -> Self {
        let mut profiles = PROFILES.write().unwrap_or_else(PoisonError::into_inner);
        let index = u16::try_from(profiles.len()).expect("profiles are counted in 16 bits");
        profiles.push((profile, is_named));
        SimProfile(index)
    }

    /// The profile.
    pub fn get(self) -> Option<Profile> {
        let profiles = PROFILES.read().unwrap_or_else(PoisonError::into_inner);
        profiles.get(usize::from(self.0)).map(|(profile, _)| profile.clone())
    }

    /// The profile of this key, in the table or kept by the user, or of the JSON file there; else what was expected.
    fn of_key_or_file(key: &str) -> Result<Self, String> {
        if let Some(profile) = SimProfile::named(key) {
            return Ok(profile);
        }
        match Profile::kept(key) {
            Some(kept) => kept.map(SimProfile::add),
            None if key.ends_with(".json") => Profile::read(Path::new(key))
                .map(SimProfile::add)
                .map_err(|error| format!("a file of a device's figures; {error}")),
            None => Err(format!("one of {}, or sim:FILE.json", SimProfile::names())),
        }
    }

    /// The devices of all profiles, each name once.
    fn names() -> String {
        let profiles = PROFILES.read().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<&str> = profiles
            .iter()
            .filter(|(_, is_named)| *is_named)
            .map(|(profile, _)| profile.key.as_str())
            .collect();
        let is_first = |at: &usize| !keys[..*at].contains(&keys[*at]);
        let names = (0..keys.len()).filter(is_first).map(|at| format!("sim:{}", keys[at]));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// The kinds of device that have a name, by the type id they have in Burn.
const KINDS: [&str; 3] = ["cuda", "host", "sim"];

impl OvercommitDevice {
    /// The kind and the index, as faces give them to Burn.
    #[doc(hidden)]
    pub fn parts(self) -> (u16, u16) {
        match self {
            OvercommitDevice::Cuda(index) => (0, index),
            OvercommitDevice::Host(index) => (1, index),
            OvercommitDevice::Sim(SimProfile(index)) => (2, index),
            OvercommitDevice::Misnamed => (3, 0),
        }
    }

    /// The reverse of [`parts`](Self::parts).
    #[doc(hidden)]
    pub fn from_parts(kind: u16, index: u16) -> Option<Self> {
        Some(match kind {
            0 => OvercommitDevice::Cuda(index),
            1 => OvercommitDevice::Host(index),
            2 => OvercommitDevice::Sim(SimProfile(index)),
            3 => OvercommitDevice::Misnamed,
            _ => return None,
        })
    }

    /// The device of this name; else what was expected.
    pub(crate) fn named(text: &str) -> Result<Self, String> {
        let unknown = || String::from("cuda:N, host:N or sim:KEY such as sim:h200");
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        if kind == "sim" {
            return SimProfile::of_key_or_file(index).map(OvercommitDevice::Sim);
        }
        let kind = KINDS.iter().position(|name| *name == kind).ok_or_else(unknown)?;
        let index = index.parse().map_err(|_| unknown())?;
        OvercommitDevice::from_parts(kind as u16, index).ok_or_else(unknown)
    }
}

impl fmt::Display for OvercommitDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, index) = self.parts();
        if let OvercommitDevice::Sim(profile) = self
            && let Some(Profile { key, .. }) = profile.get()
        {
            return write!(f, "sim:{key}");
        }
        match KINDS.get(usize::from(kind)) {
            Some(kind) => write!(f, "{kind}:{index}"),
            None => write!(f, "no device"),
        }
    }
}

impl FromStr for OvercommitDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        OvercommitDevice::named(text)
            .map_err(|expected| format!("unknown device \"{text}\": expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_through_ids_and_text() {
        for device in
            [OvercommitDevice::Cuda(3), OvercommitDevice::Host(0), OvercommitDevice::Sim(SimProfile(7))]
        {
            let (kind, index) = device.parts();
            assert_eq!(OvercommitDevice::from_parts(kind, index), Some(device));
            assert_eq!(device.to_string().parse(), Ok(device));
        }
    }

    #[test]
    fn a_device_is_read_from_a_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("measured.json");
        let h100 = SimProfile::named("h100").unwrap().get().unwrap();
        std::fs::write(&path, serde_json::to_string(&h100.props).unwrap()).unwrap();
        let name = format!("sim:{}", path.display());
        let device: OvercommitDevice = name.parse().unwrap();
        assert_eq!((device.to_string(), name.parse()), (name, Ok(device)));
        let OvercommitDevice::Sim(profile) = device else { panic!("{device} is not simulated") };
        assert_eq!(profile.get().unwrap().props, h100.props);
    }

    #[test]
    fn unknown_names_say_what_was_expected() {
        for text in ["gpu", "host:x", "host:99999", "cdua:0", ""] {
            let error = text.parse::<OvercommitDevice>().unwrap_err();
            assert!(error.contains("expected cuda:N, host:N or sim:KEY"), "{error}");
        }
        let error = "sim:nowhere.json".parse::<OvercommitDevice>().unwrap_err();
        assert!(
            error.contains("expected a file of a device's figures; nowhere.json: No such file"),
            "{error}"
        );
        for text in ["sim", "sim:h2000"] {
            let error = text.parse::<OvercommitDevice>().unwrap_err();
            assert!(error.contains("expected one of sim:k40c, ") && error.contains("sim:h200"), "{error}");
        }
    }
}
