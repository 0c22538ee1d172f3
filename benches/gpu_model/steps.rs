//! One training step of a network as the launches that the CUDA engine would be given: recorded on the simulation, where
//! nothing is computed.

use std::fmt;
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
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// A network of the papers.
    pub network: &'static str,
    /// What the last line calls it.
    pub short: &'static str,
    pub batch: usize,
    pub dtype: Floats,
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
        let spec = Spec::named(self.network, None, None).expect("a network of the papers");
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
