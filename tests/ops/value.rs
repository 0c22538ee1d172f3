//! A tensor of any kind, and the few ops that the checks themselves need.

use burn_backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, Shape, Slice, TensorData, read_sync};

use crate::host::Host;

#[derive(Clone, Debug)]
pub enum Value<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
}

/// Calls the float, the integer or the bool op of a name.
macro_rules! each_kind {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { pastey::paste! {
        $(pub fn $name(self $(, $argument: $type)*) -> Self {
            match self {
                Value::Float(x) => Value::Float(B::[<float_ $name>](x $(, $argument)*)),
                Value::Int(x) => Value::Int(B::[<int_ $name>](x $(, $argument)*)),
                Value::Bool(x) => Value::Bool(B::[<bool_ $name>](x $(, $argument)*)),
            }
        })*
    }};
}

impl<B: Backend> Value<B> {
    each_kind! {
        permute(axes: &[usize]);
        slice(slices: &[Slice]);
        expand(shape: Shape);
    }

    pub fn new(host: &Host, dtype: DType, device: &Device<B>) -> Self {
        let data = host.data(dtype);
        match dtype {
            DType::Bool(_) => Value::Bool(B::bool_from_data(data, device)),
            dtype if dtype.is_float() => Value::Float(B::float_from_data(data, device)),
            _ => Value::Int(B::int_from_data(data, device)),
        }
    }

    pub fn into_data(self) -> TensorData {
        let data = match self {
            Value::Float(x) => read_sync(B::float_into_data(x)),
            Value::Int(x) => read_sync(B::int_into_data(x)),
            Value::Bool(x) => read_sync(B::bool_into_data(x)),
        };
        data.expect("the tensor is readable")
    }

    pub fn float(self) -> FloatTensor<B> {
        let Value::Float(x) = self else { panic!("a float tensor was expected") };
        x
    }

    pub fn int(self) -> IntTensor<B> {
        let Value::Int(x) = self else { panic!("an integer tensor was expected") };
        x
    }

    pub fn bool(self) -> BoolTensor<B> {
        let Value::Bool(x) = self else { panic!("a bool tensor was expected") };
        x
    }
}
