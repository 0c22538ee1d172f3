//! What Burn's autodiff and this crate's make of our backend's ops, against differences of our own forward, in f64.

use burn::backend::Autodiff;
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, DType};
use burn_overcommit::OvercommitDevice;

use crate::case::{Case, Form, Kind};
use crate::check::{Failures, Hosts, Ours, answer, caught, device, dtypes, pairs, upload};
use crate::host::{Host, Values};
use crate::value::Value;

/// Backends that differentiate ours.
trait Over: AutodiffBackend<Device = OvercommitDevice, InnerBackend = Ours> {}

impl<A: AutodiffBackend<Device = OvercommitDevice, InnerBackend = Ours>> Over for A {}

/// Cases without a gradient to check, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("float_cast f32", "a difference of f64 is lost in f32"),
    ("float_cast f16", "a difference of f64 is lost in f16"),
    ("float_cast bf16", "a difference of f64 is lost in bf16"),
    ("hard_sigmoid", "Burn's own goes by f32"),
    ("rfft", "Burn's autodiff has none"),
    ("irfft", "Burn's autodiff has none"),
    ("float_scatter_nd mul", "Burn's autodiff counts on indices that do not repeat"),
    ("float_scatter_nd max", "Burn's autodiff counts on indices that do not repeat"),
    ("float_scatter_nd min", "Burn's autodiff counts on indices that do not repeat"),
    ("float_topk", "Burn's autodiff has none"),
    ("float_prod_dim", "Burn's autodiff takes logarithms, also of negative numbers"),
    ("float_repeat_dim", "Burn's autodiff adds up the wrong repetitions where the axis is longer than one"),
];

/// What Burn calls in a backward pass is not differentiated again; nor are tensors of rank 0, which Burn's API has not.
fn has_gradient(case: &Case<Ours>) -> bool {
    let op = case.name.split(' ').next();
    let excepted = WITHOUT.iter().any(|(name, _)| *name == case.name || Some(*name) == op);
    case.kind == Kind::Float
        && !excepted
        && !case.name.contains("_backward")
        && dtypes(case).contains(&DType::F64)
}

/// Central differences of f64 are good to about the cube root of its precision, squared.
const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

/// What an output's element counts in the loss.
fn weight(index: usize) -> f64 {
    ((index * 37 + 11) % 23) as f64 / 11.5 - 0.9
}

/// The loss of a case at some inputs: the weighted sum of its float outputs, on the host, which takes far less for a few elements
/// than a GPU or its stand-in.
fn loss(case: &Case<Ours>, hosts: &Hosts, form: &Form) -> Result<f64, String> {
    let outputs = answer(case, upload(hosts, &OvercommitDevice::Host(0)), form)?;
    let weighted = |data| match Host::from_data(&data).values {
        Values::Float(values) => values.iter().enumerate().map(|(i, x)| weight(i) * x).sum(),
        _ => 0.0,
    };
    Ok(outputs.into_iter().map(weighted).sum())
}

fn tracked<A: Backend<Device = OvercommitDevice>>(hosts: &Hosts) -> Vec<Value<A>> {
    let values = upload::<A>(hosts, &device()).into_iter();
    let track = |value| match value {
        Value::Float(x) => Value::Float(A::float_set_require_grad(x, true)),
        other => other,
    };
    values.map(track).collect()
}

/// The sum of one output under the loss's weights.
fn weighted_sum<A: Backend<Device = OvercommitDevice>>(output: FloatTensor<A>) -> FloatTensor<A> {
    use burn_backend::TensorMetadata;
    let shape = output.shape();
    let weights = Values::Float((0..shape.num_elements()).map(weight).collect());
    let weights = Host::new(&shape.to_vec(), weights);
    let weights = Value::<A>::new(&weights, DType::F64, &device()).float();
    A::float_sum(A::float_mul(output, weights))
}

