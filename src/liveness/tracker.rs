//! Follows the stream of ops, and predicts what comes from the iteration before.
//!
//! Each op is hashed with its template (no scalars, no seeds), its views, and how long ago its operands were touched,
//! if that is less than 16 ops. The tracker follows the place in the past where the last eight ops were the same. It
//! predicts for an operand's storage what happened after that place: the next touch, or the drop. It learns nothing
//! else, so an op costs a few array accesses, and after a departure from the pattern only predictions are missing.

use super::history::{History, NEVER, Observed, UNKNOWN};

/// Where a storage was touched last: an op, and which of its operands it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// The op's number, from one; zero if no op has touched it.
    op: u64,
    operand: u16,
}

/// One of an op's operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackedOperand {
    /// The last touch of its storage.
    pub touch: Touch,
    /// When its storage will be touched next.
    pub next: NextUse,
}

/// When a storage will be touched next, as predicted from the iteration before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextUse {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The op with this number touches it.
    At(u64),
    /// It is dropped before it is touched again.
    Never,
}

/// Operands that were touched less than this many ops ago are told apart by that distance. Storages that were touched
/// earlier, such as weights, have other distances after an evaluation or a longer epoch, even if the iteration is the
/// same otherwise.
const NEAR: u64 = 16;
/// The longest iteration that is recognised, in ops.
pub const MAX_PERIOD: usize = 1 << 18;
/// The fewest ops that are remembered once the period is known, enough to remember an iteration across an evaluation.
const MIN_KEPT: usize = 1 << 15;

/// A repetition is no iteration if at least one in this many of its ops touches a storage that was last touched
/// before the repetition began. It is then one of several layers that are alike, each with weights of its own. Fewer
/// such ops are allowed: batches may take turns, for example.
const FAMILIAR: u64 = 8;
/// The fewest ops that are followed before this is judged.
const MIN_JUDGED: u64 = 16;

/// Finds where in its iteration a program is, and predicts what comes from the iteration before.
#[derive(Debug, Default)]
pub struct Tracker {
    history: History,
    /// The op of the past that corresponds to the last op, and how many ops before it corresponded without a break.
    like: Option<(u64, u64)>,
    /// The distance to that op when the stream was last followed.
    period: u64,
    /// How many of the corresponding ops touched a storage that had not been touched for longer than that distance.
    strange: u64,
}

impl Tracker {
    /// Takes note of an op. Of its operands, inputs come first and carry their last touch, outputs carry none. The
    /// call sets this touch and the prediction of the next. It returns a signature of the op in its context: equal
    /// for ops of equal signature whose operands were touched equally long ago, where that is less than 16 ops.
    pub fn op(&mut self, op: Observed, operands: &mut [TrackedOperand]) -> u64 {
        let now = self.history.next_op() + 1;
        let mut signature = op.signature.0;
        let mut oldest = now;
        for operand in &*operands {
            self.touched_again(operand.touch, now);
            let near = if operand.touch.op == 0 { NEAR } else { (now - operand.touch.op).min(NEAR) };
            oldest = if operand.touch.op == 0 { oldest } else { oldest.min(operand.touch.op) };
            signature = mix(signature ^ near);
        }
        self.history.push(signature, operands.len(), op);
        self.follow(signature);
        self.judge(oldest - 1);
        for (place, operand) in operands.iter_mut().enumerate() {
            operand.touch = Touch { op: now, operand: place as u16 };
            operand.next = self.like.map_or(NextUse::Unknown, |(then, _)| self.next_after(then, place, now));
        }
        let kept = self.period().map_or(2 * MAX_PERIOD, |period| (4 * period as usize).max(MIN_KEPT));
        if self.history.len() > 2 * kept {
            self.history.forget(kept);
        }
        signature
    }

    /// Takes note that the last handle of a storage with this last touch is gone.
    pub fn dropped(&mut self, touch: Touch) {
        if let Some(slot) = touch.op.checked_sub(1).and_then(|op| self.history.slot(op, touch.operand.into()))
        {
            *slot = NEVER;
        }
    }

    /// Whether the stream corresponds to a place in the past, so that predictions can be made.
    pub fn follows(&self) -> bool {
        self.like.is_some()
    }

