//! Memory policies by name.

use std::fmt;
use std::str::FromStr;

/// A memory policy by name.
///
/// ```
/// use burn_overcommit::Policy;
///
/// assert_eq!("dtr".parse(), Ok(Policy::Dtr));
/// assert_eq!(Policy::default().name(), "auto");
/// assert!(Policy::ALL.into_iter().all(|policy| policy.is_lossless() || policy == Policy::Gist));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The default: plans whole iterations once the program repeats. Before that, and where the program departs from the plan,
    /// it evicts the storage that costs the least relative to its size and to the time that it is not needed for. It drops or
    /// offloads this storage, whichever costs less.
    #[default]
    Auto,
    /// SuperNeurons' tensor cache: offloads the least recently used storage.
    TensorCache,
    /// Drops the least recently used storage if a recipe can bring it back, whatever that costs.
    Recompute,
    /// Evicts the inputs and outputs of each op as soon as the op has run, by the cheaper eviction method. This needs the least
    /// device memory and causes the most traffic.
    EvictAll,
    /// Dynamic tensor rematerialization: drops the storage that costs the least to rematerialize relative to its size and to
    /// the time since its last use.
    Dtr,
    /// The same, with the costs of whole sets of evicted neighbours.
    DtrEq,
    /// vDNN: offloads the inputs of all layers in the forward pass and prefetches them in the backward pass.
    VdnnAll,
    /// vDNN: the same for the inputs of convolutions.
    VdnnConv,
    /// vDNN: the fastest of offloading no inputs, those of convolutions, or all.
    VdnnDyn,
    /// SuperNeurons: recomputes the values between convolutions, linear layers, joins and concatenations. The tensor cache
    /// offloads the outputs of these layers if memory is short.
    SuperNeurons,
    /// Layrub: offloads the values that a layer keeps as the layer ends, and fetches them one layer ahead.
    Layrub,
    /// AutoSwap: swaps values by priority until the load is within the budget.
    AutoSwap,
    /// AutoSwap: the same, but swaps only values whose copies cost no time.
    AutoSwapNoOverhead,
    /// Capuchin: swaps the values whose copies are hidden, and recomputes the cheapest of the others.
    Capuchin,
    /// Gist without its lossy part: keeps values that wait for the backward pass in fewer bits.
    GistLossless,
    /// Gist with delayed precision reduction: rounds values that the backward pass reads after their last use in the forward
    /// pass. The results differ from those of other policies.
    Gist,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 16] = [
        Policy::Auto,
        Policy::TensorCache,
        Policy::Recompute,
        Policy::EvictAll,
        Policy::Dtr,
        Policy::DtrEq,
        Policy::VdnnAll,
        Policy::VdnnConv,
        Policy::VdnnDyn,
        Policy::SuperNeurons,
        Policy::Layrub,
        Policy::AutoSwap,
        Policy::AutoSwapNoOverhead,
        Policy::Capuchin,
        Policy::GistLossless,
        Policy::Gist,
    ];

    /// Whether results have the same bits as with unlimited memory.
    pub fn is_lossless(self) -> bool {
        self != Policy::Gist
    }

    /// Whether storages may be kept encoded.
    pub fn may_encode(self) -> bool {
        matches!(self, Policy::Auto | Policy::GistLossless | Policy::Gist)
    }

    /// The name in configuration and reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Auto => "auto",
            Policy::TensorCache => "tensor-cache",
            Policy::Recompute => "recompute",
            Policy::EvictAll => "evict-all",
            Policy::Dtr => "dtr",
            Policy::DtrEq => "dtr-eq",
            Policy::VdnnAll => "vdnn-all",
            Policy::VdnnConv => "vdnn-conv",
            Policy::VdnnDyn => "vdnn-dyn",
            Policy::SuperNeurons => "superneurons",
            Policy::Layrub => "layrub",
            Policy::AutoSwap => "autoswap",
            Policy::AutoSwapNoOverhead => "autoswap-no-overhead",
            Policy::Capuchin => "capuchin",
            Policy::GistLossless => "gist-lossless",
            Policy::Gist => "gist",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<_> = Policy::ALL.iter().map(|policy| policy.name()).collect();
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("unknown policy \"{text}\": expected one of {}", names.join(", ")))
    }
}
