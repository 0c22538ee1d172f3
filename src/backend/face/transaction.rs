use crate::backend::{FloatElement, IntElement, Overcommit};
use burn_backend::ops::TransactionOps;

// Burn reads the tensors one after another.
impl<F: FloatElement, I: IntElement> TransactionOps<Self> for Overcommit<F, I> {}
