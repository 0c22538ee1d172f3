//! Accesses of the program to host memory: its reads and writes.

use std::sync::{Arc, PoisonError};

use super::device::{Runtime, Tensor};
use crate::engine::EngineError;
use crate::error::Error;
use crate::fusion::FusionTensor;
use crate::op::View;
use crate::pool::{HostAccess, Pool};

impl Runtime {
    /// A tensor of a new storage, whose bytes `fill` writes.
    pub(super) fn write(
        self: &Arc<Self>,
        size_bytes: usize,
        view: View,
        fill: impl FnOnce(&HostAccess) -> Result<(), EngineError>,
    ) -> Result<Tensor, Error> {
        let begin = |pool: &mut Pool| pool.begin_write(size_bytes);
        self.access(None, begin, |(id, access)| {
            let tensor = Tensor::new(self.clone(), id, view);
            let filled = fill(&access);
            self.lock()?.pool.end_write(id);
            filled.map(|()| tensor).map_err(|error| self.engine_error(error))
        })
    }

    /// What `look` makes of a tensor's bytes.
    pub(super) fn read<T>(
        self: &Arc<Self>,
        tensor: &Tensor,
        look: impl FnOnce(&HostAccess) -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        let begin = |pool: &mut Pool| pool.begin_read(tensor.id());
        self.access(Some(tensor), begin, |access| {
            let seen = look(&access);
            let intact = self.lock()?.pool.end_read(tensor.id());
            seen.map_err(|error| self.engine_error(error)).and_then(|seen| intact.map(|()| seen))
        })
    }

    /// Begins an access, and ends it by `work`, which may wait for the device and so does without the lock. Where accesses of other
    /// threads leave no room, it begins again when they have ended, and they wait for it.
    fn access<Access, Outcome>(
        self: &Arc<Self>,
        read: Option<&Tensor>,
        begin: impl Fn(&mut Pool) -> Result<Access, Error>,
        work: impl FnOnce(Access) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let beside = self.accesses.read().unwrap_or_else(PoisonError::into_inner);
        let _alone;
        let mut front = self.settled(read)?;
        read.into_iter().for_each(|tensor| front.pool.note_read(tensor.id()));
        let mut begun = begin(&mut front.pool);
        if let Err(Error::HostTierFull { .. }) = begun {
            drop((front, beside));
            _alone = self.accesses.write().unwrap_or_else(PoisonError::into_inner);
            front = self.lock()?;
            begun = begin(&mut front.pool);
        }
        let begun = front.pool.counted(begun);
        drop(front);
        work(begun?)
    }
}
