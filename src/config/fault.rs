//! Faults that tests plant in the pool.

/// A planted fault. Each breaks one rule of the pool, so that the random-program test can show that it would notice. Nothing
/// but a test sets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// Lanes do not wait for each other.
    MissingWait,
    /// An in-place op leaves the host copy of its input as a clean copy of its output.
    StaleCleanCopy,
    /// An op overwrites an input that has other handles.
    InPlaceShared,
    /// A replayed random op draws with another seed.
    ReusedSeed,
    /// A recipe forgets the layout through which an input was read.
    WrongLayout,
    /// A replay uses another algorithm than the first run.
    ChangedAlgorithm,
    /// Pages are mapped at addresses that pending work still uses.
    EarlyMapping,
    /// A storage made in a checkpointed scope counts as made outside of it.
    LostMarks,
    /// A result of a checkpointed scope counts as made inside of it.
    MarkedResults,
}

impl PlantedFault {
    /// Every fault.
    pub const ALL: [PlantedFault; 9] = [
        PlantedFault::MissingWait,
        PlantedFault::StaleCleanCopy,
        PlantedFault::InPlaceShared,
        PlantedFault::ReusedSeed,
        PlantedFault::WrongLayout,
        PlantedFault::ChangedAlgorithm,
        PlantedFault::EarlyMapping,
        PlantedFault::LostMarks,
        PlantedFault::MarkedResults,
    ];
}
