//! Words in pinned memory where kernels leave an index that was out of range, one for each launch that can.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;

use super::driver::{Called, Context};
use super::memory::Slab;
use crate::engine::{Instruction, Tier};
use crate::op::lower::NO_FAULT;

/// Launches that may be on their way with a word each: twice as many as a program runs ahead.
const WORDS: usize = 8192;

/// The words, and the launches that have them.
#[derive(Debug)]
pub(super) struct Faults {
    words: Slab,
    next: usize,
    /// By the number of their piece.
    launches: VecDeque<(u64, usize, Arc<Instruction>)>,
}

impl Faults {
    pub fn new(context: &Arc<Context>) -> Called<Self> {
        let words = Slab::new(context, Tier::Host, WORDS * size_of::<i64>())?;
        let faults = Faults { words, next: 0, launches: VecDeque::new() };
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

    /// Where no word is left, the piece up to which to look: one that was launched so long ago that it is done.
    pub fn full_until(&self) -> Option<u64> {
        (self.launches.len() == WORDS).then(|| self.launches[WORDS / 2].0)
    }

    /// The launch that got [`word`](Faults::word) is the lane's piece `sequence`.
    pub fn launched(&mut self, sequence: u64, instruction: Arc<Instruction>) {
        self.launches.push_back((sequence, self.next, instruction));
        self.next = (self.next + 1) % WORDS;
    }

    /// The faults of launches up to `completed`, which are done, first of them first.
    pub fn take(&mut self, completed: u64) -> Vec<(Arc<Instruction>, i64)> {
        let mut found = Vec::new();
        while self.launches.front().is_some_and(|(sequence, ..)| *sequence <= completed) {
            let Some((_, word, instruction)) = self.launches.pop_front() else { break };
            // SAFETY: the word is mapped, and the launch that writes it is done.
            let fault = unsafe { self.at(word).read_volatile() };
            if fault != NO_FAULT {
                self.set(word);
                found.push((instruction, fault));
            }
        }
        found
    }

    fn set(&self, word: usize) {
        // SAFETY: the word is mapped, and no launch that is to write it has begun.
        unsafe { self.at(word).write_volatile(NO_FAULT) };
    }
}
