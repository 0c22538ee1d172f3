//! Three ways to a smaller training step, and what each costs on the host engine: a budget, floats of 16 bits, and saving less for the
//! backward pass.

#[path = "support/results.rs"]
mod results;

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn::tensor::ElementConversion;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::bf16;
use burn_overcommit::autodiff::MemorySaving;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, PlanCache, Planning, configure, stats};
use burn_overcommit_networks::{Spec, by_name, training_step};
use clap::Parser;
use serde_json::{Map, Value, json};

use crate::results::Output;

#[derive(Parser)]
struct Options {
    /// Steps of each run; the time is the median of the last half.
    #[arg(long, default_value_t = 10)]
    steps: usize,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A network, the key of its columns, and its batch.
struct Trained {
    key: &'static str,
    spec: Spec,
    batch: usize,
}

struct Measured {
    peak_bytes: usize,
    /// Of a step, in ticks of the system.
    cpu_ticks: u64,
    loss: f32,
}

/// The time that all threads of this process have computed for so far. The machine's other work, which lengthens a step, is not in it.
fn cpu_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let (_, fields) = text.rsplit_once(") ").expect("the program's name is in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    [11, 12].iter().map(|&place| fields[place].parse::<u64>().expect("a number")).sum()
}

/// Trains on a device of its own: Burn keeps one default type of float for each.
fn train<B>(index: u16, config: Config, trained: &Trained, steps: usize) -> Measured
where
    B: AutodiffBackend<Device = OvercommitDevice>,
{
    let device = OvercommitDevice::Host(index);
    let config = config.planning(Planning::AtOnce).plan_cache(PlanCache::Off);
    configure(&device, config).expect("a device that nothing uses");
    B::seed(&device, 1);
    let mut network = trained.spec.network::<B>(&device);
    let mut optimizer = AdamConfig::new().init();
    let (mut ticks, mut loss) = (Vec::new(), 0.0);
    for _ in 0..steps {
        let before = cpu_ticks();
        let sample = trained.spec.sample(trained.batch, &device);
        let (stepped, value) = training_step(network, &mut optimizer, 1e-3, sample);
        (network, loss) = (stepped, value.into_scalar().elem());
        ticks.push(cpu_ticks() - before);
    }
    let last = &mut ticks[steps / 2..];
    last.sort_unstable();
    let peak_bytes = stats(&device).expect("it is open").peak_allocated_bytes;
    Measured { peak_bytes, cpu_ticks: last[last.len() / 2], loss }
}

fn main() {
    let options = Options::parse();
    let networks = [
        Trained {
            key: "gpt",
            spec: by_name("gpt-6x256").expect("a network").with_length(128).with_classes(2000),
            batch: 8,
        },
        Trained {
            key: "resnet",
            spec: by_name("resnet-18").expect("a network").with_side(64).with_classes(10),
            batch: 16,
        },
    ];
    const WAYS: [&str; 5] = [
        "`Autodiff<Overcommit>`",
        "the same, in half of that",
        "`Autodiff<Overcommit<bf16>>`",
        "`MemorySaving<Overcommit>`",
        "`MemorySaving<Overcommit<bf16>>`",
    ];
    let mut rows = WAYS.map(|way| Map::from_iter([("backend".to_string(), json!(way))]));
    let mut indices = 0..;
    let mut next = || indices.next().expect("it has no end");
    for trained in &networks {
        let steps = options.steps;
        let whole = train::<Autodiff<Overcommit>>(next(), Config::new(), trained, steps);
        let half = Config::new().budget_bytes(whole.peak_bytes / 2);
        let others = [
            train::<Autodiff<Overcommit>>(next(), half, trained, steps),
            train::<Autodiff<Overcommit<bf16>>>(next(), Config::new(), trained, steps),
            train::<MemorySaving<Overcommit>>(next(), Config::new(), trained, steps),
            train::<MemorySaving<Overcommit<bf16>>>(next(), Config::new(), trained, steps),
        ];
        let whole_ticks = whole.cpu_ticks as f64;
        for (row, found) in rows.iter_mut().zip([whole].into_iter().chain(others)) {
            let mut put = |name: &str, value: Value| row.insert(format!("{}_{name}", trained.key), value);
            put("peak_mib", json!(found.peak_bytes as f64 / f64::from(1 << 20)));
            put("cpu_time_ratio", json!(found.cpu_ticks as f64 / whole_ticks));
            put("loss", json!(found.loss.to_string()));
        }
    }
    for row in &rows {
        println!("{}", Value::Object(row.clone()));
    }
    options.output.write(rows.into_iter().map(Value::Object).collect());
}
