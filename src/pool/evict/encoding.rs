//! Storages kept in fewer bits. The pool keeps an *encoded form* as a storage of its own, with one claim, no handle and
//! no recipe. So it is only ever moved, to the host and back like the values would be.
//!
//! Decoding becomes the recipe of the encoded storage in place of its own, and the bytes are freed. From then on the
//! storage is rematerialized like any other. The recipe claims the form, so that the form goes when the storage is back
//! or no longer needed. The size of some forms depends on counted values. Such a form has an overflow in the host tier,
//! where kernels read and write rows that find no room in the form.
//!
//! [Signs](Encoding::Signs) cannot be decoded. There the storage keeps its recipe, and its bytes are dropped if
//! dropping is allowed. Some ops run on the encoded form itself. For all others the storage is decoded, or recomputed.
//! `codec/` lists the encodings, and the values that are never encoded.

use std::sync::Arc;

use smallvec::smallvec;

use crate::codec;
use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::op::{Counts, Encoding, Inputs, Op, Origin, Shape, View};
use crate::pool::Pool;
use crate::pool::input::{Input, can_overwrite};
use crate::pool::memory::block::Block;
use crate::pool::remat::away::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;
use crate::schedule::Eviction;
use crate::trace::How;

/// The memory of an encoded form, and its overflow.
type PlacedForm = ((Block, PendingWork), Option<TierCopy>);

/// A storage that has an encoded form, and the instruction that made the form.
#[derive(Debug)]
pub(in crate::pool) struct Encoded {
    id: StorageId,
    encoding: Encoding,
    form: StorageId,
    encode: Arc<Instruction>,
}

impl Pool {
    /// Evicts a resident storage by encoding it. Returns `false` if that is impossible, saves nothing, or if there is
    /// no room for the encoded form right now. No other storage leaves for it.
    pub(in crate::pool) fn encode(&mut self, id: StorageId, encoding: Encoding) -> Result<bool, Error> {
        let encoded = self.make_form(id, encoding)?;
        Ok(encoded.map(|encoded| self.finish_encoding(encoded)).is_some())
    }

    /// Encodes an input before the op that the plan encodes after it, if the first output can then take the input's
    /// memory. Returns the input's place. The bytes stay until the op has read them and
    /// [`finish_encoding`](Pool::finish_encoding) is called.
    pub(in crate::pool) fn encode_early(
        &mut self,
        inputs: &[Input],
        instruction: &Instruction,
    ) -> Result<Option<(usize, Encoded)>, Error> {
        for (place, interval, encoding) in self.follower.encoded_after(inputs.len()) {
            let id = inputs[place].id;
            let storage = &self.graph.storages[id];
            let is_as_large =
                instruction.outputs.first().is_some_and(|made| made.size_bytes() == storage.size_bytes);
            if is_as_large
                && storage.uses.held
                && storage.copies.away.is_none()
                && can_overwrite(inputs, place, instruction)
            {
                self.follower.begin_interval(&mut self.graph, id, interval);
                return Ok(self.make_form(id, encoding)?.map(|encoded| (place, encoded)));
            }
        }
        Ok(None)
    }

