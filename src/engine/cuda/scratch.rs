//! An op's workspace, handed out from its start.

use super::driver::Called;
use crate::engine::call::Operand;
use crate::engine::{Span, aligned};
use crate::op::View;

/// Copies what the first operand shows to where the second lies, row by row, in the stream of the call.
pub(super) type Copier<'a> = dyn Fn(Operand, Operand) -> Called<()> + 'a;

/// What is left of a call's workspace.
#[derive(Debug)]
pub(super) struct Scratch(Span);

impl Scratch {
    pub fn new(span: Span) -> Self {
        Scratch(span)
    }

    /// The next `bytes` of it.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn take(&mut self, bytes: usize) -> Called<Span> {
        let span = self.0;
        if bytes > span.bytes {
            return Err(format!("{bytes} bytes of workspace are needed, {} are there", span.bytes));
        }
        let taken = if bytes == 0 { 0 } else { aligned(bytes).min(span.bytes) };
        self.0 = span.slice(taken, span.bytes - taken);
        Ok(Span { bytes, ..span })
    }

    /// All that is left.
    pub fn rest(self) -> Span {
        self.0
    }

    /// The address of an operand's first element: where it lies, or, if `copied`, in a copy of that view of it.
    pub fn place(&mut self, operand: &Operand, copied: Option<View>, copy: &Copier) -> Called<u64> {
        let Some(view) = copied else { return Ok(operand.placed().first()) };
        let span = self.take(view.size_bytes())?;
        let made = View::contiguous(view.dtype, *view.shape());
        copy(Operand { view, ..*operand }, Operand { span, view: made })?;
        Ok(span.address)
    }
}

/// Workspace that such copies take.
pub(super) fn copies_bytes(copies: &[Option<View>]) -> usize {
    copies.iter().flatten().map(|view| aligned(view.size_bytes())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ALIGN_BYTES, Tier};

    #[test]
    fn parts_are_aligned_apart_and_bounded() {
        let mut scratch = Scratch::new(Span { tier: Tier::Device, address: 4096, bytes: 1000 });
        let (a, b) = (scratch.take(10).unwrap(), scratch.take(0).unwrap());
        assert_eq!((a.address, a.bytes, b.address, b.bytes), (4096, 10, 4096 + ALIGN_BYTES as u64, 0));
        assert_eq!(scratch.take(600).unwrap().address, b.address);
        let error = scratch.take(600).unwrap_err();
        assert!(error.contains("600 bytes") && error.contains("are there"), "{error}");
    }
}
