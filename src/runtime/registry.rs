//! The runtime of each device, which is made at the device's first use.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::device::Runtime;
use super::exit;
use crate::config::Config;
#[cfg(feature = "cuda")]
use crate::engine::cuda::CudaEngine;
#[cfg(feature = "host")]
use crate::engine::host::HostEngine;
use crate::engine::sim::{SimEngine, Workspace};
use crate::engine::{Engine, PeerMemory, PeerTier, page_bytes_for};
use crate::error::Error;
use crate::pool::{Pool, Residents};
use crate::trace::Recording;
use crate::{OvercommitDevice, Stats};

static RUNTIMES: LazyLock<RwLock<HashMap<OvercommitDevice, Started>>> = LazyLock::new(RwLock::default);

/// A runtime, and what it was asked to be.
struct Started {
    runtime: Arc<Runtime>,
    config: Config,
}

/// The device's runtime. At first use it is made from the environment and the defaults.
pub(super) fn runtime(device: &OvercommitDevice) -> Result<Arc<Runtime>, Error> {
    if let Some(started) = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner).get(device) {
        return Ok(started.runtime.clone());
    }
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = runtimes.get(device) {
        return Ok(started.runtime.clone());
    }
    let config = Config::new();
    let runtime = start(*device, config.clone(), |engine| engine)?;
    runtimes.insert(*device, Started { runtime: runtime.clone(), config });
    Ok(runtime)
}

/// Chooses budget, policy and the rest for a device: before its first use, when none of its tensors is alive, or after a panic that
/// left it half-changed.
///
/// ```
/// use burn_overcommit::{Config, OvercommitDevice, configure, stats};
///
/// let device = OvercommitDevice::Host(3);
/// configure(&device, Config::new().budget("8 MiB"))?;
/// assert_eq!(stats(&device)?.budget_bytes, 8 << 20);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A setting that cannot be understood, a device that this build cannot run, or one in use.
pub fn configure(device: &OvercommitDevice, config: Config) -> Result<(), Error> {
    configure_with_engine(device, config, |engine| engine)
}

/// [`configure`], unless the device is so already: then its tensors may be alive.
#[doc(hidden)]
pub fn ensure_configured(device: &OvercommitDevice, config: Config) -> Result<(), Error> {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let is_so = |started: &Started| started.config == config && !started.runtime.has_panicked();
    if runtimes.get(device).is_some_and(is_so) {
        return Ok(());
    }
    replace(&mut runtimes, device, config, |engine| engine)
}

/// [`configure`] with a wrapper around the engine, for tests that make the engine fail.
#[doc(hidden)]
pub fn configure_with_engine(
    device: &OvercommitDevice,
    config: Config,
    wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>,
) -> Result<(), Error> {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    replace(&mut runtimes, device, config, wrap)
}

/// Puts a new runtime in the place of the device's, if none of its tensors is alive.
fn replace(
    runtimes: &mut HashMap<OvercommitDevice, Started>,
    device: &OvercommitDevice,
    config: Config,
    wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>,
) -> Result<(), Error> {
    if let Some(started) = runtimes.get(device).filter(|started| started.runtime.has_panicked()) {
        started.runtime.abandon();
        // Its memory is free once its tensors are gone too.
        runtimes.remove(device);
    }
    if let Some(Started { runtime, .. }) = runtimes.get(device) {
        let storages = runtime.all_settled()?.pool.live_storages();
        if storages > 0 {
            return Err(Error::InUse { device: *device, storages });
        }
        // The new runtime is to find the memory free that the old one still has mapped.
        if runtime.wait_for_all().is_ok() {
            runtime.lock()?.pool.give_back();
        }
    }
    let runtime = start(*device, config.clone(), wrap)?;
    runtimes.insert(*device, Started { runtime, config });
    Ok(())
}

/// What the device's memory holds now, and what it held since the device's first use. Counts the calling thread's ops so far.
/// Those that other threads have just submitted may be missing. A thread that does nothing else may call it at any time: this
/// does not change what the program does.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice, reset_stats, stats};
///
/// let device = OvercommitDevice::Host(0);
/// let x = Tensor::<Overcommit, 1>::ones([1024], &device).exp();
/// x.clone().into_data();
/// assert!(stats(&device)?.peak_allocated_bytes >= 4096);
///
/// reset_stats(&device)?;
/// assert_eq!(stats(&device)?.counters.ops, 0);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A device that this build cannot run.
pub fn stats(device: &OvercommitDevice) -> Result<Stats, Error> {
    Ok(runtime(device)?.looked_at()?.pool.stats())
}

/// The bytes of device memory and of host memory that were free when the device was first used.
#[doc(hidden)]
pub fn free_bytes(device: &OvercommitDevice) -> Result<[usize; 2], Error> {
    let props = runtime(device)?.engine.props().clone();
    Ok([props.device_bytes, props.host_bytes])
}

/// The statistics, and the most bytes of a tier that were in use since this was last asked of the tier.
#[cfg(feature = "train")]
pub(crate) fn stats_and_peak(
    device: &OvercommitDevice,
    tier: Option<crate::engine::Tier>,
) -> Result<(Stats, usize), Error> {
    let runtime = runtime(device)?;
    let mut front = runtime.looked_at()?;
    let peak_bytes = tier.map_or(0, |tier| front.pool.take_interval_peak(tier));
    Ok((front.pool.stats(), peak_bytes))
}

