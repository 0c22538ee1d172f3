use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use burn_backend::{DeviceId, DeviceOps};

use crate::config;

/// Where tensors live and ops run.
///
/// [`default`](OvercommitDevice::default) is the device the environment names, else the first GPU, else `Host(0)`; it
/// is decided once per process and never fails.
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
}

/// A row of the table of simulated devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimProfile(pub u16);

/// The kinds of device, by the type id they have in Burn's [`DeviceId`].
const KINDS: [&str; 3] = ["cuda", "host", "sim"];

impl OvercommitDevice {
    fn parts(self) -> (u16, u16) {
        match self {
            OvercommitDevice::Cuda(index) => (0, index),
            OvercommitDevice::Host(index) => (1, index),
            OvercommitDevice::Sim(SimProfile(index)) => (2, index),
        }
    }

    fn from_parts(kind: u16, index: u16) -> Option<Self> {
        Some(match kind {
            0 => OvercommitDevice::Cuda(index),
            1 => OvercommitDevice::Host(index),
            2 => OvercommitDevice::Sim(SimProfile(index)),
            _ => return None,
        })
    }

    /// How many devices of this device's kind there are; asks no driver.
    pub(crate) fn count(kind: u16) -> usize {
        // Any number of host devices can be made; the first is the one that programs mean.
        usize::from(kind == 1)
    }
}

impl Default for OvercommitDevice {
    fn default() -> Self {
        static DEFAULT: OnceLock<OvercommitDevice> = OnceLock::new();
        *DEFAULT.get_or_init(|| {
            let fallback = match OvercommitDevice::count(0) {
                0 => OvercommitDevice::Host(0),
                _ => OvercommitDevice::Cuda(0),
            };
            config::device_from_environment().unwrap_or(fallback)
        })
    }
}

impl fmt::Display for OvercommitDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, index) = self.parts();
        write!(f, "{}:{index}", KINDS[kind as usize])
    }
}

impl FromStr for OvercommitDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("unknown device \"{text}\": expected cuda, host or sim, with an index such as host:0");
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        let kind = KINDS.iter().position(|name| *name == kind).ok_or_else(unknown)?;
        let index = index.parse().map_err(|_| unknown())?;
        OvercommitDevice::from_parts(kind as u16, index).ok_or_else(unknown)
    }
}

impl burn_backend::Device for OvercommitDevice {
    fn from_id(id: DeviceId) -> Self {
        OvercommitDevice::from_parts(id.type_id, id.index_id).unwrap_or_default()
    }

    fn to_id(&self) -> DeviceId {
        let (kind, index) = self.parts();
        DeviceId::new(kind, index)
    }
}

impl DeviceOps for OvercommitDevice {}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_backend::Device;

    #[test]
    fn round_trips_through_ids_and_text() {
        for device in
            [OvercommitDevice::Cuda(3), OvercommitDevice::Host(0), OvercommitDevice::Sim(SimProfile(7))]
        {
            assert_eq!(OvercommitDevice::from_id(device.to_id()), device);
            assert_eq!(device.to_string().parse(), Ok(device));
        }
    }

    #[test]
    fn unknown_names_say_what_was_expected() {
        for text in ["gpu", "host:x", "host:99999", ""] {
            let error = text.parse::<OvercommitDevice>().unwrap_err();
            assert!(error.contains("expected cuda, host or sim"), "{error}");
        }
    }
}
