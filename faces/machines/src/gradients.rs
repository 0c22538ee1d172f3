//! A network's gradients as plain numbers, in the order in which Burn visits its parameters. The order is the same in all processes;
//! the parameters' ids are not.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::Overcommit;

use crate::Error;
use crate::network::Training;

/// Replaces each gradient by what `reduce` makes of its numbers. They are grouped to `bucket_bytes`, and larger ones are cut. A gradient
/// leaves the device when it is grouped, so that no more than a group, or one gradient, is held beside the network's own.
///
/// # Errors
/// What `reduce` fails with.
pub fn replace(
    network: &impl Module<Training>,
    gradients: GradientsParams,
    bucket_bytes: usize,
    reduce: &mut dyn FnMut(Vec<f32>) -> Result<Vec<f32>, Error>,
) -> Result<GradientsParams, Error> {
    let length = (bucket_bytes / size_of::<f32>()).max(1);
    let mut bucket =
        Bucket { gradients, length, values: Vec::new(), returns: Vec::new(), reduce, failure: None };
    network.visit(&mut bucket);
    bucket.flush();
    bucket.failure.map_or(Ok(bucket.gradients), Err)
}

/// Makes a gradient of numbers, and puts it back.
type Return = Box<dyn FnOnce(Vec<f32>, &mut GradientsParams)>;

struct Bucket<'a> {
    gradients: GradientsParams,
    /// So many numbers are reduced at once.
    length: usize,
    values: Vec<f32>,
    /// Of each gradient in `values`, how many numbers it has and where they go.
    returns: Vec<(usize, Return)>,
    reduce: &'a mut dyn FnMut(Vec<f32>) -> Result<Vec<f32>, Error>,
    failure: Option<Error>,
}

impl Bucket<'_> {
    /// Reduces what is grouped, unless that has failed before.
    fn flush(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let values = std::mem::take(&mut self.values);
        let mut reduced = Vec::with_capacity(values.len());
        for part in values.chunks(self.length) {
            match (self.reduce)(part.to_vec()) {
                Ok(part) => reduced.extend(part),
                Err(error) => {
                    self.failure = Some(error);
                    return;
                }
            }
        }
        let mut rest = reduced.as_slice();
        for (count, put) in self.returns.drain(..) {
            let (own, others) = rest.split_at(count);
            put(own.to_vec(), &mut self.gradients);
            rest = others;
        }
    }
}

impl ModuleVisitor<Training> for Bucket<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<Training, D>>) {
        if self.failure.is_some() {
            return;
        }
        let id = param.id;
        let Some(gradient) = self.gradients.remove::<Overcommit, D>(id) else { return };
        let (device, dtype, shape) = (gradient.device(), gradient.dtype(), gradient.dims());
        let count = shape.iter().product();
        if self.values.len() + count > self.length {
            self.flush();
        }
        let values = gradient.into_data().convert::<f32>().to_vec().expect("they are of this type now");
        self.values.extend::<Vec<f32>>(values);
        let put = move |values: Vec<f32>, gradients: &mut GradientsParams| {
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            gradients.register(id, Tensor::<Overcommit, D>::from_data(data, (&device, dtype)));
        };
        self.returns.push((count, Box::new(put)));
    }
}

#[cfg(test)]
mod tests {
    use burn_overcommit::OvercommitDevice;
    use burn_overcommit_examples::digits::Digits;

    use super::*;
    use crate::network::Network;

    #[test]
    fn each_gradient_comes_back_to_its_place() {
        let device = OvercommitDevice::Host(11);
        let network = Network::new(&device);
        let digits = &Digits::load().expect("the digits are part of the program").train[..4];
        let gradients = || GradientsParams::from_grads(network.loss(digits, &device).backward(), &network);
        let all = |gradients: GradientsParams| {
            let mut values: Vec<f32> = Vec::new();
            let mut keep = |part: Vec<f32>| {
                values.extend(&part);
                Ok(part)
            };
            replace(&network, gradients, 1 << 20, &mut keep).map(|_| ()).expect("nothing fails");
            values
        };
        let expected = all(gradients());
        assert!(expected.iter().any(|&value| value != 0.0));
        for bucket_bytes in [64, 4_000, 1 << 20] {
            let mut longest = 0;
            let mut double = |part: Vec<f32>| {
                longest = longest.max(part.len());
                Ok(part.iter().map(|value| value * 2.0).collect())
            };
            let doubled = replace(&network, gradients(), bucket_bytes, &mut double).expect("nothing fails");
            assert!(longest <= bucket_bytes / 4);
            assert!(all(doubled).iter().zip(&expected).all(|(double, one)| *double == one * 2.0));
        }
        let mut calls = 0;
        let mut fail = |_| {
            calls += 1;
            Err(Error::Told("no".into()))
        };
        assert!(replace(&network, gradients(), 4_000, &mut fail).is_err());
        assert_eq!(calls, 1, "nothing is asked for after an error");
    }
}
