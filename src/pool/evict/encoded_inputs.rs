//! Running an op on the encoded form of an input.

use std::sync::Arc;

use crate::engine::Instruction;
use crate::error::Error;
use crate::op::{Dtype, Encoding, Shape, View};
use crate::pool::Pool;
use crate::pool::input::Input;

/// An instruction and its inputs.
pub(in crate::pool) type EncodedInput = (Arc<Instruction>, Vec<Input>);

/// The view of an encoded form: a row of words.
fn words(encoding: Encoding, count: usize) -> View {
    View::contiguous(Dtype::U32, Shape::new(&[encoding.words(count)]))
}

impl Pool {
    /// Replaces an op by one that computes the same from the encoded form of an input, if the input is stored in no
    /// other form and there is such an op. The form counts as in use until [`release_forms`](Pool::release_forms) is
    /// called.
    pub(in crate::pool) fn substitute_encoded(
        &mut self,
        requested: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<Option<EncodedInput>, Error> {
        let found = inputs.iter().enumerate().find_map(|(at, input)| {
            let storage = &self.graph.storages[input.id];
            if storage.stored() {
                return None;
            }
            let (form, encoding) = self.graph.form_of(storage)?;
            let whole = View::contiguous(storage.dtype?, *input.view.shape());
            let alone = inputs.iter().filter(|other| other.id == input.id).count() == 1;
            let fits = alone && input.view == whole && whole.size_bytes() == storage.size_bytes;
            fits.then_some(())?;
            Some((at, form, encoding, requested.op.on_encoded(at, &encoding, &whole)?))
        });
        let Some((at, form, encoding, op)) = found else { return Ok(None) };
        let mut read = inputs.to_vec();
        let values = inputs[at].view;
        let (dtype, count) = (values.dtype, values.shape().count());
        read[at] = Input::read(form, words(encoding, count));
        let limit_bytes = self.memory.device.limit_bytes();
        // The op must fit even with the values themselves, so that refusals do not depend on what is encoded.
        if self.min_working_set_bytes(requested, inputs) > limit_bytes {
            return Ok(None);
        }
        let mut all = read.clone();
        // The overflow of the form is read too, but it is no storage.
        all.extend(encoding.overflow(dtype, count).map(|view| Input { view, ..read[at] }));
        let instruction = self.submitter.instruction(self.settings.exactness, &op, &all);
        // Nothing is gained if the op decodes all values into its workspace.
        let decodes_all = instruction.scratch_bytes >= requested.scratch_bytes + values.size_bytes();
        if decodes_all || self.min_working_set_bytes(&instruction, &read) > limit_bytes {
            return Ok(None);
        }
        self.graph.storages[form].uses.claims += 1;
        Ok(Some((instruction, read)))
    }

    /// Ends the use of encoded forms, after an op has run on them or has failed.
    pub(in crate::pool) fn release_forms(&mut self, read: &[Input], inputs: &[Input]) {
        let forms = read.iter().zip(inputs).filter(|(read, input)| read.id != input.id);
        self.graph.ended_claims.extend(forms.map(|(read, _)| read.id));
        self.graph.settle_claims(&mut self.memory);
    }
}
