//! Running an op on the encoded form of an input.

use std::sync::Arc;

use crate::engine::Instruction;
use crate::error::Error;
use crate::op::{Dtype, Encoding, Inputs, Shape, View};
use crate::pool::Pool;
use crate::pool::input::Input;

/// An op, and what it reads.
pub(in crate::pool) type OnEncoded = (Arc<Instruction>, Inputs<Input>);

/// Words in a row.
fn words(encoding: Encoding, count: usize) -> View {
    View::contiguous(Dtype::U32, Shape::new(&[encoding.words(count)]))
}

impl Pool {
    /// The op that does the same with the encoded form of an input that is not stored otherwise, where there is one; the form
    /// counts as in use until [`used_form`](Pool::used_form).
    pub(in crate::pool) fn on_encoded(
        &mut self,
        asked: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<Option<OnEncoded>, Error> {
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
            Some((at, form, encoding, asked.op.on_encoded(at, &encoding, &whole)?))
        });
        let Some((at, form, encoding, op)) = found else { return Ok(None) };
        let mut read: Inputs<Input> = inputs.into();
        let values = inputs[at].view;
        let (dtype, count) = (values.dtype, values.shape().count());
        read[at] = Input { id: form, view: words(encoding, count), consumed: false };
        // As large as without: what is refused does not depend on what is encoded.
        if self.least_bytes(asked, inputs) > self.memory.device.limit_bytes() {
            return Ok(None);
        }
        let mut all = read.clone();
        // What lies beside a form is read too, but is no storage.
        all.extend(encoding.beside(dtype, count).map(|view| Input { view, ..read[at] }));
        let instruction = self.submitter.instruction(self.settings.exactness, &op, &all)?;
        // Where all is decoded into workspace nothing is gained.
        if instruction.scratch_bytes >= asked.scratch_bytes + values.size_bytes() {
            return Ok(None);
        }
        self.graph.storages[form].uses.claims += 1;
        Ok(Some((instruction, read)))
    }

    /// An op has run on an encoded form, or could not.
    pub(in crate::pool) fn used_form(&mut self, read: &[Input], inputs: &[Input]) {
        let forms = read.iter().zip(inputs).filter(|(read, input)| read.id != input.id);
        self.graph.ended_claims.extend(forms.map(|(read, _)| read.id));
        self.graph.settle_claims(&mut self.memory);
    }
}
