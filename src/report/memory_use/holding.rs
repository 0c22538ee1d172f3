//! Why a program holds a storage.

/// Why a program holds a storage. See [`MemoryUse`](super::MemoryUse) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Holding {
    /// This iteration made it, and an op reads it again: what a backward pass needs, and gradients.
    NeededAgain,
    /// It lives for an iteration or longer, and is read in each: weights, moments of an optimizer, data.
    State,
    /// The op that runs reads or makes it.
    InUse,
    /// Nothing reads it again before it is freed.
    Idle,
    /// Iterations make it, and nothing has read or freed it for ten of them.
    Leaked,
}

impl Holding {
    /// All reasons.
    pub const ALL: [Holding; 5] =
        [Holding::NeededAgain, Holding::State, Holding::InUse, Holding::Idle, Holding::Leaked];

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Holding::NeededAgain => "made in this iteration and read again: what the backward pass needs",
            Holding::State => "weights, optimizer state, data: they live for an iteration or longer",
            Holding::InUse => "what the op at the peak reads and makes",
            Holding::Idle => "nothing reads it again before it is freed",
            Holding::Leaked => "leaked: nothing has read it for ten iterations, and it is not freed",
        }
    }

    pub(super) fn in_a_word(self) -> &'static str {
        match self {
            Holding::NeededAgain => "needed again",
            Holding::State => "state",
            Holding::InUse => "in use",
            Holding::Idle => "idle",
            Holding::Leaked => "leaked",
        }
    }
}
