//! The constants of the planner's search, in one place so that a bench can change them. What each is worth is in
//! `docs/decisions/060-what-the-search-is-made-of.md`.

/// The constants of the search. A search is repeated for parts of the budget; what it may take is for one of them. Effort is
/// counted in ops and steps, never in seconds, so that a plan does not depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tunables {
    /// A search is repeated at most so many times, each time for less of the budget by this part of it.
    pub rungs: usize,
    /// See [`rungs`](Tunables::rungs).
    pub rung_height: f64,
    /// The ops that all trials of a search run.
    pub trial_ops: usize,
    /// The changes that all annealings of a search try.
    pub annealing_steps: usize,
    /// The ops and copies that the annealings of a search look at, at the most.
    pub annealing_work: usize,
    /// How often the annealing of a part of the budget is begun anew.
    pub restarts: usize,
    /// The temperature at first and in the end, as parts of the average time to bring a storage back.
    pub heat: [f64; 2],
    /// In the end, an excess of the whole budget at one op costs this part of the iteration's time.
    pub excess_weight: f64,
    /// Storages of less than this part of the budget keep their choice.
    pub least_part: f64,
    /// The fastest candidates of a search that get addresses.
    pub finalists: usize,
    /// The steps of a search for addresses, for each block.
    pub placement_steps: u64,
    /// A schedule without addresses has to be faster by this factor to be preferred to one with addresses. With addresses the
    /// program runs as the trial did. Without, each iteration leaves memory fragmented in another way for the next.
    pub address_preference: f64,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            rungs: 4,
            rung_height: 0.04,
            trial_ops: 600_000,
            annealing_steps: 225_000,
            annealing_work: 55_000_000,
            restarts: 10,
            heat: [1.0, 1e-2],
            excess_weight: 0.5,
            least_part: 5e-4,
            finalists: 2,
            placement_steps: 5_000,
            address_preference: 1.005,
        }
    }
}
