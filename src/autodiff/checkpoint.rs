//! Scopes in which memory is traded for time.

use burn::tensor::{Bool, Float, Int, Tensor, TensorPrimitive};

use super::SavesLess;
use crate::functions::ok;
use crate::runtime::{self, Scope};

/// Computes `f(x)` and marks the storages that `f` makes, but for the result, as *recompute first*. This is gradient
/// checkpointing (Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016), in which the
/// pool decides what is dropped.
///
/// While memory suffices, nothing is dropped. If it is short, the pool drops marked storages before it evicts others,
/// the least recently used first, and does not copy them to the host. When the backward pass needs one, it is
/// rematerialized by the ops that made it, to the same bits: dropout draws the same numbers, and batch norm's running
/// moments are updated once. A storage that was rematerialized is no longer marked. There is no backward pass within
/// the backward pass, since Burn's graph is that of `f(x)`.
///
/// Scopes may be nested: the outer one marks the result of the inner one. A scope belongs to its thread, so tensors
/// that other threads make for `f` are not marked. `f` may use tensors other than `x`, which are not marked either.
///
/// Nothing is dropped if recomputation is not allowed, that is under
/// [`Policy::TensorCache`](crate::Policy::TensorCache) or [`Config::recompute(false)`](crate::Config::recompute).
/// Once [`Policy::Auto`](crate::Policy::Auto) follows a plan of the whole iteration, the plan decides, since it has
/// weighed dropping and copying of each tensor. Marks count before there is a plan, and while the program departs
/// from it. With [`Planning::Off`](crate::Planning::Off) only the marks count.
///
/// # Panics
/// If `f` panics.
///
/// ```
/// use burn::backend::Autodiff;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Distribution, Tensor, activation};
/// use burn_overcommit::autodiff::checkpoint;
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// type B = Autodiff<Overcommit>;
///
/// let device = OvercommitDevice::Host(0);
/// let blocks: Vec<_> = (0..4).map(|_| LinearConfig::new(8, 8).init::<B>(&device)).collect();
/// let x = Tensor::<B, 2>::random([16, 8], Distribution::Default, &device);
/// let y = blocks.iter().fold(x, |x, block| checkpoint(|x| activation::gelu(block.forward(x)), x));
/// let gradients = y.sum().backward();
/// assert!(blocks[0].weight.grad(&gradients).is_some());
/// ```
#[track_caller]
pub fn checkpoint<X, Y: Outcome>(f: impl FnOnce(X) -> Y, x: X) -> Y {
    let scope = Scope::enter();
    let result = f(x);
    drop(scope);
    result.keep();
    result
}

#[track_caller]
fn keep(result: &runtime::Tensor) {
    ok(runtime::keep_result(result));
}

/// A result of a function in [`checkpoint`]: a tensor, or several.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::autodiff::checkpoint;
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let x = Tensor::<Overcommit, 1>::ones([4], &OvercommitDevice::Host(0));
/// let (sum, parts) = checkpoint(|x| (x.clone().exp().sum(), vec![x.clone(), x]), x);
/// assert_eq!((sum.dims(), parts.len()), ([1], 2));
/// ```
pub trait Outcome {
    /// Removes the marks of the tensors, which are results of the scope that was left last.
    #[track_caller]
    fn keep(&self);
}

impl<B: SavesLess, const D: usize> Outcome for Tensor<B, D, Float> {
    #[track_caller]
    fn keep(&self) {
        // A quantized result stays marked: no gradient reads it.
        if let TensorPrimitive::Float(x) = self.clone().into_primitive() {
            keep(B::plain(&x));
        }
    }
}

impl<B: SavesLess, const D: usize> Outcome for Tensor<B, D, Int> {
    #[track_caller]
    fn keep(&self) {
        keep(&self.clone().into_primitive());
    }
}

impl<B: SavesLess, const D: usize> Outcome for Tensor<B, D, Bool> {
    #[track_caller]
    fn keep(&self) {
        keep(&self.clone().into_primitive());
    }
}

impl<Y: Outcome> Outcome for Option<Y> {
    #[track_caller]
    fn keep(&self) {
        self.iter().for_each(Y::keep);
    }
}

impl<Y: Outcome> Outcome for Vec<Y> {
    #[track_caller]
    fn keep(&self) {
        self.iter().for_each(Y::keep);
    }
}

impl<Y: Outcome, const N: usize> Outcome for [Y; N] {
    #[track_caller]
    fn keep(&self) {
        self.iter().for_each(Y::keep);
    }
}

macro_rules! outcomes {
    ($($name:ident)*) => {
        impl<$($name: Outcome),*> Outcome for ($($name,)*) {
            #[allow(non_snake_case)]
            #[track_caller]
            fn keep(&self) {
                let ($($name,)*) = self;
                $($name.keep();)*
            }
        }
    };
}

outcomes!(A B);
outcomes!(A B C);
outcomes!(A B C D);
