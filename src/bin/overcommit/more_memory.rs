//! What `plan` is told of other devices and other machines.

use std::str::FromStr;

use burn_overcommit::Profile;
use burn_overcommit::engine::PeerTier;

/// The part of another device's memory that may be used, unless its bytes are given.
const PEER_SHARE: f64 = 0.9;
/// Ten gigabits.
const NETWORK_BYTES_PER_SECOND: f64 = 1.25e9;

/// Other devices of the same kind.
#[derive(Clone, Debug)]
pub struct Peers {
    count: u16,
    limit_bytes: Option<usize>,
    bytes_per_second: Option<f64>,
}

impl Peers {
    /// As a configuration of a device takes them.
    pub fn of(&self, profile: &Profile) -> String {
        let own_bytes = (profile.props.device_bytes as f64 * PEER_SHARE) as usize;
        let limit_bytes = self.limit_bytes.unwrap_or(own_bytes);
        let peers: Vec<String> = (1..=self.count).map(|index| format!("{index}:{limit_bytes}")).collect();
        let rate = self.bytes_per_second.map_or(String::new(), |rate| format!("@{rate}B/s"));
        format!("{}{rate}", peers.join(","))
    }

    /// A device whose link is as fast as that to the host and those to the others together.
    pub fn beside_link(&self, profile: &Profile) -> Profile {
        let mut profile = profile.clone();
        let tier = PeerTier { devices: Vec::new(), bytes_per_second: self.bytes_per_second };
        let link_bytes_per_second = profile.props.link_bytes_per_second() + tier.rate(&profile.props);
        profile.props = profile.props.with_link(link_bytes_per_second);
        profile
    }
}

impl FromStr for Peers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || String::from("expected a number of devices, such as 1 or 2:20GiB@50GB/s");
        let devices = text.split('@').next().unwrap_or_default();
        let (count, bytes) = devices.split_once(':').map_or((devices, None), |(count, b)| (count, Some(b)));
        // One device, of which the bytes and the rate are understood, stands for all.
        let one = match bytes {
            Some(_) => text.replacen(count, "1", 1),
            None => text.replacen(count, "1:1", 1),
        };
        let tier: PeerTier = one.parse().map_err(|_| expected())?;
        let count = count.trim().parse().ok().filter(|&count| count > 0).ok_or_else(expected)?;
        let limit_bytes = bytes.map(|_| tier.limit_bytes());
        Ok(Peers { count, limit_bytes, bytes_per_second: tier.bytes_per_second })
    }
}

/// Machines that train together.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    pub count: u32,
    bytes_per_second: f64,
}

impl Machines {
    /// How long it takes at least until every machine has the mean of all gradients: each sends and receives twice all but its own
    /// part (Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, JPDC 2009), after the backward pass.
    pub fn reducing_ns(self, gradients_bytes: usize) -> u64 {
        let others = f64::from(self.count - 1) / f64::from(self.count);
        (2.0 * others * gradients_bytes as f64 / self.bytes_per_second * 1e9) as u64
    }
}

impl FromStr for Machines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || String::from("expected a number of machines, such as 4 or 4@12.5GB/s");
        let (count, rate) = text.split_once('@').map_or((text, None), |(count, rate)| (count, Some(rate)));
        let count = count.trim().parse().ok().filter(|&count| count > 0).ok_or_else(expected)?;
        let tier: Option<PeerTier> =
            rate.map(|rate| format!("1:1@{rate}").parse()).transpose().map_err(|_| expected())?;
        let bytes_per_second = tier.and_then(|tier| tier.bytes_per_second);
        Ok(Machines { count, bytes_per_second: bytes_per_second.unwrap_or(NETWORK_BYTES_PER_SECOND) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_exchange_twice_all_but_their_own_part() {
        let machines: Machines = "4@1GB/s".parse().unwrap();
        assert_eq!(machines.reducing_ns(1_000_000_000), 1_500_000_000);
        assert_eq!("1".parse::<Machines>().unwrap().reducing_ns(1 << 30), 0);
        for wrong in ["", "0", "4@fast", "-1"] {
            assert!(wrong.parse::<Machines>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn peers_are_as_large_as_the_device_or_as_is_said() {
        let profile = burn_overcommit::SimProfile::named("rtx4090").unwrap().get().unwrap();
        let of = |text: &str| text.parse::<Peers>().unwrap().of(&profile);
        assert_eq!(of("2:1KiB@50GB/s"), "1:1024,2:1024@50000000000B/s");
        assert_eq!(of("1"), "1:23192823398");
        for wrong in ["", "0", "1:", "1@", "1@50GB", "x"] {
            assert!(wrong.parse::<Peers>().is_err(), "{wrong}");
        }
    }
}
