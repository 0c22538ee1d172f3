//! The functions of this module, each with its gradient.
//!
//! Recomputing an output requires that its inputs are kept. So a function is marked memory-bound only if its gradient
//! reads the inputs anyway.

use super::step::{Formula, Saved};
use crate::functions::attention::{Attended, Attention, Dropout};
use crate::functions::{gradient, module, norm, pointwise, vision};
use crate::op::{Norm, Pool2d, Resize, Softmax, Unary};
use crate::runtime::Tensor;

/// A softmax or its logarithm. Keeps its output, which a consuming product keeps too.
#[derive(Clone, Debug)]
pub struct Normalised {
    pub kind: Softmax,
    pub axis: usize,
}

impl Formula<1> for Normalised {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 1] = [false];
    const READS_OUTPUT: bool = true;

    fn forward(&self, [x]: [Tensor; 1]) -> Tensor {
        norm::softmax(self.kind, x, self.axis)
    }

    fn backward(&self, saved: Saved<1>, gradient: Tensor, _wanted: [bool; 1]) -> [Option<Tensor>; 1] {
        [Some(gradient::softmax(self.kind, saved.output(), gradient, self.axis, 1.0))]
    }
}

/// Layer norm and RMS norm. Keeps its input; the moments of each row are recomputed.
#[derive(Clone, Debug)]
pub struct RowNorm {
    pub kind: Norm,
    pub epsilon: f64,
}

impl Formula<2> for RowNorm {
    const READS: [bool; 2] = [true; 2];

    fn forward(&self, [x, gamma]: [Tensor; 2]) -> Tensor {
        norm::norm(self.kind, x, gamma, None, self.epsilon)
    }

    fn backward(
        &self,
        mut saved: Saved<2>,
        gradient: Tensor,
        [_, weights]: [bool; 2],
    ) -> [Option<Tensor>; 2] {
        let (x, gamma) = (saved.input(0), saved.input(1));
        let (of_x, of_gamma, _) = gradient::norm(self.kind, x, gamma, gradient, self.epsilon, weights);
        [Some(of_x), of_gamma]
    }
}

impl Formula<3> for RowNorm {
    const READS: [bool; 3] = [true, true, false];

    fn forward(&self, [x, gamma, beta]: [Tensor; 3]) -> Tensor {
        norm::norm(self.kind, x, gamma, Some(beta), self.epsilon)
    }

    fn backward(&self, mut saved: Saved<3>, gradient: Tensor, wanted: [bool; 3]) -> [Option<Tensor>; 3] {
        let (x, gamma, weights) = (saved.input(0), saved.input(1), wanted[1] || wanted[2]);
        let (of_x, of_gamma, of_beta) = gradient::norm(self.kind, x, gamma, gradient, self.epsilon, weights);
        [Some(of_x), of_gamma, of_beta]
    }
}

/// Batch norm in training. Keeps its input, and two numbers for each channel.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    pub mean: Tensor,
    pub deviation: Tensor,
}

impl Formula<3> for BatchNorm {
    const READS: [bool; 3] = [true, true, false];

    fn forward(&self, [x, gamma, beta]: [Tensor; 3]) -> Tensor {
        gradient::batch_norm(x, self.mean.clone(), self.deviation.clone(), gamma, beta)
    }

    fn backward(&self, mut saved: Saved<3>, gradient: Tensor, _wanted: [bool; 3]) -> [Option<Tensor>; 3] {
        let (mean, deviation) = (self.mean.clone(), self.deviation.clone());
        gradient::batch_norm_backward(saved.input(0), mean, deviation, saved.input(1), gradient).map(Some)
    }
}

/// Attention. Keeps its inputs and, by tiles, its output and a number for each query; else it recomputes the scores. Its
/// output is not recomputed, since that takes products.
#[derive(Clone, Debug)]
pub struct Attending {
    pub attention: Attention,
    pub attended: Option<Attended>,
}

