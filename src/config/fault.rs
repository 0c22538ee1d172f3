//! Faults that tests plant.

/// Planted faults. Each breaks one rule of the pool on purpose, so that the random-program test can show that it would
/// notice. Never set outside tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Lanes do not wait for each other.
    MissingWait,
    /// An in-place op leaves the host copy of its input as a clean copy of its output.
    StaleCleanCopy,
    /// An op overwrites an input that has other handles.
    InPlaceShared,
    /// A replayed random op draws with another seed.
    ReusedSeed,
    /// A recipe forgets through which layout an input was read.
    WrongLayout,
    /// A replay uses another algorithm than the first run.
    ChangedAlgorithm,
    /// Pages are mapped at addresses where work is still to run.
    EarlyMapping,
    /// What is made in a checkpointed scope is like all else.
    LostMarks,
    /// A result of a checkpointed scope counts as made in it.
    MarkedResults,
}

impl Sabotage {
    /// Every fault.
    pub const ALL: [Sabotage; 9] = [
        Sabotage::MissingWait,
        Sabotage::StaleCleanCopy,
        Sabotage::InPlaceShared,
        Sabotage::ReusedSeed,
        Sabotage::WrongLayout,
        Sabotage::ChangedAlgorithm,
        Sabotage::EarlyMapping,
        Sabotage::LostMarks,
        Sabotage::MarkedResults,
    ];
}
