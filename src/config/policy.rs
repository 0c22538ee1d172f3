//! Memory policies by name.

use std::fmt;
use std::str::FromStr;

/// A memory policy by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The best there is: whole iterations are planned, once the program repeats itself. Before that, and where it departs
    /// from the plan: what costs the least for its size and for how long it is not needed goes first, by whichever of
    /// dropping and offloading costs less.
    #[default]
    Auto,
    /// SuperNeurons' tensor cache: least recently used first, always offloaded.
    TensorCache,
    /// Least recently used first, dropped wherever a recipe can bring it back, whatever that costs.
    Recompute,
    /// What an op has read and made is evicted as soon as it has run, by whichever way costs less: the least device
    /// memory there is to need, and the most traffic.
    EvictAll,
    /// Dynamic tensor rematerialization: what costs least to have back by its size and by how long it was not used is
    /// dropped.
    Dtr,
    /// The same, with costs counted by sets of storages that were evicted next to each other.
    DtrEq,
    /// vDNN: the inputs of all layers are offloaded in the forward pass and prefetched in the backward pass.
    VdnnAll,
    /// vDNN: those of convolutions are.
    VdnnConv,
    /// vDNN: none, those of convolutions, or all, whichever is fastest.
    VdnnDyn,
    /// SuperNeurons: what lies between convolutions, linear layers, joins and concatenations is recomputed, and their
    /// outputs are offloaded by the tensor cache when memory is short.
    SuperNeurons,
    /// Layrub: what layers keep is migrated as they end, and comes back one layer ahead.
    Layrub,
    /// AutoSwap: as many values are swapped as keep the load within the budget, by priority.
    AutoSwap,
    /// AutoSwap: those of them whose copies cost no time.
    AutoSwapNoOverhead,
    /// Capuchin: what can be swapped without delay is, and of the rest what is recomputed the fastest is.
    Capuchin,
    /// Gist, what of it loses nothing: what waits for the backward pass is kept in fewer bits.
    GistLossless,
    /// Gist with delayed precision reduction: what is read for its values in the backward pass is rounded after its last use in
    /// the forward pass. Results are not those of other policies.
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

    /// Whether results are the same bits as with unlimited memory.
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
