//! Collective operations: a tensor of each of some devices becomes the sum or the mean of all, in host memory, and in the order of the
//! devices, whatever the order in which they come.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use half::{bf16, f16};

use super::device::{Handle, Tensor};
use super::workers::{self, Work};
use super::{read, write};
use crate::OvercommitDevice;
use crate::config::Variable;
use crate::error::Error;
use crate::op::{Dtype, View};

/// How long a device is waited for that does nothing.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// If no thread that works for it is left: a program may have a new thread for each step.
    pub ended: Duration,
    /// If one is left. NCCL's watchdog allows as much for the whole of a wait.
    pub silent: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { ended: Duration::from_secs(60), silent: Duration::from_secs(600) }
    }
}

impl Patience {
    /// The patience that the environment asks for.
    fn read() -> Result<Self, Error> {
        let default = Self::default();
        let Some(seconds) = Variable::CollectiveTimeout.read::<u32>().transpose()? else {
            return Ok(default);
        };
        let silent = Duration::from_secs(seconds.into());
        Ok(Patience { ended: default.ended.min(silent), silent })
    }
}

/// What becomes of the tensors.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let devices = [OvercommitDevice::Host(80), OvercommitDevice::Host(81)];
/// let of = |device, value: f32| runtime::write(device, &value.to_ne_bytes(), Dtype::F32, Shape::new(&[1]));
/// let [first, second] = [of(&devices[0], 1.0)?, of(&devices[1], 2.0)?];
/// let first = runtime::all_reduce(first, runtime::Reduction::Mean, 0, &devices)?;
/// let second = runtime::all_reduce(second, runtime::Reduction::Mean, 0, &devices)?;
/// for (device, reduced) in devices.iter().zip([first, second]) {
///     runtime::sync_collective(device)?;
///     assert_eq!(runtime::read(reduced)?, 1.5f32.to_ne_bytes());
/// }
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// A tensor that waits for those of other devices, and the handle of what becomes of it.
struct Waiting {
    tensor: Tensor,
    promise: Arc<Handle>,
}

/// All that wait.
#[derive(Default)]
struct Collectives {
    /// By key and by the devices that take part, those of each device in the order in which they came.
    waiting: HashMap<(u64, Vec<OvercommitDevice>), HashMap<OvercommitDevice, Vec<Waiting>>>,
    /// How many results a device waits for.
    unfinished: HashMap<OvercommitDevice, usize>,
    failures: HashMap<OvercommitDevice, Error>,
    reducer: Option<Sender<(Vec<Waiting>, Reduction)>>,
}

impl Collectives {
    /// The devices that a device waits for.
    fn missing(&self, device: OvercommitDevice) -> HashSet<OvercommitDevice> {
        let has_brought =
            |waiting: &HashMap<_, Vec<_>>, member| waiting.get(member).is_some_and(|own| !own.is_empty());
        let groups = self.waiting.iter().filter(|(_, waiting)| has_brought(waiting, &device));
        let missing = groups.flat_map(|((_, members), waiting)| {
            members.iter().filter(|member| !has_brought(waiting, member))
        });
        missing.copied().collect()
    }

    /// Ends the waits for a device with an error.
    fn give_up(&mut self, device: OvercommitDevice, error: &Error) {
        for member in self.forget(device) {
            self.failures.insert(member, error.clone());
        }
        COLLECTIVES.1.notify_all();
    }

    /// Forgets the tensors that wait for those of others in groups of a device. Returns whose they are.
    fn forget(&mut self, device: OvercommitDevice) -> Vec<OvercommitDevice> {
        let gone = self.waiting.extract_if(|(_, members), _| members.contains(&device));
        let gone: Vec<_> = gone.flat_map(|(_, waiting)| waiting).collect();
        for (member, tensors) in &gone {
            *self.unfinished.entry(*member).or_default() -= tensors.len();
        }
        gone.into_iter().map(|(member, _)| member).collect()
    }
}

static COLLECTIVES: LazyLock<(Mutex<Collectives>, Condvar)> = LazyLock::new(Default::default);

