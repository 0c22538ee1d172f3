//! What a case of the table is, and the macro that writes one.
//!
//! ```text
//! [float int] add(x: own(Any, EACH), y: own(Any, EACH));
//! [float] gather(x: own(Any, [3, 4]), i: int(Below(4), [3, 2])) => gather(1, x, i);
//! {float} conv2d: grouped(x: own(Any, [2, 4, 5, 5]), w: own(Any, [6, 2, 3, 3])) => conv2d(x, w, None, options);
//! ```
//!
//! The first line is two cases, `float_add` and `int_add`; in braces, the op has no prefix. The name of the op is the op
//! of the case's own kind, and called with all inputs if nothing else is said. `own` stands for the case's own kind of
//! tensor. `EACH` is for ops on elements and takes every shape, `ROWS` for ops along an axis, which is then named after
//! the inputs: `(x: own(Any, ROWS); axis)`. A third argument is the shape to benchmark. `-> bool` says that the output is
//! of another kind than the case, `-> many` that the body is a list of values.

use burn_backend::{Backend, DType};

use crate::host::{BOOLS, FLOATS, Host, INTS, NATIVE, Values};
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Float,
    Int,
    Bool,
}

/// What an input's elements are. No float is near a multiple of a half, where
/// derivatives jump, but those of the last four.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// In -2..2; integers in -9..=9, or 0..=18 where unsigned.
    Any,
    /// In 0.1..2; integers in 1..=9.
    Positive,
    /// In -1..1, and not near its ends.
    Unit,
    /// In 1.1..3.
    AboveOne,
    /// Between -20 and 20.
    Wide,
    /// Small whole numbers, many of them equal.
    Coarse,
    /// Whole numbers but zero.
    Nonzero,
    /// Whole numbers that are at least zero and less than this.
    Below(usize),
}

#[derive(Clone, Debug)]
pub enum Extent {
    Each,
    Rows,
    Fixed(Vec<usize>),
}

pub const EACH: Extent = Extent::Each;
pub const ROWS: Extent = Extent::Rows;

impl<const D: usize> From<[usize; D]> for Extent {
    fn from(sizes: [usize; D]) -> Self {
        Extent::Fixed(sizes.to_vec())
    }
}

#[derive(Clone, Debug)]
pub struct Input {
    /// The case's own, if `None`.
    pub kind: Option<Kind>,
    pub fill: Fill,
    pub extent: Extent,
    pub large: Option<Vec<usize>>,
}

/// The shape of the inputs whose extent is not fixed, and the axis along which the op works.
#[derive(Clone, Debug)]
pub struct Form {
    pub shape: Vec<usize>,
    pub axis: usize,
}

pub struct Case<B: Backend> {
    pub name: &'static str,
    pub kind: Kind,
    pub inputs: Vec<Input>,
    pub run: fn(Vec<Value<B>>, usize) -> Vec<Value<B>>,
}

impl Kind {
    pub fn named(name: &str) -> Self {
        match name {
            "float" => Kind::Float,
            "int" => Kind::Int,
            "bool" => Kind::Bool,
            other => panic!("{other} is no kind of tensor"),
        }
    }

    pub fn dtypes(self) -> &'static [DType] {
        match self {
            Kind::Float => &FLOATS,
            Kind::Int => &INTS,
            Kind::Bool => &BOOLS,
        }
    }
}

impl Input {
    pub fn new(kind: &str, fill: Fill, extent: Extent, large: Option<Vec<usize>>) -> Self {
        let kind = (kind != "own").then(|| Kind::named(kind));
        Input { kind, fill, extent, large }
    }

    /// The dtype of this input where the case is tested with `own`. Other kinds get one that depends on `own`, so that
    /// indices of several widths are tested.
    pub fn dtype(&self, own: DType) -> DType {
        let same_kind = |kind| match kind {
            Kind::Float => own.is_float(),
            Kind::Int => own.is_int() || own.is_uint(),
            Kind::Bool => own.is_bool(),
        };
        match self.kind {
            None => own,
            Some(kind) if same_kind(kind) => own,
            Some(Kind::Float) => DType::F32,
            Some(Kind::Bool) => NATIVE,
            Some(Kind::Int) => match own {
                DType::F64 => DType::I64,
                DType::F16 => DType::U8,
                DType::BF16 => DType::I16,
                _ => DType::I32,
            },
        }
    }

