//! An op that may take the memory of its inputs answers as one that may not, and leaves clones alone.

use crate::case::{Case, Form};
use crate::cases;
use crate::check::{Failures, Hosts, Ours, answer, device, dtypes, same_bits, upload};
use crate::value::Value;

fn check(case: &Case<Ours>, hosts: &Hosts, form: &Form) -> Result<(), String> {
    let consumed = answer(case, upload(hosts, &device()), form)?;
    let inputs = upload(hosts, &device());
    let shared = answer(case, inputs.clone(), form)?;
    same_bits(&consumed, &shared)?;
    // An engine may keep what it worked out for the first.
    let again = answer(case, upload(hosts, &device()), form)?;
    same_bits(&consumed, &again)?;

    let kept: Vec<_> = inputs.into_iter().map(Value::into_data).collect();
    let given: Vec<_> = hosts.iter().map(|(host, dtype)| host.data(*dtype)).collect();
    same_bits(&kept, &given).map_err(|what| format!("a clone changed: {what}"))
}

#[test]
fn in_place_or_not_is_the_same() {
    let mut failures = Failures::default();
    for case in cases::all::<Ours>() {
        for dtype in dtypes(&case) {
            for form in case.forms().iter().filter(|form| !form.is_long()) {
                failures.add(case.name, dtype, form, check(&case, &case.hosts(form, dtype), form));
            }
        }
    }
    failures.none();
}
