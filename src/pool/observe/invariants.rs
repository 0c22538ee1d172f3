//! The invariants that hold between any two calls of the program, for tests.

use std::collections::BTreeMap;

use crate::engine::Tier;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::storage::Storage;

type Checked = Result<(), String>;

fn ensure(holds: bool, or: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(or()) }
}

impl Pool {
    /// Looks at every storage and every block.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    pub fn check_invariants(&self) -> Checked {
        self.graph.storages.iter().try_for_each(|(_, storage)| check_storage(storage))?;
        self.check_lists()?;
        self.graph.check_claims()?;
        Tier::ALL.into_iter().try_for_each(|tier| self.check_tier(tier))
    }

    /// The resident storages are in one list, and no others.
    fn check_lists(&self) -> Checked {
        let storages = &self.graph.storages;
        let resident = storages.iter().filter(|(_, storage)| storage.copies.device.is_some()).count();
        let listed = storages.residents().filter(|&id| storages[id].copies.device.is_some()).count();
        ensure(resident == listed && listed == storages.residents().count(), || {
            format!("{resident} storages are resident, {listed} of them are listed")
        })?;
        ensure(storages.knows_addresses(), || {
            "the addresses of resident storages are not those of their blocks".into()
        })
    }

    /// The blocks of a tier lie apart from each other and from what is free, and are counted.
    fn check_tier(&self, tier: Tier) -> Checked {
        let Some(arena) = self.memory.arena(tier) else { return Ok(()) };
        let blocks = self.blocks(tier);
        let used_bytes: usize = blocks.iter().map(|(_, block)| block.bytes).sum();
        ensure(used_bytes == arena.used_bytes(), || {
            format!("{tier:?} counts {} bytes in use, its blocks have {used_bytes}", arena.used_bytes())
        })?;
        let mut ranges = BTreeMap::new();
        for &(number, block) in &blocks {
            let mut own = Vec::new();
            arena.each_range(block, |offset, bytes| own.push((offset, bytes)));
            for (offset, bytes) in own {
                ensure(arena.free_within(offset, bytes).is_empty(), || {
                    format!("a part of storage {number:?} in {tier:?} is free")
                })?;
                ranges.insert(offset, (bytes, number));
            }
        }
        let ends = ranges.iter().map(|(&offset, &(bytes, number))| (offset + bytes, number));
        let overlap = ends.zip(ranges.iter().skip(1)).find(|((end, _), (offset, _))| end > offset);
        overlap.map_or(Ok(()), |((_, one), (_, (_, other)))| {
            Err(format!("storages {one:?} and {other:?} overlap in {tier:?}"))
        })
    }

    /// The blocks of a tier, and of which storages they are; those of counts are of none.
    fn blocks(&self, tier: Tier) -> Vec<(Option<u64>, Block)> {
        let storages = self.graph.storages.iter().map(|(_, storage)| storage);
        let of_storage = |storage: &Storage| {
            let own = match tier {
                Tier::Device => storage.copies.device,
                _ => storage.copies.in_tier(tier),
            };
            let overflow = storage.copies.overflow.as_deref().copied().filter(|_| tier == Tier::Host);
            let number = storage.number;
            own.into_iter().chain(overflow).map(move |copy| (Some(number), copy.block))
        };
        let counts = self.follower.requests.tallies.blocks().filter(|_| tier == Tier::Host);
        storages.flat_map(of_storage).chain(counts.map(|block| (None, block))).collect()
    }
}

/// Whoever is needed can be had, whoever is not takes no memory, and nobody is held in place.
fn check_storage(storage: &Storage) -> Checked {
    let Storage { number, uses, lineage, made_by, .. } = storage;
    let named = |what: &str| format!("storage {number}, made by {made_by}, {what}");
    ensure(storage.active() || !storage.stored(), || named("takes memory, though nothing needs it"))?;
    let is_lost = storage.active() && !storage.stored() && lineage.recipe.is_none();
    ensure(!is_lost, || named("is needed and can be made by nothing"))?;
    ensure(uses.pins + uses.host_pins + uses.wanted == 0, || named("is still pinned"))
}