    /// Number of ops of an iteration, once a whole one has come twice.
    pub fn period(&self) -> Option<u64> {
        let (then, alike) = self.like?;
        let period = self.history.next_op() - 1 - then;
        (alike >= period && !self.is_strange()).then_some(period)
    }

    /// As long as no whole iteration has come twice: the number of ops after which they seem to repeat, and how many
    /// of the last ops did.
    pub fn likeness(&self) -> Option<(u64, u64)> {
        let (then, alike) = self.like?;
        let period = self.history.next_op() - 1 - then;
        (alike < period && !self.is_strange()).then_some((period, alike))
    }

    /// Whether the program holds as many bytes as it did at the corresponding op of the past.
    pub fn holds_as_much(&self) -> bool {
        let live = |op| self.history.live_bytes(op);
        self.like.is_some_and(|(then, _)| live(then) == live(self.history.next_op() - 1))
    }

    /// How many ops it remembers.
    pub fn remembered(&self) -> usize {
        self.history.len()
    }

    /// The number of the last op, from one.
    pub fn now(&self) -> u64 {
        self.history.next_op()
    }

    /// By how many bytes the program's need, workspace included, will grow at most up to op `until`, if that is
    /// known.
    pub fn growth_bytes(&self, until: u64) -> Option<usize> {
        let (then, _) = self.like?;
        self.history.growth_bytes(then, until.checked_sub(self.now())?)
    }

    /// Predicted time of the ops before op `until`, if they are known.
    pub fn time_until_ns(&self, until: u64) -> Option<u64> {
        let (then, _) = self.like?;
        self.history.time_ns(then, until.checked_sub(self.now() + 1)?)
    }

    /// How many ops ago a storage was touched (one if by the last op), and as which operand.
    pub fn ago(&self, touch: Touch) -> Option<(u64, usize)> {
        (touch.op > 0).then(|| (self.now() + 1 - touch.op, touch.operand.into()))
    }

    fn touched_again(&mut self, touch: Touch, now: u64) {
        let Some(before) = touch.op.checked_sub(1) else { return };
        if let Some(slot) = self.history.slot(before, touch.operand.into()) {
            *slot = u32::try_from(now - touch.op).unwrap_or(NEVER - 1).min(NEVER - 1);
        }
    }

    /// Moves on by one op in the past, or looks for another place there.
    fn follow(&mut self, signature: u64) {
        let last = self.history.next_op() - 1;
        let recognised = self.history.recognised();
        let next = self.like.map(|(then, alike)| (then + 1, alike + 1));
        self.like = next.filter(|&(then, _)| self.history.signature(then) == Some(signature) && then < last);
        if let Some((then, _)) = self.like {
            self.period = last - then;
            return;
        }
        // Usually the iteration is still the same, and a single op differed.
        let same = last.checked_sub(self.period).filter(|&then| then < last && self.history.ends_alike(then));
        self.like = same.or(recognised).map(|then| (then, 0));
    }

    /// Checks whether the storages of the last op were touched within the assumed iteration. If they were not, the
    /// op `oldest`, which touched one of them last, may be the corresponding op of the true iteration before.
    fn judge(&mut self, oldest: u64) {
        let last = self.history.next_op() - 1;
        let Some((then, alike)) = self.like else { return };
        self.strange = if alike == 0 { 0 } else { self.strange } + u64::from(oldest < then);
        if oldest < then && alike >= MIN_JUDGED && self.is_strange() && self.history.ends_alike(oldest) {
            (self.like, self.period, self.strange) = (Some((oldest, 0)), last - oldest, 0);
        }
    }

    fn is_strange(&self) -> bool {
        self.like.is_some_and(|(_, alike)| FAMILIAR * self.strange > alike)
    }

    /// When an operand of the last op, `now`, is touched next if that takes as long as it did for op `then` (numbered
    /// from zero).
    fn next_after(&mut self, then: u64, operand: usize, now: u64) -> NextUse {
        match self.history.slot(then, operand) {
            Some(&mut NEVER) => NextUse::Never,
            Some(&mut UNKNOWN) | None => NextUse::Unknown,
            Some(&mut ops) => NextUse::At(now + u64::from(ops)),
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
