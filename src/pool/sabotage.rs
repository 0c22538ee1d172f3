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
}

impl Sabotage {
    /// Every fault.
    pub const ALL: [Sabotage; 6] = [
        Sabotage::MissingWait,
        Sabotage::StaleCleanCopy,
        Sabotage::InPlaceShared,
        Sabotage::ReusedSeed,
        Sabotage::WrongLayout,
        Sabotage::ChangedAlgorithm,
    ];
}
