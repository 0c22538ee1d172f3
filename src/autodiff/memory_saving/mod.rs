//! The backend [`MemorySaving`]: Burn's autodiff, method by method, except for operations that save less here.

/// Implements methods of a trait by those of another backend, by signature: `(arguments) -> output: names;`
macro_rules! forward {
    ($trait:ident, $base:ty; $($arguments:tt -> $output:ty: $($name:ident)+;)*) => {
        $($(forward! { @one $trait, $base, $name, $arguments, $output })+)*
    };
    (@one $trait:ident, $base:ty, $name:ident, ($($argument:ident: $type:ty),*), $output:ty) => {
        #[allow(clippy::too_many_arguments)]
        fn $name($($argument: $type),*) -> $output {
            <$base as $trait<$base>>::$name($($argument),*)
        }
    };
}

/// Implements methods of a trait by Burn's, under the strategy that `cost` chooses for the tensors in brackets.
macro_rules! strategic {
    ($rule:ident, $trait:ident; $($inputs:tt $arguments:tt -> $output:ty: $($name:ident)+;)*) => {
        $($(strategic! { @one $rule, $trait, $name, $inputs, $arguments, $output })+)*
    };
    (@one $rule:ident, $trait:ident, $name:ident, [$($input:ident),*], ($($argument:ident: $type:ty),*), $output:ty) => {
        fn $name($($argument: $type),*) -> $output {
            match super::cost::$rule::<F, I>(&[$(&$input),*]) {
                Some(steps) => {
                    let made = <Balanced<F, I> as $trait<Balanced<F, I>>>::$name($($argument),*);
                    super::cost::remade::<F, I>(steps, made)
                }
                None => <Unremade<F, I> as $trait<Unremade<F, I>>>::$name($($argument),*),
            }
        }
    };
}

mod cost;
mod float;
mod integer;
mod module;

use std::marker::PhantomData;

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
use burn::backend::autodiff::grads::Gradients;
use burn::tensor::backend::{AutodiffBackend, Backend, BackendTypes};
use burn_backend::tensor::FloatTensor;
use burn_backend::{DType, DTypeUsageSet, ExecutionError};

use super::step::Tracked;
use super::{AttentionInput, SavesLess};
use crate::OvercommitDevice as Device;
use crate::backend::{FloatElement, IntElement, Overcommit, Quantized};
use crate::op::{Norm, Softmax};
use crate::runtime::Tensor;

/// Autodiff over [`Overcommit`](crate::Overcommit) that saves less for the backward pass than Burn's. Use it in place
/// of `Autodiff<Overcommit>`; nothing else changes.
///
/// Softmax, layer norm, attention, the pools and activations are this crate's nodes (see [`autodiff`](super)); all
/// else is Burn's. For each call of such an operation, one of Burn's two checkpointing strategies is chosen. Views,
/// and operations whose gradient reads the inputs, are recomputed. An operation whose gradient reads nothing is
/// recomputed if its inputs are kept anyway or recomputed themselves. Products and convolutions are never recomputed.
/// An activation keeps its output, or nothing if its input is kept anyway or recomputed.
///
/// Modules that are composed of such operations, such as Burn's batch norm and RMS norm, save less this way; those of
/// [`nn`](super::nn) save still less. Where the same operations are called, values and gradients are those of
/// `Autodiff<Overcommit>`, bit for bit; where an op of this crate replaces several of Burn's, they differ by
/// rounding. A recomputed tensor has the same bits as before.
///
/// ```
/// use burn::tensor::{Tensor, activation};
/// use burn_overcommit::autodiff::MemorySaving;
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// type B = MemorySaving<Overcommit>; // was: Autodiff<Overcommit>
///
/// let x = Tensor::<B, 1>::from_floats([-1.0, 2.0], &OvercommitDevice::Host(0)).require_grad();
/// let gradients = activation::relu(x.clone()).sum().backward();
/// assert_eq!(x.grad(&gradients).unwrap().into_data().to_vec::<f32>().unwrap(), [0.0, 1.0]);
/// ```
///
/// # Panics
/// Its methods panic where those of `Autodiff<Overcommit>` do: on shapes that do not fit, and on an op that needs more
/// than the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemorySaving<B = Overcommit>(PhantomData<B>);

/// The name of [`MemorySaving`] before 0.1.0.
#[deprecated(since = "0.1.0", note = "renamed to MemorySaving")]
pub type Sparing<B = Overcommit> = MemorySaving<B>;

/// The strategy that keeps outputs.
type Plain = NoCheckpointing;
/// Burn's autodiff, which keeps outputs.
type Unremade<F, I> = Autodiff<Overcommit<F, I>, NoCheckpointing>;
/// Burn's autodiff, which recomputes cheap outputs.
type Balanced<F, I> = Autodiff<Overcommit<F, I>, BalancedCheckpointing>;

fn untracked<F: FloatElement, I: IntElement>(tensor: Tensor) -> Tracked<F, I> {
    Unremade::<F, I>::from_inner(tensor)
}

