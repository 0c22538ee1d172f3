//! Scopes in which memory is traded for time.

use burn::tensor::{Bool, Float, Int, Tensor, TensorPrimitive};

use super::SavesLess;
use crate::backend::ok;
use crate::runtime::{self, Scope};

/// `f(x)`, with what `f` makes on its way, all but the result, marked *recompute first*: gradient checkpointing (Chen, Xu,
/// Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", 2016), decided by the pool.
///
/// While memory suffices, nothing happens. Where it is short, the pool forgets what is marked before anything else leaves,
/// the least recently used first, rather than copy it to the host; when the backward pass needs it, it is made again by the
/// ops that made it, to the same bits: dropout draws the same numbers, and batch norm's running moments are updated once.
/// What was made again once is no longer marked. There is no backward pass within the backward pass: Burn's graph is that
/// of `f(x)`.
///
/// Scopes may be nested: the result of an inner one is marked by the outer. A scope is its thread's alone: what `f` has
/// other threads make is not marked. `f` may use tensors other than `x`, which are not marked either.
///
/// Nothing is dropped where nothing may be recomputed: under [`Policy::TensorCache`](crate::Policy::TensorCache) or
/// [`Config::recompute(false)`](crate::Config::recompute). Once [`Policy::Auto`](crate::Policy::Auto) follows a plan of the whole
/// iteration, the plan decides, which has weighed dropping and copying of each tensor: marks say what goes before there is
/// one, and where the program departs from it. [`Planning::Off`](crate::Planning::Off) leaves it to the marks.
///
/// # Panics
/// Where `f` does.
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

/// What a function in [`checkpoint`] may return: a tensor, or several.
pub trait Outcome {
    /// The tensors are results: the scope that was left last does not mark them.
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
