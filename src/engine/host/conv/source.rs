//! Images as weights' gradients read them: as they lie, or encoded, of which a few channels of one image are decoded at a time.

use std::ops::Range;

use super::super::columns::Real;
use super::super::kernels;
use super::problem::{Image, Problem};
use super::workspace::aligned;
use crate::op::{Dtype, Encoding, Op, lower};

/// How images were encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    encoding: Encoding,
    dtype: Dtype,
}

impl Coding {
    /// By what an op decodes.
    pub fn of(decode: &Op) -> Option<Self> {
        let Op::Decode { encoding, dtype, .. } = *decode else { return None };
        Some(Coding { encoding, dtype })
    }

    /// Elements that some neighbours take decoded.
    pub fn room(&self, count: usize) -> usize {
        aligned(lower::decoded_count(self.encoding, count))
    }
}

/// Images in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<T> {
    /// As they are.
    Plain(Image<T>),
    /// A row-major batch of them, encoded; addresses of the form and of its overflow.
    Encoded { coding: Coding, form: u64, overflow: u64 },
}

/// Channels of one image: from the first of a group on, those in the range.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    pub image: usize,
    pub first: usize,
    pub range: Range<usize>,
}

impl Channels {
    /// Which of all elements they are.
    fn elements(&self, problem: &Problem) -> Range<usize> {
        let before = self.image * problem.groups * problem.channels + self.first;
        let at = |channel: usize| (before + channel) * problem.image_pixels();
        at(self.range.start)..at(self.range.end)
    }
}

impl<T: Real> Source<T> {
    /// Makes channels readable, in `to` if they are encoded.
    ///
    /// # Safety
    /// The form and its overflow are readable; `to` has [`room`](Coding::room) for so many elements.
    pub unsafe fn decode(&self, problem: &Problem, channels: &Channels, to: *mut T) {
        let Source::Encoded { coding: Coding { encoding, dtype }, form, overflow } = *self else { return };
        let count = problem.images * problem.groups * problem.channels * problem.image_pixels();
        let some = channels.elements(problem);
        let calls = lower::decode_some(encoding, dtype, count, &some, [to as u64, form, overflow]);
        // SAFETY: the kernel reads the form and writes so many elements.
        calls.iter().for_each(|call| unsafe { kernels::run_alone(call) });
    }

    /// The image from the group's first channel on, of which those given can be read; decoded at `at`, if they are encoded.
    pub fn image(&self, problem: &Problem, channels: &Channels, at: *mut T) -> Image<T> {
        match *self {
            Source::Plain(image) => image.at(channels.image, channels.first),
            Source::Encoded { coding, .. } => {
                let skipped = lower::decoded_at(coding.encoding, channels.elements(problem).start);
                let left_out = channels.range.start * problem.image_pixels();
                let start = at.wrapping_add(skipped).wrapping_sub(left_out);
                Image::contiguous(start, problem.groups * problem.channels, problem.size)
            }
        }
    }
}