impl<F: FloatElement, I: IntElement> BackendTypes for MemorySaving<Overcommit<F, I>> {
    type Device = Device;
    type FloatTensorPrimitive = Tracked<F, I>;
    type FloatElem = F;
    type IntTensorPrimitive = Tensor;
    type IntElem = I;
    type BoolTensorPrimitive = Tensor;
    type BoolElem = bool;
    type QuantizedTensorPrimitive = Quantized;
}

impl<F: FloatElement, I: IntElement> Backend for MemorySaving<Overcommit<F, I>> {
    fn ad_enabled(_device: &Device) -> bool {
        true
    }

    fn name(device: &Device) -> String {
        format!("memory_saving<{}>", Overcommit::<F, I>::name(device))
    }

    fn seed(device: &Device, seed: u64) {
        Overcommit::<F, I>::seed(device, seed);
    }

    fn sync(device: &Device) -> Result<(), ExecutionError> {
        Overcommit::<F, I>::sync(device)
    }

    fn memory_cleanup(device: &Device) {
        Overcommit::<F, I>::memory_cleanup(device);
    }

    fn dtype_usage(device: &Device, dtype: DType) -> DTypeUsageSet {
        Overcommit::<F, I>::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        Overcommit::<F, I>::device_count(type_id)
    }
}

impl<F: FloatElement, I: IntElement> AutodiffBackend for MemorySaving<Overcommit<F, I>> {
    type InnerBackend = Overcommit<F, I>;
    type Gradients = Gradients;

    fn backward(tensor: Tracked<F, I>) -> Gradients {
        Unremade::<F, I>::backward(tensor)
    }

    fn grad(tensor: &Tracked<F, I>, gradients: &Gradients) -> Option<Tensor> {
        Unremade::<F, I>::grad(tensor, gradients)
    }

    fn grad_remove(tensor: &Tracked<F, I>, gradients: &mut Gradients) -> Option<Tensor> {
        Unremade::<F, I>::grad_remove(tensor, gradients)
    }

    fn grad_replace(tensor: &Tracked<F, I>, gradients: &mut Gradients, gradient: Tensor) {
        Unremade::<F, I>::grad_replace(tensor, gradients, gradient);
    }

    fn inner(tensor: Tracked<F, I>) -> Tensor {
        tensor.primitive
    }

    fn int_inner(tensor: Tensor) -> Tensor {
        tensor
    }

    fn bool_inner(tensor: Tensor) -> Tensor {
        tensor
    }

    fn q_inner(tensor: Quantized) -> Quantized {
        tensor
    }

    fn from_inner(tensor: Tensor) -> Tracked<F, I> {
        untracked::<F, I>(tensor)
    }

    fn int_from_inner(tensor: Tensor) -> Tensor {
        tensor
    }

    fn bool_from_inner(tensor: Tensor) -> Tensor {
        tensor
    }

    fn q_from_inner(tensor: Quantized) -> Quantized {
        tensor
    }
}

/// Norms are recomputed. Operations that keep their output, compute products or read no input are not.
impl<F: FloatElement, I: IntElement> SavesLess for MemorySaving<Overcommit<F, I>> {
    fn plain(x: &FloatTensor<Self>) -> &Tensor {
        &x.primitive
    }

    fn normalised(kind: Softmax, x: FloatTensor<Self>, axis: usize) -> FloatTensor<Self> {
        cost::kept::<F, I>(Unremade::<F, I>::normalised(kind, x, axis))
    }

    fn row_norm(
        kind: Norm,
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let inputs = [Some(&x), Some(&gamma), beta.as_ref()];
        match cost::reads::<F, I>(&inputs.into_iter().flatten().collect::<Vec<_>>()) {
            Some(steps) => {
                cost::remade::<F, I>(steps, Balanced::<F, I>::row_norm(kind, x, gamma, beta, epsilon))
            }
            None => Unremade::<F, I>::row_norm(kind, x, gamma, beta, epsilon),
        }
    }

    fn trained_batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> [FloatTensor<Self>; 3] {
        match cost::reads::<F, I>(&[&x, &gamma, &beta]) {
            Some(steps) => {
                let [out, mean, variance] = Balanced::<F, I>::trained_batch_norm(x, gamma, beta, epsilon);
                [cost::remade::<F, I>(steps, out), mean, variance]
            }
            None => Unremade::<F, I>::trained_batch_norm(x, gamma, beta, epsilon),
        }
    }

    fn attended(input: AttentionInput<Self>) -> FloatTensor<Self> {
        let AttentionInput { query, key, value, mask, bias, options, dropout } = input;
        cost::reads::<F, I>(&[&query, &key, &value]);
        Unremade::<F, I>::attended(AttentionInput { query, key, value, mask, bias, options, dropout })
    }

    fn dropped(x: FloatTensor<Self>, probability: f64) -> FloatTensor<Self> {
        Unremade::<F, I>::dropped(x, probability)
    }
}
