//! Ops that a library was to compute and did not.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::lanes::lock;
use crate::engine::Fallback;

/// How many there were, by op and reason.
#[derive(Debug, Default)]
pub(super) struct Fallbacks(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl Fallbacks {
    pub fn note(&self, op: &'static str, reason: &'static str) {
        *lock(&self.0).entry((op, reason)).or_default() += 1;
    }

    pub fn all(&self) -> Vec<Fallback> {
        let fallback =
            |(&(op, reason), &count): (&(&'static str, &'static str), &u64)| Fallback { op, reason, count };
        lock(&self.0).iter().map(fallback).collect()
    }
}
