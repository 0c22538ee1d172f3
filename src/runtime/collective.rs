//! Collective operations: a tensor of each of some devices becomes the sum or the mean of all, in host memory, and in the order of the
//! devices, whatever the order in which they come.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use half::{bf16, f16};

use super::device::{Handle, Tensor};
use super::{read, write};
use crate::OvercommitDevice;
use crate::error::Error;
use crate::op::{Dtype, View};

/// How long a device's tensors are waited for once the thread that brought its last ones has ended: a program may have a new thread for each
/// step.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// It lives as long as the thread.
    static ALIVE: Arc<()> = Arc::default();
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
    /// What lives as long as the thread that brought a device's last tensor.
    brought_by: HashMap<OvercommitDevice, Weak<()>>,
    failures: HashMap<OvercommitDevice, Error>,
    reducer: Option<Sender<(Vec<Waiting>, Reduction)>>,
}

impl Collectives {
    /// A device that a device waits for, although the thread that brought its last tensor has ended.
    fn ended(&self, device: OvercommitDevice) -> Option<OvercommitDevice> {
        let has_brought =
            |waiting: &HashMap<_, Vec<_>>, member| waiting.get(member).is_some_and(|own| !own.is_empty());
        let groups = self.waiting.iter().filter(|(_, waiting)| has_brought(waiting, &device));
        let missing = groups.flat_map(|((_, members), waiting)| {
            members.iter().filter(|member| !has_brought(waiting, member))
        });
        let has_ended = |member: &OvercommitDevice| {
            self.brought_by.get(member).is_some_and(|thread| thread.strong_count() == 0)
        };
        missing.copied().find(has_ended)
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
    let reduced = Tensor::promised(tensor.runtime().clone(), view);
    let mut members = devices.to_vec();
    members.sort_unstable_by_key(|device| device.parts());
    let mut collectives = lock();
    *collectives.unfinished.entry(device).or_default() += 1;
    collectives.brought_by.insert(device, ALIVE.with(Arc::downgrade));
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
    let reduce_all = move || groups.into_iter().for_each(|(group, reduction)| reduce(group, reduction));
    let builder = thread::Builder::new().name("overcommit reduce".into());
    builder.spawn(reduce_all).expect("a thread can be started");
    sender
}

/// Blocks until all that a device brought to [`all_reduce`] is reduced.
///
/// See [`Reduction`] for an example.
///
/// # Errors
/// A tensor of the group that could not be read or written. A device of the group that brings none: the thread that brought its last
/// one has ended, and for a minute no other thread has brought one.
pub fn sync_collective(device: &OvercommitDevice) -> Result<(), Error> {
    sync_collective_within(device, PATIENCE)
}

/// [`sync_collective`] with another patience than a minute.
#[doc(hidden)]
pub fn sync_collective_within(device: &OvercommitDevice, patience: Duration) -> Result<(), Error> {
    let (mut collectives, mut in_vain_since) = (lock(), Instant::now());
    while collectives.unfinished.get(device).is_some_and(|&count| count > 0) {
        let waited = COLLECTIVES.1.wait_timeout(collectives, patience / 8);
        collectives = waited.unwrap_or_else(PoisonError::into_inner).0;
        match collectives.ended(*device) {
            None => in_vain_since = Instant::now(),
            Some(ended) if in_vain_since.elapsed() >= patience => {
                for member in collectives.forget(ended) {
                    collectives.failures.insert(member, Error::DeviceEnded { device: ended });
                }
                COLLECTIVES.1.notify_all();
            }
            Some(_) => {}
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
        collectives.brought_by.remove(device);
        collectives.failures.remove(device);
    }
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
