//! Tallies tell how much memory encoded forms would take. Ops count values while an iteration is logged, because the
//! plan must know the size of an encoded form before the form is made. The counts lie in the host tier until the log is
//! planned.

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use crate::engine::Instruction;
use crate::error::Error;
use crate::op::{Counts, Dtype, Op, Origin, Shape, Tally, View};
use crate::pool::Pool;
use crate::pool::input::Input;
use crate::pool::observe::requests::{PAGE_BYTES, Tallied, WORD_BYTES};
use crate::pool::remat::away::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::HostAccess;

/// The maximum number of tallies.
const MAX_TALLIES: usize = 1 << 14;

impl Pool {
    /// Counts what the encoded forms of an op's outputs would need, while the op is logged. Leaves out what there is no
    /// room for.
    pub(in crate::pool) fn tally(
        &mut self,
        made_by: &Instruction,
        outputs: &[StorageId],
    ) -> Result<(), Error> {
        let settings = &self.settings;
        let may_encode = settings.policy.may_encode() && settings.methods.offload;
        // A simulation has no values to count, and the ops that count would make a replay differ from the recorded run.
        let counts = self.submitter.engine.times().is_none() && !settings.states_counts();
        let goes_on = self.follower.requests.log.is_some() && self.follower.requests.tallies.go_on();
        if !goes_on || !may_encode || !counts {
            return Ok(());
        }
        for (place, (&id, view)) in outputs.iter().zip(&made_by.outputs).enumerate() {
            for tally in Origin::tallies(&made_by.op, place, view) {
                if self.follower.requests.tallies.counts().len() < MAX_TALLIES
                    && self.graph.storages[id].copies.device.is_some()
                {
                    let row = View::contiguous(view.dtype, Shape::new(&[view.shape().count()]));
                    self.tally_one(tally, id, row)?;
                }
            }
        }
        Ok(())
    }

    /// Counts one figure of a storage's values, if there is room for that.
    fn tally_one(&mut self, tally: Tally, id: StorageId, view: View) -> Result<(), Error> {
        let word = View::contiguous(Dtype::U32, Shape::new(&[1]));
        let inputs = [view, word].map(|view| Input::read(id, view));
        let instruction = self.submitter.instruction(self.settings.exactness, &Op::Tally(tally), &inputs);
        let scratch = self.memory.allocate(instruction.scratch_bytes);
        let Some(scratch) = scratch? else { return Ok(()) };
        let word = self.word_of_next_tally();
        let Ok(Some(word)) = word else {
            self.memory.device.free(scratch.0, scratch.1);
            return word.map(|_| ());
        };
        let (_, done) = self.submit_with_host_input(&[id], &instruction, smallvec![scratch], Some(word))?;
        let number = self.graph.storages[id].number;
        self.follower.requests.tallies.push(number, tally, TierCopy::new(word.block, done));
        self.observer.note_recompute(&self.graph, &self.submitter, instruction.op.name(), &[]);
        Ok(())
    }

    /// The place of the next count, in a new block if all others are filled; `None` if the host tier has no room for one.
    fn word_of_next_tally(&mut self) -> Result<Option<TierCopy>, Error> {
        if let Some(word) = self.follower.requests.tallies.next_word() {
            return Ok(Some(word));
        }
        let Some(page) = self.memory.allocate_spare_host(PAGE_BYTES)? else { return Ok(None) };
        self.follower.requests.tallies.add_page(page);
        Ok(self.follower.requests.tallies.next_word())
    }

    /// Reads the counts, by the numbers of the storages. An engine without data has none.
    pub(in crate::pool) fn tallied(&mut self) -> Result<HashMap<u64, Counts>, Error> {
        let tallies = std::mem::take(&mut self.follower.requests.tallies);
        let read = |&(number, tally, copy): &Tallied| {
            let span = self.memory.host.span(copy.block, WORD_BYTES);
            let bytes = HostAccess::new(self.submitter.engine.clone(), span, copy.written.into()).read()?;
            let count = bytes.map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("a word")));
            Ok(count.map(|count| (number, tally, count as usize)))
        };
        let counts: Result<SmallVec<[_; 64]>, _> = tallies.counts().iter().map(read).collect();
        tallies.free(&mut self.memory);
        let counts = counts.map_err(|error| self.memory.error(error))?;
        let mut of = HashMap::<u64, Counts>::new();
        for (number, tally, count) in counts.into_iter().flatten() {
            *of.entry(number).or_default().of(tally) = Some(count);
        }
        Ok(of)
    }
}
