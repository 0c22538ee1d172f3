//! Attention by tiles on the host engine beside attention by products and a softmax, with its gradients. Both take turns, and the
//! least time of each counts, so that what else the machine does meets both.

#[path = "support/results.rs"]
mod results;

use std::time::Instant;

use burn_overcommit::op::{Attention, Dtype, Op, Scalar, Shape, Softmax};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure};
use clap::Parser;
use serde_json::json;

use crate::results::Output;

const HEADS: usize = 4;
const DEVICE: OvercommitDevice = OvercommitDevice::Host(1);

#[derive(Parser)]
struct Options {
    /// How often each is timed.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Lengths of the sequences.
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024, 2048])]
    lengths: Vec<usize>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is attended: queries, keys, values and the gradient of what comes out, `[1, heads, length, width]`.
struct Case {
    inputs: [Tensor; 4],
    causal: bool,
}

fn run(op: Op, inputs: &[&Tensor]) -> Tensor {
    runtime::run(op, inputs.iter().map(|&input| input.clone())).expect("enough memory")
}

fn turned(x: &Tensor) -> Tensor {
    let layout = x.layout().permute(&[0, 1, 3, 2]);
    x.clone().with_layout(layout)
}

impl Case {
    fn new(length: usize, width: usize, dtype: Dtype, causal: bool) -> Self {
        let tensor = |salt: usize| {
            let shape = Shape::new(&[1, HEADS, length, width]);
            let value = |i: usize| ((i * 7919 + salt * 104_729) % 1009) as f32 / 504.5 - 1.0;
            let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| value(i).to_ne_bytes()).collect();
            let single = runtime::write(&DEVICE, &bytes, Dtype::F32, shape).expect("enough memory");
            run(Op::Copy { dtype }, &[&single])
        };
        Case { inputs: [1, 2, 3, 4].map(tensor), causal }
    }

    fn scale(&self) -> Scalar {
        Scalar::from(1.0 / (self.inputs[0].shape()[3] as f64).sqrt())
    }

    fn by_tiles(&self) -> Vec<Tensor> {
        let attention = Attention { scale: self.scale(), causal: self.causal, dropout: None };
        let [query, key, value, gradient] = self.inputs.each_ref();
        let forward = [query, key, value].map(Tensor::clone);
        let [out, sums] = runtime::run_pair(Op::Attention(attention), forward).expect("enough memory");
        let layout = out.layout().permute(&[0, 2, 1, 3]);
        let out = out.with_layout(layout);
        let backward = [query, key, value, &out, &sums, gradient].map(Tensor::clone);
        runtime::run_three(Op::AttentionBackward(attention), backward).expect("enough memory").into()
    }

    fn by_scores(&self) -> Vec<Tensor> {
        let [query, key, value, gradient] = self.inputs.each_ref();
        let weights = || {
            let scores = run(Op::Matmul, &[query, &turned(key)]);
            runtime::run(Op::AttentionWeights { scale: self.scale(), causal: self.causal }, [scores])
                .expect("enough memory")
        };
        drop(run(Op::Matmul, &[&weights(), value]));
        let weights = weights();
        let of_value = run(Op::Matmul, &[&turned(&weights), gradient]);
        let of_weights = run(Op::Matmul, &[gradient, &turned(value)]);
        let op = Op::SoftmaxBackward { kind: Softmax::Plain, axis: 3, scale: self.scale() };
        let of_scores = runtime::run(op, [weights, of_weights]).expect("enough memory");
        let of_query = run(Op::Matmul, &[&of_scores, key]);
        vec![of_query, run(Op::Matmul, &[&turned(&of_scores), query]), of_value]
    }

    fn seconds(&self, run: fn(&Self) -> Vec<Tensor>) -> f64 {
        let start = Instant::now();
        let made = run(self);
        runtime::sync(&DEVICE).expect("the ops run");
        drop(made);
        start.elapsed().as_secs_f64()
    }
}

fn main() {
    let options = Options::parse();
    configure(&DEVICE, Config::new().budget("4 GiB")).expect("a budget");
    println!(
        "{:>6} {:>5} {:>5} {:>7} {:>12} {:>12} {:>6}",
        "length", "width", "", "", "tiles", "scores", "ratio"
    );
    let mut cells = Vec::new();
    for &length in &options.lengths {
        for (width, dtype) in [(64, Dtype::F32), (64, Dtype::BF16), (128, Dtype::F32)] {
            for causal in [false, true] {
                let case = Case::new(length, width, dtype, causal);
                let mut least = [f64::INFINITY; 2];
                for _ in 0..options.rounds {
                    for (least, run) in least.iter_mut().zip([Case::by_tiles, Case::by_scores]) {
                        *least = least.min(case.seconds(run));
                    }
                }
                let [tiles, scores] = least.map(|seconds| seconds * 1e3);
                let (causal, ratio) = (if causal { "causal" } else { "" }, tiles / scores);
                let dtype = dtype.name();
                println!(
                    "{length:>6} {width:>5} {dtype:>5} {causal:>7} {tiles:>9.2} ms {scores:>9.2} ms {ratio:>6.2}"
                );
                cells.push(json!({
                    "length": length, "width": width, "dtype": dtype, "causal": causal == "causal",
                    "tiles_ms": tiles, "scores_ms": scores, "ratio": ratio,
                }));
            }
        }
    }
    options.output.write(cells);
}