/// Panics unless the pool's invariants hold, as they do between calls. For tests.
#[doc(hidden)]
pub fn assert_invariants(device: &OvercommitDevice) -> Result<(), Error> {
    let checked = runtime(device)?.lock_only()?.pool.check_invariants();
    checked.unwrap_or_else(|broken| panic!("{broken}"));
    Ok(())
}

/// The number of the op at which the most device memory was in use.
pub(crate) fn peak_op(device: &OvercommitDevice) -> Result<u64, Error> {
    Ok(runtime(device)?.looked_at()?.pool.peak_op())
}

/// The storages that were resident after the op that the configuration names.
pub(crate) fn peak_snapshot(device: &OvercommitDevice) -> Result<Residents, Error> {
    Ok(runtime(device)?.looked_at()?.pool.peak_snapshot().clone())
}

/// What happened on a device since its first use, or since the last call of this function. Waits for all work.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, recording};
///
/// let device = OvercommitDevice::Host(6);
/// configure(&device, Config::new().record())?;
/// let _ = Tensor::<Overcommit, 1>::ones([1000], &device).exp().into_data();
/// assert_eq!(recording(&device)?.program().ops(), 2);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// A device that was not configured to [`record`](Config::record), or work that failed.
pub fn recording(device: &OvercommitDevice) -> Result<Recording, Error> {
    let runtime = runtime(device)?;
    let records = |started: &Started| started.config.records();
    match RUNTIMES.read().unwrap_or_else(PoisonError::into_inner).get(device).is_some_and(records) {
        true => runtime.recording(),
        false => Err(Error::NotRecording { device: *device }),
    }
}

/// Starts counting peaks and totals anew.
///
/// See [`stats`] for an example.
///
/// # Errors
/// A device that this build cannot run.
pub fn reset_stats(device: &OvercommitDevice) -> Result<(), Error> {
    runtime(device)?.looked_at()?.pool.reset_stats();
    Ok(())
}

fn start(
    device: OvercommitDevice,
    config: Config,
    wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>,
) -> Result<Arc<Runtime>, Error> {
    let engine = wrap(engine(device, &config)?);
    let supply = config.supply();
    let mut settings = config.clone().resolve(engine.props())?;
    if let Some(peers) = &settings.peers {
        let is_own = |other: &PeerMemory| matches!(device, OvercommitDevice::Cuda(index) | OvercommitDevice::Host(index) if index == other.index);
        let opened = match peers.devices.iter().any(is_own) {
            true => Err(format!("{device} is the device itself")),
            false => engine.open_peers(peers),
        };
        opened.map_err(|reason| config.refuse_peers(&reason))?;
    }
    if let Some(disk) = &settings.disk {
        engine.open_disk(disk).map_err(|reason| config.refuse_disk(&reason))?;
    }
    let is_recorded = exit::is_recorded(device)?;
    settings.record |= is_recorded;
    settings.log(
        log::Level::Info,
        format_args!(
            "{device} ({}; {}): budget {} bytes, host tier {} bytes, other devices {} bytes, disk tier {} bytes, policy {}, {:?}",
            engine.props().name,
            engine.props().pricing(),
            settings.budget_bytes,
            settings.host_limit_bytes,
            settings.peers.as_ref().map_or(0, PeerTier::limit_bytes),
            settings.disk.as_ref().map_or(0, |disk| disk.limit_bytes),
            settings.policy,
            settings.exactness
        ),
    );
    let mut pool = Pool::new(device, engine.clone(), settings);
    pool.tell_subscribers();
    let runtime = Arc::new(Runtime::new(device, engine, pool, supply));
    if is_recorded {
        exit::record(&runtime, !config.records());
    }
    Ok(runtime)
}

fn engine(device: OvercommitDevice, config: &Config) -> Result<Arc<dyn Engine>, Error> {
    let missing = |reason: &str| Err(Error::Device { device, reason: reason.into() });
    match device {
        #[cfg(feature = "cuda")]
        OvercommitDevice::Cuda(index) => match CudaEngine::new(&config.cuda_options(index)?) {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(reason) => Err(Error::Device { device, reason }),
        },
        #[cfg(not(feature = "cuda"))]
        OvercommitDevice::Cuda(_) => missing("this build lacks the feature `cuda`"),
        #[cfg(feature = "host")]
        OvercommitDevice::Host(_) if !HostEngine::runs_here() => {
            missing("its kernels were compiled for processors with AVX2; build the program on this machine")
        }
        #[cfg(feature = "host")]
        OvercommitDevice::Host(_) => Ok(Arc::new(HostEngine::new(config.host_options()))),
        #[cfg(not(feature = "host"))]
        OvercommitDevice::Host(_) => {
            let _ = config;
            missing("this build lacks the feature `host`")
        }
        OvercommitDevice::Sim(profile) => match profile.get() {
            Some(mut profile) => {
                if profile.workspace == Workspace::Gpu {
                    let budget_bytes = config.budget_bytes_asked_for().unwrap_or(profile.props.device_bytes);
                    profile.props.page_bytes = match config.keeps_plans() {
                        true => Some(page_bytes_for(budget_bytes)),
                        false => profile.props.simulated_page_bytes(budget_bytes),
                    };
                }
                config.make_room(&mut profile.props);
                Ok(Arc::new(SimEngine::new(&profile)))
            }
            None => missing("there is no such profile"),
        },
        OvercommitDevice::Misnamed => match OvercommitDevice::misnaming() {
            Some(error) => Err(error),
            None => missing("the environment names another"),
        },
    }
}