    pub fn shape(&self, form: &Form) -> Vec<usize> {
        if let Extent::Fixed(shape) = &self.extent { shape.clone() } else { form.shape.clone() }
    }

    /// Values that look random and are the same everywhere, `salt` apart.
    pub fn values(&self, shape: &[usize], dtype: DType, salt: usize) -> Host {
        let count = shape.iter().product();
        // 1009 is prime: the numbers of 1009 neighbours differ.
        let noise = |i: usize| (i * 7919 + (salt + 1) * 104_729 + i / 1009 * 31) % 1009;
        let unsigned = dtype.is_uint();
        let whole = |i: usize| match self.fill {
            Fill::Below(end) => (noise(i) % end) as i128,
            Fill::Positive | Fill::AboveOne => 1 + (noise(i) % 9) as i128,
            Fill::Nonzero if unsigned => 1 + (noise(i) % 9) as i128,
            Fill::Nonzero => [-7, -3, -2, -1, 1, 2, 4, 9][noise(i) % 8],
            Fill::Coarse if unsigned => (noise(i) % 5) as i128,
            Fill::Coarse => (noise(i) % 5) as i128 - 2,
            _ if unsigned => (noise(i) % 19) as i128,
            _ => (noise(i) % 19) as i128 - 9,
        };
        // Off all halves, and other values in each block of 1009.
        let unit = |i: usize| (noise(i) as f64 + 0.31 + (i / 1009) as f64 * 5e-4) / 505.0 - 1.0;
        let real = |i: usize| match self.fill {
            Fill::Any => 2.0 * unit(i),
            Fill::Positive => 1.05 + 0.95 * unit(i),
            Fill::Unit => 0.9 * unit(i),
            Fill::AboveOne => 2.05 + 0.95 * unit(i),
            Fill::Wide => 20.0 * unit(i),
            _ => whole(i) as f64,
        };
        let values = match dtype {
            DType::Bool(_) => Values::Bool((0..count).map(|i| noise(i) % 5 > 2).collect()),
            dtype if dtype.is_float() => Values::Float((0..count).map(real).collect()),
            _ => Values::Int((0..count).map(whole).collect()),
        };
        Host::new(shape, values).held_by(dtype)
    }
}

impl<B: Backend> Case<B> {
    /// The forms to test, the main one first.
    pub fn forms(&self) -> Vec<Form> {
        let form = |(shape, axis): (&[usize], usize)| Form { shape: shape.to_vec(), axis };
        let has = |extent: fn(&Extent) -> bool| self.inputs.iter().any(|input| extent(&input.extent));
        if has(|extent| matches!(extent, Extent::Rows)) {
            ROW_FORMS.into_iter().map(form).collect()
        } else if has(|extent| matches!(extent, Extent::Each)) {
            EACH_FORMS.into_iter().map(|shape| form((shape, 0))).collect()
        } else {
            vec![form((&[], 0))]
        }
    }

    /// The inputs in a form, as `dtype` holds them, with their dtypes.
    pub fn hosts(&self, form: &Form, dtype: DType) -> Vec<(Host, DType)> {
        let host = |(salt, input): (usize, &Input)| {
            let dtype = input.dtype(dtype);
            (input.values(&input.shape(form), dtype, salt), dtype)
        };
        self.inputs.iter().enumerate().map(host).collect()
    }
}

impl Form {
    /// Too long for the narrow dtypes, whose sums and indices end before.
    pub fn is_long(&self) -> bool {
        self.shape.iter().product::<usize>() > 10_000
    }
}

const EACH_FORMS: [&[usize]; 13] = [
    &[3, 4, 5],
    &[],
    &[1],
    &[7],
    &[4, 6],
    &[2, 1, 3, 2],
    &[2, 1, 2, 1, 3],
    &[1, 2, 2, 1, 2, 2],
    &[2, 1, 2, 1, 2, 1, 2],
    &[1, 2, 1, 2, 3, 2, 1, 2],
    &[0],
    &[3, 0, 2],
    &[37, 1031],
];

