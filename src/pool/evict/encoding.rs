//! Storages kept in fewer bits: each in a storage of the pool's own, its *encoded form*, which has no handle, no recipe
//! and one claim, and so is only ever moved. It travels where the values would have.
//!
//! A storage that can be decoded gets the decoding as its recipe, in place of the one that it had, and its bytes go:
//! all else is recomputation. The form is claimed as an input of that recipe, so it goes when the storage is back, or
//! is needed no more. A form of counted size has an overflow in the host tier for the worst case, where kernels read
//! and write rows that find no room. [Signs](Encoding::Signs) cannot be decoded: the storage's own recipe stays, and
//! its bytes are dropped where `drop` would be allowed. An op that can runs on the encoded form itself; any other
//! decodes, or recomputes. `codec/` lists the encodings, and the values that are left alone.

use std::sync::Arc;

use smallvec::smallvec;

use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::op::{Encoding, Inputs, Op, Shape, View};
use crate::pool::Pool;
use crate::pool::input::{Input, can_overwrite};
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::TierCopy;
use crate::pool::submit::PendingWork;
use crate::schedule::Eviction;
use crate::trace::How;

/// The block of an encoded form, and its overflow in the host tier, if it has one.
type Placed = ((Block, PendingWork), Option<TierCopy>);

/// A storage whose encoded form is there, and how that was made.
#[derive(Debug)]
pub(in crate::pool) struct Encoded {
    id: StorageId,
    encoding: Encoding,
    form: StorageId,
    encode: Arc<Instruction>,
}

impl Pool {
    /// Keeps a resident storage encoded. `false`: that cannot be, would save nothing, or there is no room for the encoded form
    /// just now, for which nothing else leaves.
    pub(in crate::pool) fn encode(&mut self, id: StorageId, encoding: Encoding) -> Result<bool, Error> {
        let made = self.make_form(id, encoding)?;
        Ok(made.map(|made| self.leave_encoded(made)).is_some())
    }

    /// Has an input, by place, that is to leave encoded after the op do so before: then the first output can take its memory. Its
    /// bytes stay until the op has read them and [`leave_encoded`](Pool::leave_encoded) is called.
    pub(in crate::pool) fn encode_ahead(
        &mut self,
        inputs: &[Input],
        plan: &Instruction,
    ) -> Result<Option<(usize, Encoded)>, Error> {
        for (place, interval, encoding) in self.follower.encoded_after(inputs.len()) {
            let id = inputs[place].id;
            let storage = &self.graph.storages[id];
            let is_as_large =
                plan.outputs.first().is_some_and(|made| made.size_bytes() == storage.size_bytes);
            if is_as_large
                && storage.uses.held
                && storage.copies.host.is_none()
                && can_overwrite(inputs, place, plan)
            {
                self.follower.begin_interval(&mut self.graph, id, interval);
                return Ok(self.make_form(id, encoding)?.map(|made| (place, made)));
            }
        }
        Ok(None)
    }

    /// A storage's encoded form, which takes its place once it has no bytes any more.
    fn make_form(&mut self, id: StorageId, encoding: Encoding) -> Result<Option<Encoded>, Error> {
        let Some(view) = self.encodable(id, encoding) else { return Ok(None) };
        let (dtype, count) = (view.dtype, view.shape().count());
        let overflow = encoding.beside(dtype, count);
        let encode = self.instruction(Op::Encode(encoding), id, view, overflow)?;
        let decode = match encoding {
            Encoding::Signs => None,
            _ => {
                let op = Op::Decode { encoding, dtype, count };
                Some(self.instruction(op, id, encode.outputs[0], overflow)?)
            }
        };
        let Some((form, overflow)) = self.place_form(&encode, overflow)? else { return Ok(None) };
        let (mut copies, done) = match self.submit_with_host_input(&[id], &encode, smallvec![form], overflow)
        {
            Ok(submitted) => submitted,
            Err(error) => {
                overflow.into_iter().for_each(|copy| self.memory.host.free(copy.block, copy.touched));
                return Err(error);
            }
        };
        let form = self.insert_form(id, &encode, copies.remove(0));
        self.graph.storages[form].copies.overflow =
            overflow.map(|copy| Box::new(TierCopy::new(copy.block, done)));
        match &decode {
            Some(decode) => self.graph.replace_recipe(id, decode, form),
            None => self.graph.storages[id].lineage.signs = Some(form),
        }
        Ok(Some(Encoded { id, encoding, form, encode }))
    }