    /// Makes a storage's encoded form. The storage still has its bytes afterwards.
    fn make_form(&mut self, id: StorageId, encoding: Encoding) -> Result<Option<Encoded>, Error> {
        let Some(view) = self.encodable(id, encoding) else { return Ok(None) };
        let (dtype, count) = (view.dtype, view.shape().count());
        let overflow = encoding.overflow(dtype, count);
        let encode = self.instruction(Op::Encode(encoding), id, view, overflow);
        let decode = match encoding {
            Encoding::Signs => None,
            _ => {
                let op = Op::Decode { encoding, dtype, count };
                Some(self.instruction(op, id, encode.outputs[0], overflow))
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

    /// Frees the bytes of a storage whose encoded form exists.
    pub(in crate::pool) fn finish_encoding(&mut self, encoded: Encoded) {
        let Encoded { id, encoding, form, encode } = encoded;
        // A copy can exist by now, if making room for the op offloaded the storage.
        self.graph.free_away(id, &mut self.memory);
        let (before_bytes, after_bytes) =
            (self.graph.storages[id].size_bytes, encode.outputs[0].size_bytes());
        self.forget_bytes(id, How::Encode, Eviction::Encode(encoding), encode.launch_ns);
        if encoding != Encoding::Signs {
            // The recipe now claims the form, so that the claim of `insert_form` is no longer needed.
            self.graph.ended_claims.push(form);
            self.graph.settle_claims(&mut self.memory);
        }
        self.observer.counters.encodings += 1;
        self.observer.counters.encoded_bytes += before_bytes as u64;
        self.observer.counters.encoded_into_bytes += after_bytes as u64;
    }

    /// The instruction of an op that encodes or decodes, with the view of its overflow, if it has one.
    fn instruction(&mut self, op: Op, id: StorageId, view: View, overflow: Option<View>) -> Arc<Instruction> {
        let views = [view].into_iter().chain(overflow);
        let inputs: Inputs<Input> = views.map(|view| Input::read(id, view)).collect();
        self.submitter.instruction(self.settings.exactness, &op, &inputs)
    }

    /// Places an encoded form and its overflow, if there is room for both. The overflow must leave enough of the host
    /// tier free for prefetches and plans.
    fn place_form(
        &mut self,
        encode: &Instruction,
        overflow: Option<View>,
    ) -> Result<Option<PlacedForm>, Error> {
        let placed = self.memory.allocate(encode.outputs[0].size_bytes());
        let Some(form) = placed? else { return Ok(None) };
        let Some(view) = overflow else { return Ok(Some((form, None))) };
        let overflow = self.lasting_host_block(view.size_bytes());
        match overflow {
            Ok(Some((block, busy))) if self.memory.is_roomy() => {
                return Ok(Some((form, Some(TierCopy::unwritten(block, busy)))));
            }
            Ok(Some((block, busy))) => self.memory.host.free(block, busy),
            _ => {}
        }
        self.memory.device.free(form.0, form.1);
        overflow.map(|_| None)
    }

    /// A view of all elements of a storage in a row, if the storage can be encoded now, can be brought back, and takes
    /// less memory when encoded.
    fn encodable(&self, id: StorageId, encoding: Encoding) -> Option<View> {
        let storage = &self.graph.storages[id];
        let dtype = storage.dtype.filter(|&dtype| encoding.takes(dtype))?;
        if !self.loses_nothing_of(id, encoding) {
            return None;
        }
        let in_use = storage.uses.pins + storage.uses.host_pins + storage.uses.wanted > 0;
        let count = storage.size_bytes / dtype.size_bytes();
        let bytes = aligned(encoding.size_bytes(count));
        if in_use || storage.copies.device.is_none() || bytes >= aligned(storage.size_bytes) {
            return None;
        }
        let returns = match encoding {
            Encoding::Signs => {
                self.settings.methods.recompute && self.rematerialize_ns(id, storage).is_some()
            }
            _ => {
                self.graph.may_replace_recipe(id)
                    && bytes + aligned(storage.size_bytes) <= self.memory.device.limit_bytes()
                    && (self.settings.methods.offload || encoding.overflow(dtype, count).is_none())
            }
        };
        returns.then(|| View::contiguous(dtype, Shape::new(&[count])))
    }

    /// Whether an encoding is right for a storage's values, whoever made the plan: integers and places have as many bits as the op that
    /// made them calls for, and only a policy that may change values rounds them.
    fn loses_nothing_of(&self, id: StorageId, encoding: Encoding) -> bool {
        if matches!(encoding, Encoding::Reduced(_)) {
            return !self.settings.policy.is_lossless();
        }
        if !matches!(encoding, Encoding::Integers { .. } | Encoding::Taps(_)) {
            return true;
        }
        let Some(recipe) = self.graph.storages[id].lineage.recipe else { return false };
        let recipe = self.graph.recipe(recipe);
        let Some(place) = recipe.outputs.iter().position(|&output| output == Some(id)) else { return false };
        let Instruction { op, views, outputs, .. } = &*recipe.instruction;
        let (input, view, counts) = (views.first().copied(), outputs[place], Counts::default());
        matches!(*op, Op::Decode { encoding: known, .. } if known == encoding)
            || codec::keeps_exactly(&Origin { op: *op, input, place, view, counts }, encoding)
    }

    /// Makes the record of a storage's encoded form, with one claim.
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