fn lock() -> MutexGuard<'static, Collectives> {
    COLLECTIVES.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reduces a tensor with those that other devices bring to their calls of this with the same key, the first of each device with the first
/// of the others and so on. Returns at once what becomes of it, which must not be used before [`sync_collective`]. A thread reads all
/// tensors once the last one is there, and adds them in the order of the devices.
///
/// See [`Reduction`] for an example.
///
/// # Errors
/// A tensor that is not of floats.
pub fn all_reduce(
    tensor: Tensor,
    reduction: Reduction,
    key: u64,
    devices: &[OvercommitDevice],
) -> Result<Tensor, Error> {
    let (device, view) = (tensor.device(), View::contiguous(tensor.dtype(), *tensor.shape()));
    if !view.dtype.is_float() {
        return Err(Error::Dtypes { op: "all_reduce", dtypes: vec![view.dtype] });
    }
    workers::note(device);
    let reduced = Tensor::promised(tensor.runtime().clone(), view);
    let mut members = devices.to_vec();
    members.sort_unstable_by_key(|device| device.parts());
    let mut collectives = lock();
    *collectives.unfinished.entry(device).or_default() += 1;
    let waiting = collectives.waiting.entry((key, members.clone())).or_default();
    waiting.entry(device).or_default().push(Waiting { tensor, promise: reduced.handle().clone() });
    if members.iter().all(|member| waiting.get(member).is_some_and(|waiting| !waiting.is_empty())) {
        let first = |member| waiting.get_mut(member).expect("it is there").remove(0);
        let group: Vec<Waiting> = members.iter().map(first).collect();
        if waiting.values().all(Vec::is_empty) {
            collectives.waiting.remove(&(key, members));
        }
        let reducer = collectives.reducer.get_or_insert_with(start_reducer);
        reducer.send((group, reduction)).expect("the thread ends with the process");
    }
    Ok(reduced)
}

/// Starts the thread that reduces groups, one after the other: no more than one parameter's bytes are held twice.
fn start_reducer() -> Sender<(Vec<Waiting>, Reduction)> {
    let (sender, groups) = mpsc::channel();
    let reduce_all = move || {
        for (group, reduction) in groups {
            reduce(group, reduction);
            workers::leave();
        }
    };
    let builder = thread::Builder::new().name("overcommit reduce".into());
    builder.spawn(reduce_all).expect("a thread can be started");
    sender
}

/// Blocks until all that a device brought to [`all_reduce`] is reduced.
///
/// See [`Reduction`] for an example.
///
/// # Errors
/// A tensor of the group that could not be read or written. A device of the group that brings none: no thread works for it any more
/// and for a minute none has begun to, or it has done nothing for [ten minutes](crate::Variable::CollectiveTimeout).
pub fn sync_collective(device: &OvercommitDevice) -> Result<(), Error> {
    sync_collective_within(device, Patience::read()?)
}

/// [`sync_collective`] with another patience.
#[doc(hidden)]
pub fn sync_collective_within(device: &OvercommitDevice, patience: Patience) -> Result<(), Error> {
    let mut collectives = lock();
    // Of each device that is waited for, what it last did, and since when that is known.
    let mut seen: HashMap<OvercommitDevice, (Work, Instant)> = HashMap::new();
    while collectives.unfinished.get(device).is_some_and(|&count| count > 0) {
        let waited = COLLECTIVES.1.wait_timeout(collectives, patience.ended.min(patience.silent) / 8);
        collectives = waited.unwrap_or_else(PoisonError::into_inner).0;
        for missing in collectives.missing(*device) {
            let (work, now) = (workers::work(missing), Instant::now());
            let (last, since) = seen.entry(missing).or_insert((work, now));
            if *last != work {
                (*last, *since) = (work, now);
            }
            let limit = if work.has_ended { patience.ended } else { patience.silent };
            if since.elapsed() >= limit {
                let error = match work.has_ended {
                    true => Error::DeviceEnded { device: missing },
                    false => Error::DeviceSilent { device: missing, seconds: limit.as_secs() },
                };
                collectives.give_up(missing, &error);
            }
        }
    }
    collectives.failures.remove(device).map_or(Ok(()), Err)
}

