//! A node: trains on its part of each batch.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn_overcommit::{Config, OvercommitDevice, configure, stats};
use burn_overcommit_examples::digits::Digit;
use burn_overcommit_examples::weights_bits;
use serde::{Deserialize, Serialize};

use crate::exchange::{Exchange, Members};
use crate::network::{Network, Training, digits, part_of_batch};
use crate::{Error, checkpoint, gradients, say};

/// Small, so that the rounding of sums does not grow: weights of few processes and of many stay close.
const LEARNING_RATE: f64 = 0.005;

/// What a node does.
#[derive(Clone, Debug)]
pub struct Task {
    /// With whom.
    pub members: Members,
    /// The device's memory, such as `512 KiB`; all that there is without.
    pub budget: Option<String>,
    /// Steps in all.
    pub steps: usize,
    /// Digits of the whole batch.
    pub batch: usize,
    /// Where checkpoints are.
    pub checkpoints: PathBuf,
    /// So many steps lie between them.
    pub every: usize,
    /// How much of the gradients is exchanged at once.
    pub bucket_bytes: usize,
    /// Where to write the [`Outcome`].
    pub outcome: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The step that it went on after.
    pub resumed: usize,
    /// The bits of all weights.
    pub weights: Vec<u32>,
    /// The loss of the last step on this node's part, if there was a step to do.
    pub loss: Option<f32>,
    /// Tensors that left the device.
    pub evictions: u64,
    /// The most memory that was held on the device.
    pub peak_bytes: usize,
}

impl Outcome {
    /// Reads what a node wrote.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|error| Error::file(path, error))?;
        rmp_serde::from_slice(&bytes).map_err(|error| Error::file(path, error))
    }
}

/// Network and optimizer between two steps.
struct Learner<O> {
    network: Network<Training>,
    optimizer: O,
}

impl<O: Optimizer<Network<Training>, Training>> Learner<O> {
    /// Learns from some digits; `exchange` makes the mean of all nodes' gradients of the node's own. Returns the loss.
    fn step(
        self,
        digits: &[Digit],
        device: &OvercommitDevice,
        exchange: impl FnOnce(&Network<Training>, GradientsParams) -> Result<GradientsParams, Error>,
    ) -> Result<(Self, f32), Error> {
        let Learner { network, mut optimizer } = self;
        let loss = network.loss(digits, device);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let gradients = exchange(&network, gradients)?;
        let network = optimizer.step(LEARNING_RATE, network, gradients);
        Ok((Learner { network, optimizer }, loss.into_scalar()))
    }

    fn save(&self, task: &Task, step: usize) -> Result<(), Error> {
        let record = (self.network.clone().into_record(), self.optimizer.to_record());
        checkpoint::save::<(_, O::Record)>(&task.checkpoints, task.members.rank, step, record)
    }

    fn load(self, task: &Task, step: usize, device: &OvercommitDevice) -> Result<Self, Error> {
        let (network, optimizer) = checkpoint::load(&task.checkpoints, task.members.rank, step, device)?;
        Ok(Learner {
            network: self.network.load_record(network),
            optimizer: self.optimizer.load_record(optimizer),
        })
    }
}

