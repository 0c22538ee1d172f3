//! Values at the edges of their types, through every op on elements and along rows.

use burn_backend::DType;

use crate::case::{Case, Extent, Fill, Form};
use crate::check::{Failures, Ours, Reference, dtypes, orders_equals, pairs};
use crate::host::{Host, Values, int_limits};
use crate::reference;
use crate::values::compare;

fn floats(dtype: DType) -> Vec<f64> {
    // The smallest normal number, the largest one, and the smallest of all.
    let [normal, largest, smallest] = match dtype {
        DType::F64 => [f64::MIN_POSITIVE, f64::MAX, 5e-324],
        DType::F32 => [f32::MIN_POSITIVE.into(), f32::MAX.into(), 1e-45],
        DType::F16 => [6.103_515_625e-5, 65504.0, 6e-8],
        _ => [f32::MIN_POSITIVE.into(), 3.389_531_389_251_535_5e38, 9.2e-41],
    };
    let positive =
        [0.0, smallest, normal / 2.0, normal, 0.5, 1.0, 1.5, 2.5, 3.0, 100.0, largest, f64::INFINITY];
    let both = positive.into_iter().flat_map(|x| [x, -x]);
    both.chain([f64::NAN]).collect()
}

fn ints(dtype: DType, naive: bool) -> Vec<i128> {
    let [least, most] = int_limits(dtype);
    // The reference computes in i64, unless it is a naive function.
    let most = if naive { most } else { most.min(i64::MAX.into()) };
    let all = [least, least + 1, -1, 0, 1, 2, 3, 7, most - 1, most];
    all.into_iter().filter(|x| (least..=most).contains(x)).collect()
}

/// Every pair of special values, so that two inputs of a case meet in all ways; `second` turns to the pair's other half.
fn all_pairs<T: Copy>(values: &[T], second: bool) -> Vec<T> {
    let pair = |&x: &T| values.iter().map(move |&y| if second { y } else { x });
    values.iter().flat_map(pair).collect()
}

fn inside(fill: Fill, x: i128) -> i128 {
    match fill {
        Fill::Below(end) => x.rem_euclid(end as i128),
        // What dividing by zero gives is nobody's promise.
        Fill::Nonzero if x == 0 => 5,
        _ => x,
    }
}

/// The special values for one input: those within its fill's domain, or all.
fn host(fill: Fill, dtype: DType, second: bool, naive: bool) -> Host {
    let values = match dtype {
        DType::Bool(_) => Values::Bool(all_pairs(&[false, true], second)),
        dtype if dtype.is_float() => Values::Float(all_pairs(&floats(dtype), second)),
        _ => {
            Values::Int(all_pairs(&ints(dtype, naive), second).into_iter().map(|x| inside(fill, x)).collect())
        }
    };
    let count = match &values {
        Values::Float(values) => values.len(),
        Values::Int(values) => values.len(),
        Values::Bool(values) => values.len(),
    };
    Host::new(&[count], values).held_by(dtype)
}

fn hosts(case: &Case<Ours>, own: DType) -> Option<Vec<(Host, DType)>> {
    let naive = reference::of(case.name).is_some();
    let input = |(index, input): (usize, &crate::case::Input)| {
        let dtype = input.dtype(own);
        let open = !matches!(input.extent, Extent::Fixed(_));
        open.then(|| (host(input.fill, dtype, index % 2 == 1, naive), dtype))
    };
    let hosts: Vec<_> = case.inputs.iter().enumerate().map(input).collect::<Option<_>>()?;
    let shortest = hosts.iter().map(|(host, _)| host.count()).min()?;
    Some(
        hosts
            .into_iter()
            .map(|(host, dtype)| (host.rearranged(&[shortest], |place| place[0]), dtype))
            .collect(),
    )
}

/// Cases for which the special values mean nothing, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("gelu", "infinity times zero, or its limit"),
    ("gelu_backward", "infinity times zero, or its limit"),
    ("sigmoid_backward", "no output of a sigmoid is out of 0..1"),
    ("int_max_abs_dim", "the magnitude of the least integer is not one"),
    ("int_mean_dim", "the sum wraps"),
    ("float_cumsum", "parts of the row are added up first, and overflow"),
    ("float_cumprod", "parts of the row are multiplied first, and overflow"),
];

#[test]
fn special_values_go_as_in_the_standard() {
    let mut failures = Failures::default();
    for (ours, reference) in pairs::<Ours, Reference>() {
        if WITHOUT.iter().any(|(name, _)| *name == ours.name) || orders_equals(ours.name) {
            continue;
        }
        for dtype in dtypes(&ours) {
            let Some(hosts) = hosts(&ours, dtype) else { continue };
            let form = Form { shape: hosts[0].0.shape.clone(), axis: 0 };
            failures.add(ours.name, dtype, &form, compare(&ours, &reference, &hosts, &form, dtype));
        }
    }
    failures.none();
}
