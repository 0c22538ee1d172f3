//! The data that a program reads on an engine that has none.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::OvercommitDevice;
use crate::error::Error;
use crate::op::{Dtype, Scalar, View, lower};

/// The data that reads give on an engine without data.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Config, Overcommit, OvercommitDevice, Reads, SimProfile, configure};
///
/// let device = OvercommitDevice::Sim(SimProfile::named("h200").unwrap());
/// configure(&device, Config::new().reads(Reads::Value(0.5)))?;
/// let loss = Tensor::<Overcommit, 1>::ones([1], &device).into_scalar();
/// assert_eq!(loss, 0.5);
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reads {
    /// Zeros.
    #[default]
    Zeros,
    /// This number everywhere.
    Value(f64),
    /// The elements of one read after the other.
    Log(Vec<Vec<f64>>),
}

/// Stands in for data.
#[derive(Debug)]
pub struct Supply {
    /// The user's setting, if there is one.
    reads: Option<Reads>,
    density: Option<f64>,
    count: AtomicUsize,
}

impl Supply {
    pub fn new(reads: Option<Reads>, density: Option<f64>) -> Self {
        Supply { reads, density, count: AtomicUsize::new(0) }
    }

    /// The warning for a program that reads although no data was configured. Each device warns once, however often it is
    /// configured.
    pub fn warning(&self, device: OvercommitDevice) -> Option<String> {
        static WARNED: LazyLock<Mutex<HashSet<OvercommitDevice>>> = LazyLock::new(Mutex::default);
        if self.reads.is_some() || !WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(device) {
            return None;
        }
        Some(format!(
            "{device} has no data, so that all that is read from it is zeros; say with Config::reads what is to be read"
        ))
    }

    /// The elements of the next read, as bytes.
    pub fn elements(&self, device: OvercommitDevice, view: &View) -> Result<Vec<u8>, Error> {
        let read = self.count.fetch_add(1, Ordering::Relaxed);
        let count = view.shape().count();
        let error = |reason: String| Error::Reads { device, read: read + 1, reason };
        match self.reads.as_ref().unwrap_or(&Reads::Zeros) {
            Reads::Zeros => Ok(vec![0; view.size_bytes()]),
            &Reads::Value(value) => Ok(bytes(view.dtype, std::iter::repeat_n(value, count))),
            Reads::Log(log) => match log.get(read) {
                Some(values) if values.len() == count => Ok(bytes(view.dtype, values.iter().copied())),
                Some(values) => {
                    Err(error(format!("{} elements were recorded, and {count} are read", values.len())))
                }
                None => Err(error(format!("only {} reads were recorded", log.len()))),
            },
        }
    }

    /// How many of `most` elements of a mask are set.
    pub fn count(&self, device: OvercommitDevice, op: &'static str, most: usize) -> Result<usize, Error> {
        let density = self.density.ok_or(Error::NeedsValues { op, device })?;
        Ok((most as f64 * density.clamp(0.0, 1.0)).round() as usize)
    }
}

fn bytes(dtype: Dtype, values: impl Iterator<Item = f64>) -> Vec<u8> {
    let element = |value: f64| lower::bits(dtype, Scalar::from(value)).to_ne_bytes();
    values.flat_map(|value| element(value).into_iter().take(dtype.size_bytes())).collect()
}
