//! A classifier that is given a label that does not exist: what becomes of its losses and weights.

use burn::backend::Autodiff;
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Int, Tensor};
use burn_overcommit::{Overcommit, OvercommitDevice};

type B = Autodiff<Overcommit>;
type Read = Result<Vec<f32>, String>;

const CLASSES: usize = 4;
const BATCH: usize = 8;

#[derive(Module, Debug)]
struct Classifier<B: Backend> {
    embedding: Embedding<B>,
    linear: Linear<B>,
}

/// What reads gave, or the errors' texts.
#[derive(Debug, PartialEq)]
pub struct Trained {
    /// Of each step.
    pub losses: Vec<Read>,
    /// After the last.
    pub weights: [Read; 3],
    /// What no label had a part in.
    pub bystander: Read,
}

/// A tensor's elements, or what its read tells.
pub fn read<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Read {
    let data = tensor.try_into_data().map_err(|error| format!("{error:?}"))?;
    Ok(data.iter::<f32>().collect())
}

/// Some steps with Adam; in step `bad`, counted from zero, the last label is 99.
pub fn train(device: &OvercommitDevice, steps: usize, bad: Option<usize>) -> Trained {
    B::seed(device, 1);
    let mut network = Classifier::<B> {
        embedding: EmbeddingConfig::new(16, 32).init(device),
        linear: LinearConfig::new(32, CLASSES).init(device),
    };
    let bystander = Tensor::<B, 1>::from_floats([1.0, 2.0, 3.0], device);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for step in 0..steps {
        let words: Vec<i32> = (0..BATCH).map(|word| ((word * 5 + step * 3) % 16) as i32).collect();
        let mut labels: Vec<i32> = words.iter().map(|word| word % CLASSES as i32).collect();
        if bad == Some(step) {
            labels[BATCH - 1] = 99;
        }
        let words = Tensor::<B, 1, Int>::from_ints(words.as_slice(), device).reshape([BATCH, 1]);
        let labels = Tensor::<B, 1, Int>::from_ints(labels.as_slice(), device);
        let scores = network.linear.forward(network.embedding.forward(words)).reshape([BATCH, CLASSES]);
        let loss = CrossEntropyLossConfig::new().init(device).forward(scores, labels);
        losses.push(read(loss.clone()));
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(1e-2f64.elem(), network, gradients);
    }
    let weight = |param: &Param<Tensor<B, 2>>| read(param.val());
    let bias = network.linear.bias.as_ref().map_or(Ok(Vec::new()), |bias| read(bias.val()));
    let weights = [weight(&network.embedding.weight), weight(&network.linear.weight), bias];
    Trained { losses, weights, bystander: read(bystander + 1.0) }
}

/// Checks that a training's losses and weights are right up to the bad step, and tell of the label from then on.
pub fn check(device: &OvercommitDevice, steps: usize, bad: usize) {
    let good = train(device, steps, None);
    assert!(good.losses.iter().chain(&good.weights).all(Result::is_ok), "{good:?}");
    let spoiled = train(device, steps, Some(bad));
    let tells = |read: &Read| {
        let text = read.as_ref().expect_err("it descends from a label that there is not");
        assert!(text.contains("index 99 is out of range for 4 elements"), "{text}");
    };
    assert_eq!(spoiled.losses[..bad], good.losses[..bad]);
    spoiled.losses[bad..].iter().for_each(tells);
    spoiled.weights.iter().for_each(tells);
    assert_eq!(spoiled.bystander, Ok(vec![2.0, 3.0, 4.0]));
    // Once the weights are gone, so is the failure.
    assert_eq!(train(device, steps, None), good);
    assert_eq!(burn_overcommit::runtime::sync(device).map_err(|error| error.to_string()), Ok(()));
}
