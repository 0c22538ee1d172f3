//! Words in pinned memory where kernels leave an index that was out of range, one for each launch under way that can.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;

use super::driver::{Called, Context};
use super::memory::Slab;
use crate::engine::call::out_of_range;
use crate::engine::{Failure, Instruction, Mark, Tier};
use crate::op::lower::NO_FAULT;

/// Launches that may be on their way with a word each: twice as many as a program runs ahead.
const WORDS: usize = 8192;

/// The words, and the launches that have them.
#[derive(Debug)]
pub(super) struct Faults {
    words: Slab,
    next: usize,
    launches: VecDeque<(Mark, usize, Arc<Instruction>)>,
    /// What was found and not yet asked for.
    found: Vec<Failure>,
}

impl Faults {
    pub fn new(context: &Arc<Context>) -> Called<Self> {
        let words =
            Slab::new(context, Tier::Host, WORDS * size_of::<i64>()).map_err(|error| error.to_string())?;
        let faults = Faults { words, next: 0, launches: VecDeque::new(), found: Vec::new() };
        (0..WORDS).for_each(|word| faults.set(word));
        Ok(faults)
    }

    /// Where the word is, for host and device.
    fn address(&self, word: usize) -> u64 {
        self.words.span().address + (word * size_of::<i64>()) as u64
    }

    fn at(&self, word: usize) -> *mut i64 {
        ptr::with_exposed_provenance_mut(self.address(word) as usize)
    }

    /// The word of the next launch. None has had it since it was last looked at, or it is [full](Faults::full_until).
    pub fn word(&self) -> u64 {
        self.address(self.next)
    }

    /// Where no word is left, the launch up to which to look: one of so long ago that it is done.
    pub fn full_until(&self) -> Option<Mark> {
        (self.launches.len() == WORDS).then(|| self.launches[WORDS / 2].0)
    }

    /// The launch that got [`word`](Faults::word) ends at `mark`.
    pub fn launched(&mut self, mark: Mark, instruction: Arc<Instruction>) {
        self.launches.push_back((mark, self.next, instruction));
        self.next = (self.next + 1) % WORDS;
    }

    /// Looks at the words of launches that are done.
    pub fn look(&mut self, reached: impl Fn(Mark) -> bool) {
        while self.launches.front().is_some_and(|(mark, ..)| reached(*mark)) {
            let Some((mark, word, instruction)) = self.launches.pop_front() else { break };
            // SAFETY: the word is mapped, and the launch that writes it is done.
            let fault = unsafe { self.at(word).read_volatile() };
            if fault != NO_FAULT {
                self.set(word);
                let error = out_of_range(&instruction.op, &instruction.views, fault);
                self.found.push(Failure { mark, error });
            }
        }
    }

    /// The launches that were found to have failed since this was last asked.
    pub fn found(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.found)
    }

    fn set(&self, word: usize) {
        // SAFETY: the word is mapped, and no launch that is to write it has begun.
        unsafe { self.at(word).write_volatile(NO_FAULT) };
    }
}