impl Formula<3> for Attending {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 3] = [true; 3];

    fn forward(&self, inputs: [Tensor; 3]) -> Tensor {
        self.attention.forward(inputs, None).0
    }

    fn backward(&self, mut saved: Saved<3>, gradient: Tensor, _wanted: [bool; 3]) -> [Option<Tensor>; 3] {
        let inputs = [0, 1, 2].map(|n| saved.input(n));
        let [of_query, of_key, of_value, _] =
            self.attention.backward(inputs, None, self.attended.as_ref(), gradient);
        [of_query, of_key, of_value]
    }
}

/// With a bias.
impl Formula<4> for Attending {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 4] = [true; 4];

    fn forward(&self, [query, key, value, bias]: [Tensor; 4]) -> Tensor {
        self.attention.forward([query, key, value], Some(bias)).0
    }

    fn backward(&self, mut saved: Saved<4>, gradient: Tensor, _wanted: [bool; 4]) -> [Option<Tensor>; 4] {
        let inputs = [0, 1, 2].map(|n| saved.input(n));
        self.attention.backward(inputs, Some(saved.input(3)), self.attended.as_ref(), gradient)
    }
}

/// Dropout. Keeps a seed.
impl Formula<1> for Dropout {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 1] = [false];

    fn forward(&self, [x]: [Tensor; 1]) -> Tensor {
        self.apply(x)
    }

    fn backward(&self, _saved: Saved<1>, gradient: Tensor, _wanted: [bool; 1]) -> [Option<Tensor>; 1] {
        [Some(self.apply(gradient))]
    }
}

/// Elementwise functions that keep their output.
#[derive(Clone, Debug)]
pub struct Kept(pub Unary);

impl Formula<1> for Kept {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 1] = [false];
    const READS_OUTPUT: bool = true;

    fn forward(&self, [x]: [Tensor; 1]) -> Tensor {
        pointwise::unary(self.0, x)
    }

    fn backward(&self, saved: Saved<1>, gradient: Tensor, _wanted: [bool; 1]) -> [Option<Tensor>; 1] {
        [Some(gradient::of_output(self.0, saved.output(), gradient))]
    }
}

/// Interpolation to another size. Keeps the size of the images.
#[derive(Clone, Debug)]
pub enum Resized {
    Average { pool: Pool2d, size: [usize; 2] },
    Adaptive { to: [usize; 2], size: [usize; 2] },
    Interpolated { to: [usize; 2], size: [usize; 2], resize: Resize },
}

impl Formula<1> for Resized {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 1] = [false];

    fn forward(&self, [x]: [Tensor; 1]) -> Tensor {
        match *self {
            Resized::Average { pool, .. } => module::avg_pool2d(x, pool),
            Resized::Adaptive { to, .. } => module::adaptive_avg_pool2d(x, to),
            Resized::Interpolated { to, resize, .. } => vision::interpolate(x, to, resize),
        }
    }

    fn backward(&self, _saved: Saved<1>, gradient: Tensor, _wanted: [bool; 1]) -> [Option<Tensor>; 1] {
        [Some(match *self {
            Resized::Average { pool, size } => gradient::avg_pool2d(gradient, pool, size),
            Resized::Adaptive { size, .. } => gradient::adaptive_avg_pool2d(gradient, size),
            Resized::Interpolated { size, resize, .. } => gradient::interpolate(gradient, resize, size),
        })]
    }
}

/// A max pool. Keeps the places of the maxima.
#[derive(Clone, Debug)]
pub struct MaxPool {
    pub pool: Pool2d,
    pub size: [usize; 2],
    pub indices: Tensor,
}

impl Formula<1> for MaxPool {
    const MEMORY_BOUND: bool = false;
    const READS: [bool; 1] = [false];

    fn forward(&self, [x]: [Tensor; 1]) -> Tensor {
        module::max_pool2d(x, self.pool)
    }

    fn backward(&self, _saved: Saved<1>, gradient: Tensor, _wanted: [bool; 1]) -> [Option<Tensor>; 1] {
        [Some(gradient::max_pool2d(gradient, self.indices.clone(), self.pool, self.size))]
    }
}
