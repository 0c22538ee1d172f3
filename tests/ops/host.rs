//! Tensors on the host, in types wide enough for every dtype.

use burn_backend::{BoolStore, DType, TensorData, bf16, f16};

#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Float(Vec<f64>),
    Int(Vec<i128>),
    Bool(Vec<bool>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub shape: Vec<usize>,
    pub values: Values,
}

pub const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
pub const INTS: [DType; 8] =
    [DType::I32, DType::I64, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];
pub const NATIVE: DType = DType::Bool(BoolStore::Native);
pub const BOOLS: [DType; 3] = [NATIVE, DType::Bool(BoolStore::U8), DType::Bool(BoolStore::U32)];

pub fn round_float(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::BF16 => bf16::from_f64(x).to_f64(),
        other => panic!("{other:?} is not a float dtype"),
    }
}

/// Calls `$work!(type)` with the integer type of a dtype.
macro_rules! with_int {
    ($dtype:expr, $work:ident) => {
        match $dtype {
            DType::I64 => $work!(i64),
            DType::I32 => $work!(i32),
            DType::I16 => $work!(i16),
            DType::I8 => $work!(i8),
            DType::U64 => $work!(u64),
            DType::U32 => $work!(u32),
            DType::U16 => $work!(u16),
            DType::U8 => $work!(u8),
            other => panic!("{other:?} is not an integer dtype"),
        }
    };
}

pub fn wrap_int(x: i128, dtype: DType) -> i128 {
    macro_rules! wrap {
        ($type:ty) => {
            i128::from(x as $type)
        };
    }
    with_int!(dtype, wrap)
}

pub fn int_limits(dtype: DType) -> [i128; 2] {
    macro_rules! limits {
        ($type:ty) => {
            [i128::from(<$type>::MIN), i128::from(<$type>::MAX)]
        };
    }
    with_int!(dtype, limits)
}

impl Host {
    pub fn new(shape: &[usize], values: Values) -> Self {
        Host { shape: shape.to_vec(), values }
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The values as `dtype` holds them: floats rounded, integers wrapped, or bools.
    pub fn held_by(mut self, dtype: DType) -> Self {
        match &mut self.values {
            Values::Int(values) if dtype.is_bool() => {
                self.values = Values::Bool(values.iter().map(|x| *x != 0).collect());
            }
            Values::Float(values) => values.iter_mut().for_each(|x| *x = round_float(*x, dtype)),
            Values::Int(values) => values.iter_mut().for_each(|x| *x = wrap_int(*x, dtype)),
            Values::Bool(_) => {}
        }
        self
    }

    /// Burn's data; the values have to be such that `dtype` holds them.
    pub fn data(&self, dtype: DType) -> TensorData {
        let shape = self.shape.clone();
        match &self.values {
            Values::Float(values) => TensorData::new(values.clone(), shape).convert_dtype(dtype),
            Values::Bool(values) => TensorData::new(values.clone(), shape).convert_dtype(dtype),
            Values::Int(values) => {
                macro_rules! data {
                    ($type:ty) => {
                        TensorData::new(values.iter().map(|&x| x as $type).collect(), shape)
                    };
                }
                with_int!(dtype, data)
            }
        }
    }

    pub fn from_data(data: &TensorData) -> Self {
        let values = match data.dtype {
            DType::Bool(_) => Values::Bool(data.iter::<bool>().collect()),
            DType::U64 => Values::Int(data.iter::<u64>().map(i128::from).collect()),
            dtype if dtype.is_float() => Values::Float(data.iter::<f64>().collect()),
            _ => Values::Int(data.iter::<i64>().map(i128::from).collect()),
        };
        Host { shape: data.shape.to_vec(), values }
    }

    /// The tensor whose element at each place is the one that `source` names, by its row-major number.
    pub fn rearranged(&self, shape: &[usize], source: impl Fn(&[usize]) -> usize) -> Self {
        let places: Vec<usize> = places(shape).map(|place| source(&place)).collect();
        let values = match &self.values {
            Values::Float(values) => Values::Float(places.iter().map(|&i| values[i]).collect()),
            Values::Int(values) => Values::Int(places.iter().map(|&i| values[i]).collect()),
            Values::Bool(values) => Values::Bool(places.iter().map(|&i| values[i]).collect()),
        };
        Host { shape: shape.to_vec(), values }
    }
}

/// Every place in a shape, row-major.
pub fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |mut number| {
        let mut place = vec![0; shape.len()];
        for (index, size) in place.iter_mut().zip(&shape).rev() {
            (*index, number) = (number % size, number / size);
        }
        place
    })
}

/// The row-major number of a place.
pub fn number(shape: &[usize], place: &[usize]) -> usize {
    shape.iter().zip(place).fold(0, |number, (size, index)| number * size + index)
}
