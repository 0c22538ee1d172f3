//! The same logical tensor through other storages: the answers are the same to the bit.

use burn_backend::{DType, Shape, Slice, TensorData};

use crate::case::{Case, Form};
use crate::cases;
use crate::check::{Failures, Hosts, Ours, answer, close, device, dtypes, same_bits, upload};
use crate::host::{Host, number};
use crate::tolerance;
use crate::value::Value;

/// A view, through a storage that is laid out differently.
struct Layout {
    name: &'static str,
    view: fn(&Host, DType) -> Value<Ours>,
}

const LAYOUTS: [Layout; 5] = [
    Layout { name: "transposed", view: transposed },
    Layout { name: "backwards", view: |host, dtype| sliced(host, dtype, -1, 0) },
    Layout { name: "every other", view: |host, dtype| sliced(host, dtype, 2, 0) },
    Layout { name: "every third, backwards", view: |host, dtype| sliced(host, dtype, -3, 2) },
    Layout { name: "a part", view: |host, dtype| sliced(host, dtype, 1, 1) },
];

fn value(host: &Host, dtype: DType) -> Value<Ours> {
    Value::new(host, dtype, &device())
}

fn transposed(host: &Host, dtype: DType) -> Value<Ours> {
    let axes: Vec<usize> = (0..host.shape.len()).rev().collect();
    let stored: Vec<usize> = host.shape.iter().rev().copied().collect();
    let storage = host
        .rearranged(&stored, |place| number(&host.shape, &place.iter().rev().copied().collect::<Vec<_>>()));
    value(&storage, dtype).permute(&axes)
}

/// Elements `step` apart along the last three axes, after `before` others; backwards if `step` is negative.
fn sliced(host: &Host, dtype: DType, step: isize, before: usize) -> Value<Ours> {
    if host.count() == 0 {
        return value(host, dtype);
    }
    // Every axis of a large rank would make a large storage.
    let stride = |axis: usize| if axis + 3 >= host.shape.len() { step.unsigned_abs() } else { 1 };
    // Between and before the elements are their neighbours, which a wrong stride or offset would read.
    let original = |axis: usize, index: usize| {
        let (size, stride) = (host.shape[axis], stride(axis));
        let slot = index.saturating_sub(before) / stride;
        let forwards = if step > 0 { slot } else { size - 1 - slot };
        let taken = if step > 0 { 0 } else { stride - 1 };
        let is_element = index >= before && (index - before) % stride == taken;
        if is_element { forwards } else { (forwards + 1) % size }
    };
    let stored: Vec<usize> =
        host.shape.iter().enumerate().map(|(axis, size)| before + size * stride(axis)).collect();
    let storage = host.rearranged(&stored, |place| {
        let each = place.iter().enumerate().map(|(axis, &index)| original(axis, index));
        number(&host.shape, &each.collect::<Vec<_>>())
    });
    let slice = |(axis, &size): (usize, &usize)| {
        let step = step.signum() * stride(axis) as isize;
        Slice::with_step(before as isize, Some(size as isize), step)
    };
    value(&storage, dtype).slice(&stored.iter().enumerate().map(slice).collect::<Vec<_>>())
}

/// The tensor with the first place of every second axis repeated: as data, and as a view with stride zero.
fn expanded(host: &Host, dtype: DType) -> (Host, Value<Ours>) {
    let kept = |axis: usize, index: usize| if axis.is_multiple_of(2) { 0 } else { index };
    let first = |place: &[usize]| {
        let place: Vec<usize> = place.iter().enumerate().map(|(axis, &index)| kept(axis, index)).collect();
        number(&host.shape, &place)
    };
    let narrow: Vec<usize> = host
        .shape
        .iter()
        .enumerate()
        .map(|(axis, &size)| if axis.is_multiple_of(2) { size.min(1) } else { size })
        .collect();
    let storage = host.rearranged(&narrow, first);
    (host.rearranged(&host.shape, first), value(&storage, dtype).expand(Shape::from(host.shape.clone())))
}

/// Sums of all elements go in the order of the storage, and products of matrices and sums over windows by other kernels
/// for other strides: the same terms, added in another order.
fn adds_by_layout(case: &str) -> bool {
    ["float_sum", "float_mean", "float_prod"].iter().any(|whole| case.split(' ').next() == Some(whole))
        || ["matmul", "linear", "attention", "conv", "avg_pool", "interpolate"]
            .iter()
            .any(|part| case.contains(part))
}

fn against_contiguous(
    case: &Case<Ours>,
    contiguous: &Hosts,
    views: Vec<Value<Ours>>,
    form: &Form,
    own: DType,
) -> Result<(), String> {
    let expected = answer(case, upload(contiguous, &device()), form)?;
    let actual = answer(case, views, form)?;
    if !adds_by_layout(case.name) {
        return same_bits(&actual, &expected);
    }
    let mut pairs = actual.iter().zip(&expected);
    let near = |(actual, expected): (&TensorData, &TensorData)| {
        close(actual, &Host::from_data(expected), tolerance::of(case.name, own, expected.dtype, form))
    };
    pairs.try_for_each(near)
}

fn check(case: &Case<Ours>, form: &Form, dtype: DType, failures: &mut Failures) {
    let hosts = case.hosts(form, dtype);
    let mut add = |layout: &str, outcome: Result<(), String>| {
        failures.add(case.name, dtype, form, outcome.map_err(|what| format!("{layout}: {what}")));
    };
    for layout in &LAYOUTS {
        let views = hosts.iter().map(|(host, dtype)| (layout.view)(host, *dtype)).collect();
        add(layout.name, against_contiguous(case, &hosts, views, form, dtype));
    }
    if hosts.iter().all(|(host, _)| host.count() > 0) {
        let both = hosts.iter().map(|(host, dtype)| (expanded(host, *dtype), *dtype));
        let (data, views) =
            both.map(|((host, view), dtype)| ((host, dtype), view)).unzip::<_, _, Vec<_>, _>();
        add("expanded", against_contiguous(case, &data, views, form, dtype));
    }
}

#[test]
fn a_view_is_as_good_as_a_copy() {
    let mut failures = Failures::default();
    for case in cases::all::<Ours>() {
        for dtype in dtypes(&case) {
            for (index, form) in case.forms().iter().enumerate() {
                let lead = matches!(dtype, DType::F32 | DType::I32 | DType::Bool(_));
                if index < 3 || (lead && !form.is_long()) {
                    check(&case, form, dtype, &mut failures);
                }
            }
        }
    }
    failures.none();
}