    /// What an encoded form was made of has no bytes any more.
    pub(in crate::pool) fn leave_encoded(&mut self, made: Encoded) {
        let Encoded { id, encoding, form, encode } = made;
        // What made room for the op may have put it there.
        self.graph.free_host(id, &mut self.memory);
        let (before_bytes, after_bytes) =
            (self.graph.storages[id].size_bytes, encode.outputs[0].size_bytes());
        self.forget_bytes(id, How::Encode, Eviction::Encode(encoding), encode.launch_ns);
        if encoding != Encoding::Signs {
            // The recipe claims it by now.
            self.graph.ended_claims.push(form);
            self.graph.settle_claims(&mut self.memory);
        }
        self.observer.counters.encodings += 1;
        self.observer.counters.encoded_bytes += before_bytes as u64;
        self.observer.counters.encoded_into_bytes += after_bytes as u64;
    }

    fn instruction(
        &mut self,
        op: Op,
        id: StorageId,
        view: View,
        overflow: Option<View>,
    ) -> Result<Arc<Instruction>, Error> {
        let views = [view].into_iter().chain(overflow);
        let inputs: Inputs<Input> = views.map(|view| Input { id, view, consumed: false }).collect();
        self.submitter.instruction(self.settings.exactness, &op, &inputs)
    }

    /// Allocates an encoded form, and its overflow in the host tier if it has one. Nothing leaves for them. An overflow must leave
    /// the host tier roomy, so that it does not get in the way of other offloads.
    fn place_form(&mut self, encode: &Instruction, overflow: Option<View>) -> Result<Option<Placed>, Error> {
        let placed = self.memory.allocate(encode.outputs[0].size_bytes());
        let Some(form) = placed? else { return Ok(None) };
        let Some(view) = overflow else { return Ok(Some((form, None))) };
        let overflow = self.host_block(view.size_bytes(), false);
        match overflow {
            Ok(Some((block, busy))) if self.memory.is_roomy() => {
                return Ok(Some((form, Some(TierCopy { block, written: busy, touched: busy }))));
            }
            Ok(Some((block, busy))) => self.memory.host.free(block, busy),
            _ => {}
        }
        self.memory.device.free(form.0, form.1);
        overflow.map(|_| None)
    }

    /// All elements of a storage in a row, if it can be encoded now, has a way back, and takes less then.
    fn encodable(&self, id: StorageId, encoding: Encoding) -> Option<View> {
        let storage = &self.graph.storages[id];
        let dtype = storage.dtype.filter(|&dtype| encoding.takes(dtype))?;
        let in_use = storage.uses.pins + storage.uses.host_pins + storage.uses.wanted > 0;
        let count = storage.size_bytes / dtype.size_bytes();
        let bytes = aligned(encoding.size_bytes(count));
        if in_use || storage.copies.device.is_none() || bytes >= aligned(storage.size_bytes) {
            return None;
        }
        let returns = match encoding {
            Encoding::Signs => self.settings.ways.recompute && self.rematerialize_ns(id, storage).is_some(),
            _ => {
                self.graph.may_replace_recipe(id)
                    && bytes + aligned(storage.size_bytes) <= self.memory.device.limit_bytes()
                    && (self.settings.ways.offload || encoding.beside(dtype, count).is_none())
            }
        };
        returns.then(|| View::contiguous(dtype, Shape::new(&[count])))
    }

    /// A record for what a storage was encoded into, with one claim.
    fn insert_form(&mut self, of: StorageId, encode: &Instruction, copy: TierCopy) -> StorageId {
        let storage = &self.graph.storages[of];
        let (stream, next_use) = (storage.access.stream, storage.access.next_use);
        let size_bytes = encode.outputs[0].size_bytes();
        let form = self.graph.storages.insert(size_bytes, encode.op.name(), stream, 0);
        self.graph.storages.set_device(form, copy, self.observer.computed_ns);
        let record = &mut self.graph.storages[form];
        (record.uses.held, record.uses.claims, record.access.next_use) = (false, 1, next_use);
        self.observer.note_recompute(&self.graph, &self.submitter, encode.op.name(), &[form]);
        form
    }
}