/// The gradients of the float inputs by autodiff; `None` where no path leads from the loss, or there is no loss at all.
fn by_autodiff<A: Over>(case: &Case<A>, hosts: &Hosts, form: &Form) -> Result<Vec<Option<Host>>, String> {
    caught(|| {
        let inputs = tracked::<A>(hosts);
        let outputs = (case.run)(inputs.clone(), form.axis).into_iter();
        let sums = outputs.filter_map(|output| match output {
            Value::Float(x) => Some(weighted_sum::<A>(x)),
            _ => None,
        });
        let Some(loss) = sums.reduce(A::float_add) else { return Vec::new() };
        let gradients = A::backward(loss);
        let gradient = |input: &Value<A>| match input {
            Value::Float(x) => A::grad(x, &gradients)
                .map(|gradient| Host::from_data(&Value::<Ours>::Float(gradient).into_data())),
            _ => None,
        };
        inputs.iter().map(gradient).collect()
    })
}

fn moved(hosts: &Hosts, input: usize, element: usize, by: f64) -> Vec<(Host, DType)> {
    let mut hosts = hosts.to_vec();
    if let Values::Float(values) = &mut hosts[input].0.values {
        values[element] += by;
    }
    hosts
}

fn check<A: Over>(ours: &Case<Ours>, tracked: &Case<A>, form: &Form) -> Result<(), String> {
    let hosts = ours.hosts(form, DType::F64);
    for (input, gradient) in by_autodiff(tracked, &hosts, form)?.into_iter().enumerate() {
        if !matches!(hosts[input].0.values, Values::Float(_)) {
            continue;
        }
        for element in 0..hosts[input].0.count() {
            let [above, below] = [STEP, -STEP].map(|by| loss(ours, &moved(&hosts, input, element, by), form));
            let expected = (above? - below?) / (2.0 * STEP);
            let actual = match &gradient {
                Some(Host { values: Values::Float(values), .. }) => values[element],
                _ => 0.0,
            };
            // The loss's own magnitude bounds what its difference can tell.
            let near = (actual - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
            if !near {
                return Err(format!(
                    "input {input} element {element}: {actual:e}, by differences {expected:e}"
                ));
            }
        }
    }
    Ok(())
}

fn check_all<A: Over>() {
    assert!(Ours::supports_dtype(&device(), DType::F64));
    let mut failures = Failures::default();
    for (ours, tracked) in pairs::<Ours, A>() {
        let each_rank_0 = |form: &&Form| form.shape.is_empty() && ours.forms().len() > 1;
        for form in ours.forms().iter().take(3).filter(|form| has_gradient(&ours) && !each_rank_0(form)) {
            failures.add(ours.name, DType::F64, form, check(&ours, &tracked, form));
        }
    }
    failures.none();
}

#[test]
fn gradients_are_those_of_differences() {
    check_all::<Autodiff<Ours>>();
}

#[test]
fn memory_saving_gradients_are_those_of_differences() {
    check_all::<burn_overcommit::autodiff::MemorySaving<Ours>>();
}

/// Values are those of our ops, or what Burn's autodiff composes of them.
#[test]
fn memory_saving_values_are_the_same_bits() {
    use crate::check::same_bits;
    use burn_overcommit::autodiff::MemorySaving;

    let mut failures = Failures::default();
    let cases = pairs::<Ours, MemorySaving<Ours>>().zip(crate::cases::all::<Autodiff<Ours>>());
    for ((ours, saving), burns) in cases {
        for dtype in dtypes(&ours) {
            for form in ours.forms().iter().filter(|form| !form.is_long()) {
                let hosts = ours.hosts(form, dtype);
                let found = answer(&saving, upload(&hosts, &device()), form);
                let composed = answer(&burns, upload(&hosts, &device()), form);
                let outcome = match (found, composed) {
                    (Ok(found), Ok(composed)) => same_bits(&found, &composed)
                        .or_else(|_| same_bits(&found, &answer(&ours, upload(&hosts, &device()), form)?)),
                    // What Burn's autodiff has not, this has not, unless the default works here.
                    (Err(what), Ok(_)) => Err(what),
                    (_, Err(_)) => Ok(()),
                };
                failures.add(ours.name, dtype, form, outcome);
            }
        }
    }
    failures.none();
}
