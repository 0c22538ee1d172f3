//! A network in the body of a program: rectified layers forward, random steps, gradients backward, and new weights. Policies that tell
//! the passes apart have something to tell, and what waits between them may be encoded.

use burn_overcommit::op::{Binary, Compare, Layout, Op, Shape, Unary};
use rand::RngExt;

use crate::generate::{Chosen, Generator, Value};

/// Rows and columns of activations and weights.
const SIZE: usize = 16;
const SIZES: [usize; 2] = [SIZE; 2];

/// A layer on its way: what it read, and what its rectifier did.
pub struct Layer {
    weight: Value,
    input: Value,
    before: Value,
    mask: Option<Value>,
}

fn whole(value: Value) -> Chosen {
    (value, value.view.layout)
}

fn transposed(value: Value) -> Chosen {
    (value, Layout::permute(&value.view.layout, &[1, 0]))
}

impl Generator {
    /// The weights of some layers.
    pub fn network(&mut self) -> Vec<Value> {
        let float = self.palette.float;
        (0..self.random.random_range(2..5)).map(|_| self.leaf(float, &SIZES)).collect()
    }

    /// Layers over an input, and a last value that nobody rectifies.
    pub fn forward(&mut self, weights: &[Value]) -> Vec<Layer> {
        let float = self.palette.float;
        let mut input = self.leaf(float, &SIZES);
        let mut layers = Vec::new();
        for &weight in weights {
            let before =
                self.kept(Op::Matmul, &[whole(input), whole(weight)], 4.0 * input.bound * weight.bound);
            // By a mask that waits, or by what was rectified.
            let mask = self.random.random_bool(0.4).then(|| {
                let lower = Op::CompareScalar(Compare::Lower, 1.0.into());
                self.kept(lower, &[whole(before)], 1.0)
            });
            let rectified = match mask {
                Some(mask) => {
                    self.kept(Op::MaskFill(0.0.into()), &[whole(before), whole(mask)], before.bound)
                }
                None => self.kept(Op::Unary(Unary::Relu), &[whole(before)], before.bound),
            };
            layers.push(Layer { weight, input, before, mask });
            input = rectified;
        }
        // Until the backward pass nobody uses them up.
        for layer in &layers {
            self.keep([layer.input, layer.before].into_iter().chain(layer.mask));
        }
        layers
    }

    /// The gradients, from the last layer to the first, each weight replaced as soon as nobody reads it.
    pub fn backward(&mut self, layers: Vec<Layer>) {
        let float = self.palette.float;
        let mut gradient = self.shaped(float, Shape::new(&SIZES));
        for Layer { weight, input, before, mask } in layers.into_iter().rev() {
            let bound = gradient.0.bound;
            let rectified = match mask {
                Some(mask) => self.kept(Op::MaskFill(0.0.into()), &[gradient, whole(mask)], bound),
                None => self.kept(Op::Binary(Binary::ReluBackward), &[whole(before), gradient], bound),
            };
            let bound = 4.0 * rectified.bound;
            let change = self.kept(Op::Matmul, &[transposed(input), whole(rectified)], bound * input.bound);
            let below = self.kept(Op::Matmul, &[whole(rectified), transposed(weight)], bound * weight.bound);
            gradient = whole(below);
            self.replace(weight, whole(change));
        }
    }

    /// Runs an op whose inputs stay.
    fn kept(&mut self, op: Op, inputs: &[Chosen], bound: f64) -> Value {
        self.run_with(op, inputs, bound, 0.0).expect("activations are small enough")
    }
}
