//! What Burn's server and router need of a backend.

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor};
use burn_ir::{BackendIr, HandleKind, TensorHandle};

use super::{FloatElement, IntElement, Overcommit};
use crate::face;

impl<F: FloatElement, I: IntElement> BackendIr for Overcommit<F, I> {
    face::ir_ops!();
}
