//! The first ops of a stream, by which a program is recognized that ran before.

/// The number of ops that tell a program from others. Making the weights of a network takes about as many.
const FIRST_OPS: usize = 64;

/// Equal for streams whose first ops are alike, in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BeginningId(pub u64);

/// The first ops of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beginning {
    ops: usize,
    hash: u64,
    is_taken: bool,
}

impl Beginning {
    /// Notes an op.
    pub fn push(&mut self, signature: u64) {
        if self.ops < FIRST_OPS {
            self.ops += 1;
            // The multiplier is the one of the 64-bit FNV hash.
            self.hash = (self.hash ^ signature).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    /// The beginning, once it is complete.
    pub fn id(&self) -> Option<BeginningId> {
        (self.ops == FIRST_OPS).then_some(BeginningId(self.hash))
    }

    /// The beginning, once.
    pub fn take(&mut self) -> Option<BeginningId> {
        self.id().filter(|_| !std::mem::replace(&mut self.is_taken, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beginning(signatures: impl IntoIterator<Item = u64>) -> Beginning {
        let mut beginning = Beginning::default();
        signatures.into_iter().for_each(|signature| beginning.push(signature));
        beginning
    }

    #[test]
    fn a_beginning_is_known_once_it_is_complete_and_ends_there() {
        let ops = FIRST_OPS as u64;
        assert_eq!(beginning(1..ops).id(), None);
        let id = beginning(1..=ops).id();
        assert!(id.is_some());
        assert_eq!(beginning(1..2 * ops).id(), id);
        assert_ne!(beginning(2..2 * ops).id(), id);
        let swapped = beginning([2, 1].into_iter().chain(3..=ops));
        assert_ne!(swapped.id(), id);
        let mut taken = beginning(1..=ops);
        assert_eq!([taken.take(), taken.take()], [id, None]);
    }
}
