//! An engine that counts the memory which the system has given it, whatever the pool believes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use burn_overcommit::engine::around::{Around, Mapped};
use burn_overcommit::engine::{Engine, Tier};

/// Wraps an engine.
#[derive(Debug)]
pub struct Ledger {
    engine: Arc<dyn Engine>,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// By tier.
    slab_bytes: [usize; Tier::ALL.len()],
    pages: HashSet<u32>,
    most_bytes: [usize; Tier::ALL.len()],
}

impl Ledger {
    /// Wraps an engine that has mapped nothing yet.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Ledger { engine, entries: Mutex::default() }
    }

    /// The most bytes of a tier that were mapped at once.
    pub fn most_bytes(&self, tier: Tier) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).most_bytes[tier as usize]
    }
}

impl Around for Ledger {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn note(&self, memory: Mapped<'_>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match memory {
            Mapped::Slab(span) => entries.slab_bytes[span.tier as usize] += span.bytes,
            Mapped::SlabBack(span) => entries.slab_bytes[span.tier as usize] -= span.bytes,
            Mapped::Pages(pages) => entries.pages.extend(pages),
            Mapped::PagesBack(pages) => entries.pages.retain(|page| !pages.contains(page)),
        }
        let page_bytes = self.props().page_bytes.unwrap_or(0);
        let mut bytes = entries.slab_bytes;
        bytes[Tier::Device as usize] += entries.pages.len() * page_bytes;
        let most_bytes = entries.most_bytes;
        entries.most_bytes = std::array::from_fn(|tier| most_bytes[tier].max(bytes[tier]));
    }
}
