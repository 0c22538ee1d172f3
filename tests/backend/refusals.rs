//! What the backend says of itself, and what it refuses: through Burn's tensor API.

use crate::support::{Ours, Reference, floats, ints};
use burn::backend::Autodiff;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::module::ctc_loss;
use burn::tensor::{Bool, FloatDType, Int, IntDType, Shape, Tensor, TensorData, activation};
use burn_overcommit::OvercommitDevice;

#[test]
fn random_numbers_follow_their_distribution() {
    use burn::tensor::Distribution::{Bernoulli, Default, Normal, Uniform};
    let device = OvercommitDevice::Host(0);
    // Distribution, its bounds, its mean and deviation.
    let table = [
        (Default, 0.0..=1.0, 0.5, 0.289),
        (Uniform(-3.0, 5.0), -3.0..=5.0, 1.0, 2.309),
        (Normal(2.0, 3.0), -30.0..=30.0, 2.0, 3.0),
        (Bernoulli(0.25), 0.0..=1.0, 0.25, 0.433),
    ];
    for (distribution, bounds, mean, deviation) in table {
        let x = Tensor::<Ours, 1>::random([40_000], distribution, &device);
        let values: Vec<f64> = x.into_data().iter::<f64>().collect();
        let average = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|x| (x - average).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(values.iter().all(|x| bounds.contains(x)), "{distribution:?} leaves {bounds:?}");
        assert!((average - mean).abs() < 0.05 * deviation, "{distribution:?}: mean {average}");
        assert!((square.sqrt() - deviation).abs() < 0.05 * deviation, "{distribution:?}: {square}");
    }
}

#[test]
fn element_types_are_told_without_a_device() {
    use burn::tensor::{BoolStore, DType};
    let device = OvercommitDevice::Cuda(63);
    use burn::tensor::quantization::QuantScheme;
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
    let signed = [DType::I64, DType::I32, DType::I16, DType::I8];
    let unsigned = [DType::U64, DType::U32, DType::U16, DType::U8];
    let bools = [BoolStore::Native, BoolStore::U8, BoolStore::U32].map(DType::Bool);
    for dtype in floats.into_iter().chain(signed).chain(unsigned).chain(bools) {
        assert!(Ours::supports_dtype(&device, dtype), "{dtype:?}");
    }
    assert!(!Ours::supports_dtype(&device, DType::QFloat(QuantScheme::default())));
    assert_eq!(Ours::name(&OvercommitDevice::Host(0)), "overcommit<host:0>");
    assert_eq!(Ours::device_count(99), 0);
}

#[test]
fn integers_compare_with_scalars_they_cannot_hold() {
    let device = OvercommitDevice::Host(0);
    let all = |mask: Tensor<Ours, 1, Bool>| mask.into_data().iter::<bool>().all(|set| set);
    for dtype in [IntDType::U8, IntDType::I8] {
        let bytes = ints::<Ours, 1>([3], 5, &device).cast(dtype);
        assert!(all(bytes.clone().not_equal_elem(300)) && !all(bytes.clone().equal_elem(300)));
        assert!(all(bytes.clone().lower_elem(300)) && !all(bytes.greater_equal_elem(300)));
    }
    let bytes = ints::<Ours, 1>([3], 5, &device).cast(IntDType::I8);
    assert!(all(bytes.clone().greater_elem(-300)) && !all(bytes.lower_equal_elem(-300)));
}

#[test]
fn tensors_move_between_devices() {
    let (first, second) = (OvercommitDevice::Host(0), OvercommitDevice::Host(1));
    let x = floats::<Ours, 2>([3, 4], &first).transpose();
    let moved = x.clone().to_device(&second);
    assert_eq!(moved.device(), second);
    assert_eq!(moved.into_data(), x.into_data());
}

