//! Every case, in every dtype, against the same case in f64 or i64.

use burn_backend::DType;

use crate::case::{Case, Form, reference_dtype};
use crate::check::{
    Failures, Hosts, Ours, Reference, answer, caught, close, device, dtypes, orders_equals, pairs, upload,
};
use crate::host::Host;
use crate::{reference, tolerance};

/// The dtype an output has to have, from the reference's: what the case's variant names, or else, where that is an
/// input's, our input's.
fn expected_dtype(case: &str, output: DType, hosts: &Hosts, own: DType) -> DType {
    let variant = case.split_once(' ').map_or("", |(_, variant)| variant);
    if variant == output.name() {
        return output;
    }
    // burn-flex makes some bools `U8`.
    if own.is_bool() && matches!(output, DType::Bool(_) | DType::U8) {
        return own;
    }
    let twins = hosts.iter().map(|(_, dtype)| (*dtype, reference_dtype(*dtype)));
    let own_first = std::iter::once((own, reference_dtype(own))).chain(twins);
    own_first.into_iter().find(|(_, twin)| *twin == output).map_or(output, |(dtype, _)| dtype)
}

/// What a case has to answer, by the reference.
pub fn expected(
    case: &Case<Reference>,
    hosts: &Hosts,
    form: &Form,
    own: DType,
) -> Result<Vec<(Host, DType)>, String> {
    let twins: Vec<_> = hosts.iter().map(|(host, dtype)| (host.clone(), reference_dtype(*dtype))).collect();
    let outputs = match reference::of(case.name) {
        Some(naive) => naive(&twins, form.axis),
        None => answer(case, upload(&twins, &Default::default()), form)
            .map_err(|what| format!("the reference {what}"))?
            .iter()
            .map(|data| (Host::from_data(data), data.dtype))
            .collect(),
    };
    let typed = |(host, dtype): (Host, DType)| {
        let dtype = expected_dtype(case.name, dtype, hosts, own);
        (host.held_by(dtype), dtype)
    };
    Ok(outputs.into_iter().map(typed).collect())
}

/// Runs both and compares.
pub fn compare(
    ours: &Case<Ours>,
    reference: &Case<Reference>,
    hosts: &Hosts,
    form: &Form,
    own: DType,
) -> Result<(), String> {
    let expected = expected(reference, hosts, form, own)?;
    let actual = answer(ours, upload(hosts, &device()), form)?;
    if actual.len() != expected.len() {
        return Err(format!("{} outputs, expected {}", actual.len(), expected.len()));
    }
    for (actual, (expected, dtype)) in actual.iter().zip(&expected) {
        if actual.dtype != *dtype {
            return Err(format!("{:?}, expected {dtype:?}", actual.dtype));
        }
        close(actual, expected, tolerance::of(ours.name, own, *dtype, form))?;
    }
    Ok(())
}

#[test]
fn every_case_answers_as_the_reference() {
    let mut failures = Failures::default();
    for (ours, reference) in pairs::<Ours, Reference>() {
        for dtype in dtypes(&ours) {
            for form in ours.forms() {
                let narrow = !matches!(dtype, DType::F32 | DType::I64 | DType::Bool(_));
                let has_equals = narrow || !dtype.is_float();
                if form.is_long() && (narrow || (has_equals && orders_equals(ours.name))) {
                    continue;
                }
                // Bools that are neither true nor false panic when they are read.
                let hosts = ours.hosts(&form, dtype);
                let outcome = caught(|| compare(&ours, &reference, &hosts, &form, dtype)).flatten();
                failures.add(ours.name, dtype, &form, outcome);
            }
        }
    }
    failures.none();
}
