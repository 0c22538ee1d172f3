//! The policies by name.

use std::sync::Arc;

use super::auto::Auto;
use super::autoswap::AutoSwap;
use super::capuchin::Capuchin;
use super::dtr::Dtr;
use super::evict_all::EvictAll;
use super::gist::Gist;
use super::layrub::Layrub;
use super::published::Published;
use super::reactive::Reactive;
use super::recompute::Recompute;
use super::superneurons::SuperNeurons;
use super::tensor_cache::TensorCache;
use super::vdnn::Vdnn;
use crate::config::Policy;
use crate::op::FloatFormat;

/// A policy's rule for when memory is short. Lossy policies round to `format`.
pub fn rule(policy: Policy, format: FloatFormat) -> Arc<dyn Reactive> {
    match policy {
        Policy::Auto => Arc::new(Auto),
        Policy::TensorCache => Arc::new(TensorCache),
        Policy::Recompute => Arc::new(Recompute),
        Policy::EvictAll => Arc::new(EvictAll),
        Policy::Dtr => Arc::new(Dtr::Neighbourhood),
        Policy::DtrEq => Arc::new(Dtr::Components),
        Policy::VdnnAll => Arc::new(Published(Vdnn::All)),
        Policy::VdnnConv => Arc::new(Published(Vdnn::Conv)),
        Policy::VdnnDyn => Arc::new(Published(Vdnn::Dyn)),
        Policy::SuperNeurons => Arc::new(Published(SuperNeurons)),
        Policy::Layrub => Arc::new(Published(Layrub)),
        Policy::AutoSwap => Arc::new(Published(AutoSwap::StickToLimit)),
        Policy::AutoSwapNoOverhead => Arc::new(Published(AutoSwap::NoOverhead)),
        Policy::Capuchin => Arc::new(Published(Capuchin)),
        Policy::GistLossless => Arc::new(Published(Gist { lossy: None })),
        Policy::Gist => Arc::new(Published(Gist { lossy: Some(format) })),
    }
}
