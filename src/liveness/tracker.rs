//! Follows the stream of ops, and tells from the iteration before what comes.
//!
//! Each op is hashed with its template (no scalars, no seeds), its views, and how long ago its operands were touched,
//! if that is less than 16 ops. The tracker follows the place in the past where the last eight ops were the same. What
//! happened to an operand's storage after that place, its next touch or its drop, is what it tells of this one. Nothing
//! else is learned, so an op costs a few array accesses, and a departure costs nothing but knowledge.

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
pub struct Operand {
    /// Where its storage was touched last.
    pub touch: Touch,
    /// When it will be next.
    pub next: NextUse,
}

/// When a storage will be touched next, by what happened one iteration ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextUse {
    /// Nothing is known.
    #[default]
    Unknown,
    /// By the op of this number.
    At(u64),
    /// Not before it is dropped.
    Never,
}

/// Ops back to which operands are told apart by how long ago they were touched. What lies further back, such as weights, is
/// touched at other distances after an evaluation or a longer epoch, in an iteration that is the same otherwise.
const NEAR: u64 = 16;
/// The longest iteration that is recognised, in ops.
pub const MOST_PERIOD: usize = 1 << 18;
/// Ops that are remembered once the period is known, though it be short: enough for what comes between, such as an
/// evaluation.
const LEAST_KEPT: usize = 1 << 15;

/// Where one op of so many touches what was touched before all that is taken to be the iteration, it is none, but one layer of
/// several that are alike, each with weights of its own. Fewer are none the less: of batches that take turns, say.
const FAMILIAR: u64 = 8;
/// Ops that are followed before that is judged.
const LEAST_JUDGED: u64 = 16;

/// Finds out where in its iteration a program is, and tells from the iteration before what comes.
#[derive(Debug, Default)]
pub struct Tracker {
    history: History,
    /// The op of the past that is like the last one, and how many before it were alike without a gap.
    like: Option<(u64, u64)>,
    /// How long ago that was when the stream was last followed.
    period: u64,
    /// Of the ops that were alike, those that touched something that had not been touched for longer than that.
    strange: u64,
}

impl Tracker {
    /// An op. Its operands, inputs first, come with their last touch, outputs with none; they leave with this one, and with
    /// what is known of the next. Returns what the op is like where it is: equal for ops of equal signature whose operands
    /// were touched as long ago, if that is not long.
    pub fn op(&mut self, op: Observed, operands: &mut [Operand]) -> u64 {
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
        let kept = self.period().map_or(2 * MOST_PERIOD, |period| (4 * period as usize).max(LEAST_KEPT));
        if self.history.len() > 2 * kept {
            self.history.forget(kept);
        }
        signature
    }

    /// The last handle of a storage that was touched here is gone.
    pub fn dropped(&mut self, touch: Touch) {
        if let Some(slot) = touch.op.checked_sub(1).and_then(|op| self.history.slot(op, touch.operand.into()))
        {
            *slot = NEVER;
        }
    }

    /// Whether the stream is followed: what comes is known as far as it was so one iteration ago.
    pub fn follows(&self) -> bool {
        self.like.is_some()
    }

    /// Ops of an iteration, once a whole one has come twice.
    pub fn period(&self) -> Option<u64> {
        let (then, alike) = self.like?;
        let period = self.history.next_op() - 1 - then;
        (alike >= period && !self.is_strange()).then_some(period)
    }

    /// Where a whole iteration has not come twice yet: after how many ops they seem to repeat, and how many of the last were alike.
    pub fn likeness(&self) -> Option<(u64, u64)> {
        let (then, alike) = self.like?;
        let period = self.history.next_op() - 1 - then;
        (alike < period && !self.is_strange()).then_some((period, alike))
    }

    /// Whether the program holds as many bytes as it did where it was last like this.
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

    /// By how much what the program holds, and the workspace of its ops, will grow, at the most, up to op `until`, if that is
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

    /// How many ops ago a storage was touched, one if by the last, and by which operand.
    pub fn ago(&self, touch: Touch) -> Option<(u64, usize)> {
        (touch.op > 0).then(|| (self.now() + 1 - touch.op, touch.operand.into()))
    }

    fn touched_again(&mut self, touch: Touch, now: u64) {
        let Some(before) = touch.op.checked_sub(1) else { return };
        if let Some(slot) = self.history.slot(before, touch.operand.into()) {
            *slot = u32::try_from(now - touch.op).unwrap_or(NEVER - 1).min(NEVER - 1);
        }
    }

    /// Goes one op further in the past, or looks for another place there.
    fn follow(&mut self, signature: u64) {
        let last = self.history.next_op() - 1;
        let recognised = self.history.recognised();
        let next = self.like.map(|(then, alike)| (then + 1, alike + 1));
        self.like = next.filter(|&(then, _)| self.history.signature(then) == Some(signature) && then < last);
        if let Some((then, _)) = self.like {
            self.period = last - then;
            return;
        }
        // Most often it is the same iteration still, and one op was another.
        let same = last.checked_sub(self.period).filter(|&then| then < last && self.history.ends_alike(then));
        self.like = same.or(recognised).map(|then| (then, 0));
    }

    /// Looks whether what the last op touched was touched within the iteration, if it is one; else its last touch, by the op
    /// `oldest`, may be the iteration before.
    fn judge(&mut self, oldest: u64) {
        let last = self.history.next_op() - 1;
        let Some((then, alike)) = self.like else { return };
        self.strange = if alike == 0 { 0 } else { self.strange } + u64::from(oldest < then);
        if oldest < then && alike >= LEAST_JUDGED && self.is_strange() && self.history.ends_alike(oldest) {
            (self.like, self.period, self.strange) = (Some((oldest, 0)), last - oldest, 0);
        }
    }

    fn is_strange(&self) -> bool {
        self.like.is_some_and(|(_, alike)| FAMILIAR * self.strange > alike)
    }

    /// When an operand of the last op, `now`, is touched next, if it fares as that of op `then` (from zero) did.
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
