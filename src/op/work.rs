use serde::{Deserialize, Serialize};

use super::{Attention, Dtype, Op, Outputs, View};

/// What an op costs, apart from where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Arithmetic operations; a multiply-add counts as two.
    pub flops: u64,
    /// Bytes read from device memory, each input once.
    pub read_bytes: u64,
    /// Bytes written to device memory.
    pub written_bytes: u64,
    /// Element type of the arithmetic.
    pub dtype: Dtype,
    /// How long it took where it was recorded; if known, that is what it costs, whatever the rest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ns: Option<u64>,
}

impl Op {
    /// The work of the op on these inputs.
    pub fn work(&self, inputs: &[View], outputs: &Outputs) -> Work {
        if let Op::Traced(traced) = self {
            return traced.facts().work;
        }
        if let Some((decode, values, then)) = self.in_two(inputs) {
            let (first, second) = (
                decode.work(inputs, &[values].into_iter().collect()),
                then.work(&[values, inputs[1]], outputs),
            );
            return Work {
                flops: first.flops + second.flops,
                read_bytes: first.read_bytes + second.read_bytes,
                written_bytes: first.written_bytes + second.written_bytes,
                ..second
            };
        }
        let bytes = |views: &[View]| -> u64 { views.iter().map(|view| view.size_bytes() as u64).sum() };
        let count = |view: &View| view.shape().count() as u64;
        let made = outputs.first().map_or(0, count);
        let flops = match self {
            Op::Fill { .. } | Op::Unset { .. } | Op::Arange { .. } | Op::Copy { .. } => 0,
            Op::SliceAssign { .. } | Op::Gather { .. } | Op::Select { .. } => 0,
            Op::Matmul => made.saturating_mul(2 * last(&inputs[0])),
            // Every output element is a dot product over one kernel's worth of elements.
            Op::Conv(_) => made.saturating_mul(2 * count(&inputs[1]) / first(&inputs[1])),
            Op::ConvBackwardInput { .. } => {
                count(&inputs[1]).saturating_mul(2 * count(&inputs[0]) / first(&inputs[0]))
            }
            Op::ConvBackwardWeight { .. } => count(&inputs[1]).saturating_mul(2 * made / first(&outputs[0])),
            Op::MaxPool2d { pool, .. } | Op::AvgPool2d(pool) => {
                made.saturating_mul((pool.kernel[0] as u64).saturating_mul(pool.kernel[1] as u64))
            }
            Op::Interpolate { resize, .. } => 4 * made * resize.mode.taps() as u64,
            Op::GridSample(_) | Op::DeformColumns(_) => 16 * made,
            Op::DeformBackwardOffset(_) => 16 * count(&inputs[2]),
            Op::DeformBackwardImage { .. } => 16 * count(&inputs[1]),
            // At each step and place of the target, two or four sums of logarithms.
            Op::CtcLoss { .. } => {
                (60 * count(&inputs[0]) / last(&inputs[0]).max(1)).saturating_mul(2 * last(&inputs[1]) + 1)
            }
            Op::CtcLossBackward { .. } => {
                (120 * count(&inputs[0]) / last(&inputs[0]).max(1)).saturating_mul(2 * last(&inputs[1]) + 1)
            }
            Op::Random { .. } => 40 * made,
            // About what an exponential costs, and two passes that add up.
            Op::Softmax { .. } | Op::AttentionWeights { .. } => 20 * made,
            Op::Attention(attention) => attention.flops(inputs, 1, 1),
            // Scores and gradients of weights twice, then the gradients of queries, keys and values.
            Op::AttentionBackward(attention) => attention.flops(inputs, 4, 3),
            Op::Norm { .. } => 8 * made,
            Op::SoftmaxBackward { .. } => 8 * made,
            Op::NormBackward { .. } => 24 * made,
            // 5 n log2 n is customary for a complex transform of n, and that of n reals is half of it.
            Op::RealFft { length, .. } | Op::InverseRealFft { length, .. } => {
                5 * made * u64::from((*length).max(1).ilog2())
            }
            // A histogram and a pass for every byte of an element.
            Op::Sort { .. } | Op::ArgSort { .. } => {
                4 * count(&inputs[0]) * inputs[0].dtype.size_bytes() as u64
            }
            Op::Fused { program, .. } => {
                let steps = program.steps().len() + usize::from(program.ending().is_some());
                count(&inputs[0]) * steps as u64
            }
            Op::Encode(_) | Op::Decode { .. } | Op::Tally(_) => count(&inputs[0]).max(made),
            _ => inputs.iter().map(count).max().unwrap_or(made).max(made),
        };
        let dtype = inputs.first().or(outputs.first()).map_or(Dtype::F32, |view| view.dtype);
        let read_bytes = match self {
            // Several tensors are often one over and over: what a norm has of each channel.
            Op::Fused { .. } => inputs.iter().map(|view| view.distinct_bytes() as u64).sum(),
            // What is in the host tier is hardly ever used.
            Op::Encode(encoding) if encoding.is_counted() => 2 * bytes(&inputs[..1]),
            Op::Decode { .. } | Op::Tally(_) => bytes(&inputs[..1]),
            _ => bytes(inputs),
        };
        let written_bytes = bytes(outputs);
        Work { flops, read_bytes, written_bytes, dtype, measured_ns: None }
    }
}

impl Attention {
    /// How many pairs of a query and a key there are that count for each other, but for masks.
    pub fn pairs(&self, inputs: &[View]) -> u64 {
        let [queries, keys] = [0, 1].map(|input| inputs[input].shape()[2] as u64);
        let heads = (inputs[0].shape()[0] * inputs[0].shape()[1]) as u64;
        let least = queries.min(keys);
        let before = least.saturating_mul(least.saturating_sub(1)) / 2;
        let unseen = (queries - least).saturating_mul(keys).saturating_add(before);
        let all = queries.saturating_mul(keys);
        heads.saturating_mul(if self.causal { all.saturating_sub(unseen) } else { all })
    }

    /// The arithmetic of so many products as wide as a query and as wide as a value, and of an exponential.
    fn flops(&self, inputs: &[View], of_query: u64, of_value: u64) -> u64 {
        let each = 2 * of_query * last(&inputs[0]) + 2 * of_value * last(&inputs[2]) + 20;
        self.pairs(inputs).saturating_mul(each)
    }
}

fn first(view: &View) -> u64 {
    view.shape().dims().first().map_or(1, |&size| size.max(1) as u64)
}

fn last(view: &View) -> u64 {
    view.shape().dims().last().map_or(1, |&size| size as u64)
}