/// Trains, from the last checkpoint that all nodes have. Says on standard error how far it is.
///
/// # Errors
/// Options that make no sense, files, and all that [`Exchange`] fails with.
pub fn run(task: &Task) -> Result<Outcome, Error> {
    let Members { rank, nodes, .. } = task.members;
    let digits = digits();
    if task.batch == 0 || !task.batch.is_multiple_of(nodes) || task.batch > digits.len() {
        return Err(Error::Options(format!(
            "a batch of {} has no equal parts for {nodes} nodes",
            task.batch
        )));
    }
    let device = OvercommitDevice::default();
    let config = Config::new();
    configure(&device, task.budget.as_ref().map_or(config.clone(), |budget| config.budget(budget)))?;
    let optimizer = SgdConfig::new().with_momentum(Some(MomentumConfig::new().with_momentum(0.9)));
    let mut learner = Learner { network: Network::new(&device), optimizer: optimizer.init() };
    let mut exchange = match nodes {
        1 => None,
        _ => Some(Exchange::join(task.members.clone())?),
    };
    let own = checkpoint::steps(&task.checkpoints, rank)?.first().copied().unwrap_or_default();
    let resumed = match &mut exchange {
        Some(exchange) => agree(exchange, task, own, &learner.network)?,
        None => own,
    };
    if resumed > 0 {
        learner = learner.load(task, resumed, &device)?;
        say(&format!("node {rank}: goes on after step {resumed}"));
    }
    checkpoint::forget_after(&task.checkpoints, rank, resumed)?;
    let (learner, loss) = train(learner, &mut exchange, task, resumed, &digits)?;
    if let Some(exchange) = exchange {
        exchange.leave(task.steps);
    }
    let seen = stats(&device)?;
    let outcome = Outcome {
        resumed,
        weights: weights_bits(&learner.network),
        loss,
        evictions: seen.counters.evictions,
        peak_bytes: seen.peak_allocated_bytes,
    };
    if let Some(path) = &task.outcome {
        let bytes = rmp_serde::to_vec(&outcome).expect("it can be written");
        fs::write(path, bytes).map_err(|error| Error::file(path, error))?;
    }
    Ok(outcome)
}

/// Trains after a step that was done. Returns the loss of the last step, if there was one to do.
fn train<O: Optimizer<Network<Training>, Training>>(
    mut learner: Learner<O>,
    exchange: &mut Option<Exchange>,
    task: &Task,
    resumed: usize,
    digits: &[Digit],
) -> Result<(Learner<O>, Option<f32>), Error> {
    let Members { rank, nodes, .. } = task.members;
    let device = OvercommitDevice::default();
    let mut loss = None;
    for step in resumed + 1..=task.steps {
        let part = part_of_batch(digits, step - 1, task.batch, rank, nodes);
        let reduce = |network: &Network<Training>, own| match exchange {
            Some(exchange) => {
                let mut mean = |numbers: Vec<f32>| exchange.mean(step, &numbers);
                gradients::replace(network, own, task.bucket_bytes, &mut mean)
            }
            None => Ok(own),
        };
        let (next, step_loss) = learner.step(&part, &device, reduce)?;
        (learner, loss) = (next, Some(step_loss));
        if step % task.every == 0 || step == task.steps {
            learner.save(task, step)?;
            if rank == 0 {
                say(&format!("step {step} of {}: loss {step_loss:.4}", task.steps));
            }
        }
    }
    Ok((learner, loss))
}

/// The last step after which all nodes have a checkpoint, if they are of one training.
fn agree(
    exchange: &mut Exchange,
    task: &Task,
    own: usize,
    network: &Network<Training>,
) -> Result<usize, Error> {
    // Numbers to 2^24 are exact.
    let hash =
        weights_bits(network).into_iter().fold(7u32, |hash, bits| (hash ^ bits).wrapping_mul(16_777_619));
    let said = [own, task.steps, task.batch, task.bucket_bytes / 4, task.every, hash as usize >> 8];
    let rows = exchange.gather(own, &said.map(|number| number as f32))?;
    let names = ["--steps", "--batch", "--bucket", "--every", "initial weights with the hash"];
    for (node, row) in rows.iter().enumerate() {
        // A node that was ended while it wrote a checkpoint has the one before.
        if (row[0] - rows[0][0]).abs() > task.every as f32 {
            let what = "a last checkpoint of step";
            return Err(Error::Different { node, what, theirs: row[0], first: rows[0][0] });
        }
        for (what, at) in names.into_iter().zip(1..) {
            if row[at] != rows[0][at] {
                return Err(Error::Different { node, what, theirs: row[at], first: rows[0][at] });
            }
        }
    }
    Ok(rows.iter().map(|row| row[0] as usize).min().unwrap_or_default())
}
