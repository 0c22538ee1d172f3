//! Evicting a storage by the method that the policy or the plan chooses.

use crate::error::Error;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::schedule::Eviction;

impl Pool {
    /// Evicts a storage by the policy's method. Returns `false` if the policy wants the bytes kept and the host tier
    /// has no room.
    pub(in crate::pool) fn evict(&mut self, id: StorageId, host_room: bool) -> Result<bool, Error> {
        let clean = self.graph.storages[id].copies.away.is_some();
        match if clean { Some(Eviction::Offload) } else { self.eviction_method(id, host_room) } {
            Some(Eviction::Offload) => self.offload(id, false),
            Some(Eviction::Drop) => {
                self.drop_bytes(id);
                Ok(true)
            }
            Some(Eviction::Encode(encoding)) => self.encode(id, encoding),
            None => Ok(false),
        }
    }

    /// Evicts a storage by the plan's method. Returns `false` if that is not possible now.
    pub(in crate::pool) fn evict_as_scheduled(
        &mut self,
        id: StorageId,
        method: Eviction,
    ) -> Result<bool, Error> {
        let storage = &self.graph.storages[id];
        if method == Eviction::Offload || storage.copies.away.is_some() {
            return self.offload(id, false);
        }
        if let Eviction::Encode(encoding) = method {
            return self.encode(id, encoding);
        }
        let allowed = self.settings.methods.recompute && self.rematerialize_ns(id, storage).is_some();
        if allowed {
            self.drop_bytes(id);
        }
        Ok(allowed)
    }

    /// Evicts all storages that no op uses. Nothing waits for their memory, so that a storage for which the host tier
    /// has no room stays.
    pub(in crate::pool) fn evict_all(&mut self) -> Result<(), Error> {
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            if self.graph.storages[id].uses.pins == 0 {
                self.evict(id, true)?;
            }
        }
        Ok(())
    }
}
