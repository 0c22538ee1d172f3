//! Memory of other devices, to which this one copies. Addresses are of one space, so a copy there is like any other; where the
//! driver can, it goes directly, else through the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::driver::{Called, Context, Device, device_count};
use super::lanes::lock;
use super::memory::Slab;
use crate::engine::{MapError, PeerTier, Span, Tier};

/// The other devices, once their memory may be used.
#[derive(Debug, Default)]
pub(super) struct Peers(OnceLock<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    devices: Vec<Peer>,
    /// By address, with the place of the device.
    slabs: HashMap<u64, (usize, Slab)>,
}

#[derive(Debug)]
struct Peer {
    context: Arc<Context>,
    room_bytes: usize,
}

impl Peers {
    /// Makes the other devices' memory reachable.
    pub fn open(&self, own: &Arc<Context>, peers: &PeerTier) -> Called<()> {
        let count = device_count()?;
        let devices = peers.devices.iter().map(|peer| {
            if usize::from(peer.index) >= count {
                return Err(format!(
                    "NVIDIA's driver has {count} devices, numbered from 0, and no {}",
                    peer.index
                ));
            }
            let context = Context::new(Device::new(peer.index)?)?;
            own.reach(&context)?;
            Ok(Peer { context, room_bytes: peer.limit_bytes })
        });
        let devices = devices.collect::<Called<Vec<Peer>>>()?;
        let open = Open { devices, slabs: HashMap::new() };
        self.0.set(Mutex::new(open)).map_err(|_| "other devices are in use already".into())
    }

    /// A slab on the first device that has room.
    pub fn map(&self, bytes: usize) -> Result<Span, MapError> {
        let open = self.0.get().ok_or("no memory of other devices may be used")?;
        let Open { devices, slabs } = &mut *lock(open);
        let mut refused = MapError::TooLargeForOne;
        for (place, peer) in devices.iter_mut().enumerate().filter(|(_, peer)| peer.room_bytes >= bytes) {
            match Slab::new(&peer.context, Tier::Peer, bytes) {
                Ok(slab) => {
                    let span = slab.span();
                    peer.room_bytes -= bytes;
                    slabs.insert(span.address, (place, slab));
                    return Ok(span);
                }
                Err(reason) => refused = reason,
            }
        }
        Err(refused)
    }

    pub fn unmap(&self, span: Span) {
        let Some(open) = self.0.get() else { return };
        let Open { devices, slabs } = &mut *lock(open);
        if let Some((place, _)) = slabs.remove(&span.address) {
            devices[place].room_bytes += span.bytes;
        }
    }
}
