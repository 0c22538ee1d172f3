//! One training step of a network as the launches that the CUDA engine would be given: recorded on the simulation, where
//! nothing is computed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::bf16;
use burn_overcommit::engine::around::Around;
use burn_overcommit::engine::{Engine, EngineError, Lane, Launch};
use burn_overcommit::runtime::{configure_with_engine, sync};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, Profile, SimProfile};
use burn_overcommit_networks::{Spec, training_step};

/// Steps before the one that is recorded.
const WARM_STEPS: usize = 2;

/// More than any step takes.
const BOUNDLESS_BYTES: usize = 1 << 46;

/// What a step is of.
#[derive(Clone, Debug)]
pub struct Cell {
    /// A network of the papers.
    pub network: String,
    pub batch: usize,
    pub dtype: Floats,
    /// Side of the images, or length of the sequences, if not the paper's.
    pub size: Option<usize>,
}

/// `resnet-50:64:bf16`, with a side or a length at the end, if it is not the paper's.
impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text}: expected NETWORK:BATCH:f32 or bf16, and perhaps :SIZE");
        let mut parts = text.split(':');
        let (Some(network), Some(batch), Some(dtype)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(expected());
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| expected());
        let dtype = match dtype {
            "f32" => Floats::F32,
            "bf16" => Floats::Bf16,
            _ => return Err(expected()),
        };
        let size = parts.next().map(number).transpose()?;
        let cell = Cell { network: network.to_owned(), batch: number(batch)?, dtype, size };
        cell.spec().map(|_| cell)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} batch {} {}", self.network, self.batch, self.dtype)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floats {
    F32,
    Bf16,
}

impl fmt::Display for Floats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Floats::F32 { "f32" } else { "bf16" })
    }
}

/// Keeps the launches that pass.
#[derive(Debug)]
struct Recorder {
    engine: Arc<dyn Engine>,
    launches: Arc<Mutex<Vec<Launch>>>,
}

impl Around for Recorder {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    unsafe fn around_launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(launch.clone());
        // SAFETY: the caller upholds the same contract.
        unsafe { self.engine.launch(lane, launch) }
    }
}

impl Cell {
    fn spec(&self) -> Result<Spec, String> {
        let by_size = Spec::named(&self.network, self.size, None);
        by_size.or_else(|error| Spec::named(&self.network, None, self.size).map_err(|_| error))
    }

    /// The launches of a step with Adam, where ops are fused as the device has it by default, or as is said.
    pub fn launches(&self, profile: &Profile, fusion: Option<bool>) -> Vec<Launch> {
        // A device has one element type by default, whatever asks for it first.
        let mut profile = Profile { key: format!("{}-{}", profile.key, self.dtype), ..profile.clone() };
        profile.props.device_bytes = BOUNDLESS_BYTES;
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        let launches = Arc::default();
        let config = Config::new().planning(Planning::Off);
        let config = fusion.map_or(config.clone(), |on| config.fusion(on));
        let wrap = |engine| Arc::new(Recorder { engine, launches: Arc::clone(&launches) }) as Arc<dyn Engine>;
        configure_with_engine(&device, config, wrap).expect("a device that nothing uses");
        match self.dtype {
            Floats::F32 => self.steps::<Autodiff<Overcommit>>(&device, &launches),
            Floats::Bf16 => self.steps::<Autodiff<Overcommit<bf16>>>(&device, &launches),
        }
        std::mem::take(&mut *launches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn steps<B: AutodiffBackend<Device = OvercommitDevice>>(
        &self,
        device: &OvercommitDevice,
        launches: &Mutex<Vec<Launch>>,
    ) {
        let spec = self.spec().unwrap_or_else(|error| panic!("{error}"));
        let mut network = spec.network::<B>(device);
        let mut optimizer = AdamConfig::new().init();
        for _ in 0..=WARM_STEPS {
            sync(device).expect("a simulation does not fail");
            launches.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let sample = spec.sample(self.batch, device);
            network = training_step(network, &mut optimizer, 1e-4, sample).0;
        }
        sync(device).expect("a simulation does not fail");
    }
}
