//! An engine for tests under AddressSanitizer: each operand of a launch gets memory of its own, so that every access
//! beyond an operand is detected.

use std::collections::HashMap;
use std::sync::Arc;

use super::around::Around;
use super::{Engine, EngineError, Lane, Launch, Span, Tier};
use crate::op::View;

/// Wraps an engine and launches on copies of the operands. Each copy is as large as its view reaches.
#[derive(Debug)]
pub struct Apart(Arc<dyn Engine>);

impl Apart {
    /// Wraps `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Apart(engine)
    }

    /// A copy of the first bytes of a span.
    ///
    /// # Safety
    /// As for [`Engine::copy`].
    unsafe fn copied(&self, lane: Lane, span: Span, bytes: usize) -> Result<Span, EngineError> {
        let copy = self.0.map(Tier::Device, bytes)?;
        // SAFETY: the caller's; the copy is new, and as large.
        unsafe { self.0.copy(lane, span.slice(0, bytes), copy) }?;
        Ok(copy)
    }
}

/// The bytes of a storage up to the end of a view, at least one.
fn reach_bytes(view: &View) -> usize {
    let (layout, shape) = (&view.layout, view.shape());
    let steps = shape.dims().iter().zip(layout.strides());
    let last: isize = steps.map(|(&size, &stride)| (size.max(1) as isize - 1) * stride.max(0)).sum();
    ((layout.offset() as isize + last + 1) as usize * view.dtype.size_bytes()).max(1)
}

impl Around for Apart {
    fn engine(&self) -> &dyn Engine {
        &*self.0
    }

    unsafe fn around_launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        let instruction = &launch.instruction;
        let inputs = launch.inputs.iter().zip(&instruction.views);
        let operands = || inputs.clone().chain(launch.outputs.iter().zip(&instruction.outputs));
        // Two operands may be views of one storage.
        let mut sizes = HashMap::<u64, (Span, usize)>::new();
        for (&span, view) in operands() {
            let size = sizes.entry(span.address).or_insert((span, 0));
            size.1 = size.1.max(reach_bytes(view).min(span.bytes));
        }
        let mut copies = HashMap::<u64, Span>::new();
        for (&address, &(span, bytes)) in &sizes {
            // SAFETY: operands of the launch.
            copies.insert(address, unsafe { self.copied(lane, span, bytes) }?);
        }
        let scratch = self.0.map(Tier::Device, instruction.scratch_bytes.max(1))?;
        let own = |span: &Span| copies[&span.address];
        let apart = Launch {
            instruction: instruction.clone(),
            inputs: launch.inputs.iter().map(own).collect(),
            outputs: launch.outputs.iter().map(own).collect(),
            scratch,
        };
        // SAFETY: as the caller's, on copies, which are as large as the views need.
        unsafe { self.0.launch(lane, &apart) }?;
        for span in &launch.outputs {
            let (copy, bytes) = (own(span), sizes[&span.address].1);
            // SAFETY: an operand of the launch, and its copy.
            unsafe { self.0.copy(lane, copy, span.slice(0, bytes)) }?;
        }
        self.0.sync(self.0.mark(lane))?;
        copies.into_values().chain([scratch]).for_each(|span| self.0.unmap(span));
        Ok(())
    }
}
