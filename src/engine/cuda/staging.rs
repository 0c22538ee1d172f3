//! Copies to and from host memory that cannot be pinned, through a pinned slab.

use std::ptr::{self, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::Arc;

use super::driver::{Called, Context, Stream};
use super::memory::Slab;
use crate::engine::{Lane, MapError, Span, Tier};
use crate::messages;

/// Memory that is pinned for a moment to see whether the system allows it: as much as a slab of the host tier.
const PROBE_BYTES: usize = 64 << 20;
/// The part of the slab that is a lane's.
const PART_BYTES: usize = 1 << 20;

/// The pinned slab: a part for each lane, whose copies come one after the other.
#[derive(Debug)]
pub(super) struct Staging(Slab);

impl Staging {
    /// One if host memory cannot be pinned.
    ///
    /// # Errors
    /// If not even the slab can be.
    pub fn if_needed(context: &Arc<Context>) -> Result<Option<Self>, MapError> {
        let Err(error) = Slab::new(context, Tier::Host, PROBE_BYTES) else { return Ok(None) };
        let bytes = Lane::ALL.len() * PART_BYTES;
        let slab = Slab::new(context, Tier::Host, bytes)?;
        let message = format_args!(
            "{PROBE_BYTES} bytes of host memory cannot be pinned ({error}): the host tier is pageable, and copies go through {bytes} \
             pinned bytes"
        );
        messages::tell(log::Level::Warn, message);
        Ok(Some(Staging(slab)))
    }

    /// Puts a copy into a lane's stream, part by part.
    ///
    /// # Safety
    /// As for [`Engine::copy`](crate::engine::Engine::copy).
    pub unsafe fn copy(&self, stream: &Stream, lane: Lane, from: Span, to: Span) -> Called<()> {
        let part = self.0.span().slice(lane as usize * PART_BYTES, PART_BYTES);
        for begin in (0..from.bytes).step_by(PART_BYTES) {
            let bytes = PART_BYTES.min(from.bytes - begin);
            let [from, to, part] =
                [(from, begin), (to, begin), (part, 0)].map(|(span, at)| span.slice(at, bytes));
            // SAFETY: the caller's, and the stream keeps this order.
            unsafe {
                for [from, to] in [[from, part], [part, to]] {
                    match (from.tier, to.tier) {
                        (Tier::Host, Tier::Host) => stream.run_on_host(move || copy_on_host(from, to))?,
                        _ => stream.copy(from.address, to.address, bytes)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// Both are mapped, as large, and apart.
unsafe fn copy_on_host(from: Span, to: Span) {
    let [from_start, to_start] = [from, to].map(|span| span.address as usize);
    // SAFETY: the caller's.
    unsafe {
        ptr::copy_nonoverlapping(
            with_exposed_provenance::<u8>(from_start),
            with_exposed_provenance_mut::<u8>(to_start),
            from.bytes,
        );
    }
}
