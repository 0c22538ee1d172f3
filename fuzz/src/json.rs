//! Changes of JSON that leave it readable: other numbers, other names of element types, other orders.

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzzer_mutate;
use serde_json::Value;

use crate::values;

/// Names that may stand where another one of them does.
const NAMES: [&str; 14] = [
    "F64",
    "F32",
    "F16",
    "BF16",
    "I64",
    "I32",
    "I8",
    "U64",
    "U32",
    "U8",
    "Bool",
    "ReadOnly",
    "ReadWrite",
    "NotInit",
];

/// Changes the first `size` bytes, and returns how many there are then.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let Ok(mut value) = serde_json::from_slice::<Value>(&data[..size]) else {
        return fuzzer_mutate(data, size, max_size);
    };
    // The numbers of a generator by Knuth.
    let mut state = u64::from(seed);
    let random: Vec<u8> = (0..64)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let changed = change(&mut value, &mut Unstructured::new(&random));
    let text = serde_json::to_vec(&value).unwrap_or_default();
    if changed.is_err() || text.len() > max_size {
        return size;
    }
    data[..text.len()].copy_from_slice(&text);
    text.len()
}

fn change(value: &mut Value, u: &mut Unstructured) -> Result<()> {
    if let Value::Array(tasks) = value
        && tasks.len() > 1
        && u.ratio(1, 4)?
    {
        let (from, to) = (u.choose_index(tasks.len())?, u.choose_index(tasks.len())?);
        match u.int_in_range(0..=2)? {
            0 => tasks.swap(from, to),
            1 => drop(tasks.remove(from)),
            _ => tasks.insert(to, tasks[from].clone()),
        }
        return Ok(());
    }
    for _ in 0..u.int_in_range(1..=3)? {
        let mut leaves = Vec::new();
        collect(value, &mut leaves);
        let numbers: Vec<Value> =
            leaves.iter().filter(|leaf| leaf.is_number()).map(|leaf| (**leaf).clone()).collect();
        let Some(leaf) = (!leaves.is_empty()).then(|| u.choose_index(leaves.len())).transpose()? else {
            break;
        };
        let leaf = &mut leaves[leaf];
        **leaf = match &**leaf {
            Value::Number(_) if u.arbitrary()? => u.choose(&numbers)?.clone(),
            Value::Number(_) if u.ratio(1, 8)? => (-(values::few(u)? as i64)).into(),
            Value::Number(_) => values::size(u)?.into(),
            Value::String(name) if NAMES.contains(&name.as_str()) => values::one(u, &NAMES)?.into(),
            Value::Bool(is) => (!is).into(),
            other => other.clone(),
        };
    }
    Ok(())
}

/// The numbers, names and flags of a value.
fn collect<'a>(value: &'a mut Value, leaves: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(parts) => parts.iter_mut().for_each(|part| collect(part, leaves)),
        Value::Object(parts) => parts.values_mut().for_each(|part| collect(part, leaves)),
        Value::Null => {}
        leaf => leaves.push(leaf),
    }
}