/// Has some devices begin anew: what they brought to [`all_reduce`] and others did not is forgotten.
///
/// ```
/// use burn_overcommit::op::{Dtype, Shape};
/// use burn_overcommit::{OvercommitDevice, runtime};
///
/// let devices = [OvercommitDevice::Host(82), OvercommitDevice::Host(83)];
/// let alone = runtime::write(&devices[0], &[0; 4], Dtype::F32, Shape::new(&[1]))?;
/// runtime::all_reduce(alone, runtime::Reduction::Sum, 0, &devices)?;
/// runtime::reset_collectives(&devices);
/// runtime::sync_collective(&devices[0])?; // It waits for nothing.
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
pub fn reset_collectives(devices: &[OvercommitDevice]) {
    let mut collectives = lock();
    for device in devices {
        collectives.forget(*device);
        collectives.failures.remove(device);
    }
    workers::forget(devices);
    COLLECTIVES.1.notify_all();
}

/// Keeps the promises of a group.
fn reduce(group: Vec<Waiting>, reduction: Reduction) {
    let devices: Vec<OvercommitDevice> = group.iter().map(|waiting| waiting.tensor.device()).collect();
    let outcome = keep_promises(group, reduction);
    let mut collectives = lock();
    for device in devices {
        *collectives.unfinished.entry(device).or_default() -= 1;
        if let Err(error) = &outcome {
            collectives.failures.insert(device, error.clone());
        }
    }
    COLLECTIVES.1.notify_all();
}

fn keep_promises(group: Vec<Waiting>, reduction: Reduction) -> Result<(), Error> {
    let count = group.len();
    let (mut promises, mut sum) = (Vec::with_capacity(count), Vec::new());
    for Waiting { tensor, promise } in group {
        let (device, dtype, shape) = (tensor.device(), tensor.dtype(), *tensor.shape());
        let bytes = read(tensor)?;
        match sum.is_empty() {
            true => sum = bytes,
            false => add(dtype, &mut sum, &bytes),
        }
        promises.push((device, dtype, shape, promise));
    }
    if let (Reduction::Mean, Some(&(_, dtype, ..))) = (reduction, promises.first()) {
        divide(dtype, &mut sum, count);
    }
    for (device, dtype, shape, promise) in promises {
        let written = write(&device, &sum, dtype, shape)?;
        let handle = Arc::into_inner(written.into_handle());
        let id = handle
            .and_then(|mut handle| handle.take_id())
            .expect("the tensor is new and has no other handle");
        Tensor::kept(promise, id);
    }
    Ok(())
}

/// Adds elements to others, each in its own type.
fn add(dtype: Dtype, sum: &mut [u8], bytes: &[u8]) {
    match dtype {
        Dtype::F64 => pairwise(sum, bytes, |a: f64, b| a + b),
        Dtype::F16 => pairwise(sum, bytes, |a: f16, b| a + b),
        Dtype::BF16 => pairwise(sum, bytes, |a: bf16, b| a + b),
        _ => pairwise(sum, bytes, |a: f32, b| a + b),
    }
}

fn divide(dtype: Dtype, sum: &mut [u8], count: usize) {
    let count = count as f32;
    let unused = sum.to_vec();
    match dtype {
        Dtype::F64 => pairwise(sum, &unused, |a: f64, _| a / f64::from(count)),
        Dtype::F16 => pairwise(sum, &unused, |a: f16, _| a / f16::from_f32(count)),
        Dtype::BF16 => pairwise(sum, &unused, |a: bf16, _| a / bf16::from_f32(count)),
        _ => pairwise(sum, &unused, |a: f32, _| a / count),
    }
}

fn pairwise<T: Pod>(to: &mut [u8], with: &[u8], of: impl Fn(T, T) -> T) {
    for (to, with) in to.chunks_exact_mut(size_of::<T>()).zip(with.chunks_exact(size_of::<T>())) {
        let result = of(bytemuck::pod_read_unaligned(to), bytemuck::pod_read_unaligned(with));
        to.copy_from_slice(bytemuck::bytes_of(&result));
    }
}