#[test]
#[should_panic(
    expected = "data of the wrong size: a f32 tensor of shape [2, 3] takes 24 bytes, and 20 were given"
)]
fn data_that_does_not_fit_is_refused() {
    let mut data = TensorData::new(vec![0.0f32; 5], [5]);
    data.shape = Shape::new([2, 3]);
    let _ = Tensor::<Ours, 2>::from_data(data, &OvercommitDevice::Host(0));
}

/// Losses and the gradient of logits for targets that are empty, full of repeats, too long to be, and as long as the
/// steps allow.
fn ctc_losses<B: AutodiffBackend>(device: &B::Device) -> [Vec<f32>; 2] {
    let logits = floats::<B, 3>([6, 5, 4], device).require_grad();
    let ints = |values: Vec<i32>, shape: Vec<usize>| TensorData::new(values, shape);
    let labels = vec![1, 2, 3, 0, 2, 2, 2, 0, 1, 1, 1, 1, 3, 0, 0, 0, 2, 1, 0, 0];
    let targets = Tensor::<B, 2, Int>::from_data(ints(labels, vec![5, 4]), device);
    let input_lengths = Tensor::<B, 1, Int>::from_data(ints(vec![6, 5, 6, 4, 2], vec![5]), device);
    let target_lengths = Tensor::<B, 1, Int>::from_data(ints(vec![3, 3, 4, 0, 2], vec![5]), device);
    let losses =
        ctc_loss(activation::log_softmax(logits.clone(), 2), targets, input_lengths, target_lengths, 0);
    let reachable = losses.clone().is_inf().bool_not().float();
    let gradients = losses.clone().mask_fill(losses.clone().is_inf(), 0.0).mul(reachable).sum().backward();
    let gradient = logits.grad(&gradients).expect("the logits are tracked");
    [losses.into_data(), gradient.into_data()].map(|data| data.to_vec().expect("32-bit floats"))
}

#[test]
fn ctc_losses_and_their_gradients_are_those_of_burn() {
    let ours = ctc_losses::<Autodiff<Ours>>(&OvercommitDevice::Host(0));
    let reference = ctc_losses::<Autodiff<Reference>>(&Default::default());
    for (got, wanted) in ours.iter().flatten().zip(reference.iter().flatten()) {
        assert!(
            got == wanted || (got - wanted).abs() < 1e-5 * (1.0 + wanted.abs()),
            "{ours:?} {reference:?}"
        );
    }
    assert_eq!(ours[0].iter().filter(|loss| loss.is_infinite()).count(), 1);
}

#[test]
#[should_panic(
    expected = "ctc_loss: 9 is no label or target length: there are 4 classes, and targets of 2 labels"
)]
fn labels_that_are_no_classes_are_refused() {
    // The error belongs to the next read on its device, whichever thread's that is: so one of its own.
    let device = OvercommitDevice::Host(2);
    let targets = Tensor::<Ours, 2, Int>::from_ints([[1, 9]], &device);
    let lengths = |length: i32| Tensor::<Ours, 1, Int>::from_ints([length], &device);
    let _ = ctc_loss(floats::<Ours, 3>([3, 1, 4], &device), targets, lengths(3), lengths(2), 0).into_data();
}

#[test]
#[should_panic(expected = "add: it does not work on inputs of f16 and f32; cast them to one type")]
fn element_types_that_differ_are_refused() {
    let device = OvercommitDevice::Host(0);
    let half = floats::<Ours, 2>([2, 3], &device).cast(FloatDType::F16);
    let _ = half + floats::<Ours, 2>([2, 3], &device);
}

#[test]
#[should_panic(expected = "sin: it does not work on inputs of i32; cast them to one type")]
fn an_element_type_that_an_op_is_not_for_is_refused() {
    let device = OvercommitDevice::Host(0);
    let whole = ints::<Ours, 2>([2, 3], 5, &device);
    let _ = <Ours as burn::tensor::ops::FloatTensorOps<Ours>>::float_sin(whole.into_primitive());
}