const ROW_FORMS: [(&[usize], usize); 13] = [
    (&[3, 4, 5], 1),
    (&[3, 4, 5], 0),
    (&[3, 4, 5], 2),
    (&[7], 0),
    (&[6, 4], 1),
    (&[2, 1, 3, 2], 2),
    (&[2, 3, 2, 1, 3], 1),
    (&[1, 2, 1, 2, 3, 2, 1, 4], 4),
    (&[1, 2, 1, 2, 3, 2, 1, 4], 7),
    (&[0, 3], 1),
    (&[100_000], 0),
    (&[3, 11_003], 1),
    (&[11_003, 3], 0),
];

/// A function `cases` that lists the cases, for a backend.
macro_rules! cases {
    ($($kinds:tt $op:ident $(: $variant:ident)? ($($inputs:tt)*) $(-> $out:ident)? $(=> $body:expr)?;)*) => {
        pub fn cases<B: burn_backend::Backend>() -> Vec<$crate::case::Case<B>> {
            let mut list = Vec::new();
            $(case!(list, $kinds { $op [$($variant)?] ($($inputs)*) [$($out)?] [$($body)?] });)*
            list
        }
    };
}

/// The cases of one line: one for each kind.
macro_rules! case {
    ($list:ident, [$($own:ident)*] $rest:tt) => { $(case!($list, $own [$own] $rest);)* };
    ($list:ident, {$own:ident} $rest:tt) => { case!($list, $own [] $rest) };
    ($list:ident, $own:ident [$($prefix:ident)?] {
        $op:ident [$($variant:ident)?]
        ($($input:ident: $kind:ident($fill:expr, $extent:expr $(, $large:expr)?)),* $(; $axis:ident)?)
        [$($out:ident)?] [$($body:expr)?]
    }) => {
        $list.push($crate::case::Case {
            name: concat!($(stringify!($prefix), "_",)? stringify!($op) $(, " ", stringify!($variant))?),
            kind: $crate::case::Kind::named(stringify!($own)),
            inputs: vec![$($crate::case::Input::new(
                stringify!($kind), $fill, $extent.into(), None $(.or(Some($large.to_vec())))?
            )),*],
            run: |inputs: Vec<$crate::value::Value<B>>, _axis| {
                #[allow(unused_mut)]
                let mut inputs = inputs.into_iter();
                $(let $input = of_kind!($kind $own, inputs.next().expect("as many as the case says"));)*
                $(let $axis = _axis;)?
                #[allow(unused_variables)]
                let $op = pastey::paste!(B::[<$($prefix _)? $op>]);
                output!($own [$($out)?] body!($op [$($input)*] $($body)?))
            },
        })
    };
}

macro_rules! of_kind {
    (own $own:ident, $value:expr) => {
        $value.$own()
    };
    ($kind:ident $own:ident, $value:expr) => {
        $value.$kind()
    };
}

macro_rules! output {
    ($own:ident [many] $body:expr) => { $body };
    ($own:ident [] $body:expr) => { output!($own [$own] $body) };
    ($own:ident [float] $body:expr) => { vec![$crate::value::Value::Float($body)] };
    ($own:ident [int] $body:expr) => { vec![$crate::value::Value::Int($body)] };
    ($own:ident [bool] $body:expr) => { vec![$crate::value::Value::Bool($body)] };
}

macro_rules! body {
    ($op:ident [$($input:ident)*]) => { $op($($input),*) };
    ($op:ident [$($input:ident)*] $body:expr) => { $body };
}

/// The shape for a benchmark, or none.
#[allow(dead_code, reason = "for the benchmark")]
pub fn large(input: &Input, form: &Form) -> Option<Vec<usize>> {
    match &input.extent {
        Extent::Fixed(_) => input.large.clone(),
        _ => Some(input.large.clone().unwrap_or_else(|| form.shape.clone())),
    }
}

/// The dtype in which the reference computes what ours does in this one.
#[allow(dead_code, reason = "for the checks")]
pub fn reference_dtype(dtype: DType) -> DType {
    match dtype {
        DType::Bool(_) => NATIVE,
        dtype if dtype.is_float() => DType::F64,
        _ => DType::I64,
    }
}
