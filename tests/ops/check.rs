//! How the table is run, and how answers are compared.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, LazyLock, Once};

use burn_backend::{Backend, DType, TensorData};
use burn_overcommit::engine::apart::Apart;
use burn_overcommit::runtime::configure_with_engine;
use burn_overcommit::{Config, Overcommit, OvercommitDevice};

use crate::case::{Case, Form};
use crate::cases;
use crate::host::{Host, Values};
use crate::value::Value;

pub type Ours = Overcommit<f32, i32>;
pub type Reference = burn::backend::Flex;

/// The host engine, or what the environment names: `scripts/check-cuda` runs the table on the CUDA engine, and
/// `scripts/check-sanitizers` with the operands in memory of their own.
pub fn device() -> OvercommitDevice {
    static DEVICE: LazyLock<OvercommitDevice> = LazyLock::new(|| {
        let named = std::env::var("OVERCOMMIT_DEVICE");
        let device = named
            .map_or(OvercommitDevice::Host(0), |name| name.parse().unwrap_or_else(|error| panic!("{error}")));
        if std::env::var_os("OPERANDS_APART").is_some() {
            let apart = |engine| Arc::new(Apart::new(engine)) as _;
            configure_with_engine(&device, Config::new(), apart).unwrap_or_else(|error| panic!("{error}"));
        }
        device
    });
    *DEVICE
}

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Inputs, and the dtype of each.
pub type Hosts = [(Host, DType)];

/// Every case with its twin on another backend.
pub fn pairs<A: Backend, B: Backend>() -> impl Iterator<Item = (Case<A>, Case<B>)> {
    cases::all::<A>().into_iter().zip(cases::all::<B>())
}

/// The dtypes of a case that our backend has. Its integer products are of 32 and 64 bits.
pub fn dtypes<B: Backend>(case: &Case<B>) -> Vec<DType> {
    let has = |dtype: &DType| {
        let multiplies = dtype.is_float() || matches!(dtype, DType::I32 | DType::I64);
        Ours::supports_dtype(&device(), *dtype) && (multiplies || !case.name.contains("matmul"))
    };
    case.kind.dtypes().iter().copied().filter(has).collect()
}

/// Whether a case tells which of several equal elements comes first, which nothing promises.
pub fn orders_equals(case: &str) -> bool {
    ["argsort", "argtopk", "sort_with_indices"].iter().any(|part| case.contains(part))
}

pub fn upload<B: Backend>(hosts: &Hosts, device: &B::Device) -> Vec<Value<B>> {
    hosts.iter().map(|(host, dtype)| Value::new(host, *dtype, device)).collect()
}

/// What a case answers to inputs, or the message of its panic.
pub fn answer<B: Backend>(
    case: &Case<B>,
    inputs: Vec<Value<B>>,
    form: &Form,
) -> Result<Vec<TensorData>, String> {
    caught(|| (case.run)(inputs, form.axis).into_iter().map(Value::into_data).collect())
}

pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // A panic that is caught is reported with its case.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                loud(panic)
            }
        }));
    });
    CAUGHT.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        format!("panicked: {}", text.lines().next().unwrap_or_default())
    })
}

/// What went wrong, case by case; a test ends with `none`.
#[derive(Default)]
pub struct Failures {
    lines: Vec<String>,
    runs: usize,
}

impl Failures {
    pub fn add(&mut self, case: &str, dtype: DType, form: &Form, outcome: Result<(), String>) {
        self.runs += 1;
        if let Err(what) = outcome {
            self.lines.push(format!("{case} {dtype:?} {:?} axis {}: {what}", form.shape, form.axis));
        }
    }

    #[track_caller]
    pub fn none(self) {
        assert!(self.runs > 0, "nothing was tested");
        let (failed, runs) = (self.lines.len(), self.runs);
        assert!(failed == 0, "{failed} of {runs} runs failed:\n{}", self.lines.join("\n"));
    }
}

/// Equal to the bit, dtype and shape included.
pub fn same_bits(left: &[TensorData], right: &[TensorData]) -> Result<(), String> {
    for (left, right) in left.iter().zip(right) {
        let same = left.dtype == right.dtype && left.shape == right.shape;
        if !same || left.as_bytes() != right.as_bytes() {
            return Err(first_difference(&Host::from_data(left), &Host::from_data(right), &|a, b| {
                a.to_bits() == b.to_bits()
            }));
        }
    }
    if left.len() == right.len() { Ok(()) } else { Err("another number of outputs".into()) }
}

/// Equal within a tolerance, relative to the larger of one and the expected magnitude; all but floats exactly.
pub fn close(actual: &TensorData, expected: &Host, tolerance: f64) -> Result<(), String> {
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0)
    };
    let actual = Host::from_data(actual);
    let same = match (&actual.values, &expected.values) {
        (Values::Float(a), Values::Float(b)) => {
            actual.shape == expected.shape && a.iter().zip(b).all(|(a, b)| near(*a, *b))
        }
        _ => actual == *expected,
    };
    if same { Ok(()) } else { Err(first_difference(&actual, expected, &near)) }
}

/// The first element that differs, and how many do.
fn first_difference(actual: &Host, expected: &Host, same: &dyn Fn(f64, f64) -> bool) -> String {
    if actual.shape != expected.shape {
        return format!("shape {:?}, expected {:?}", actual.shape, expected.shape);
    }
    let text = |values: &Values, i: usize| match values {
        Values::Float(values) => format!("{:e}", values[i]),
        Values::Int(values) => values[i].to_string(),
        Values::Bool(values) => values[i].to_string(),
    };
    let differs = |i: &usize| match (&actual.values, &expected.values) {
        (Values::Float(a), Values::Float(b)) => !same(a[*i], b[*i]),
        (a, b) => text(a, *i) != text(b, *i),
    };
    let all: Vec<usize> = (0..actual.count()).filter(differs).collect();
    let Some(&first) = all.first() else { return "another dtype or kind".into() };
    let (a, b) = (text(&actual.values, first), text(&expected.values, first));
    format!("{} of {} differ, number {first} is {a}, expected {b}", all.len(), actual.count())
}
