//! The most recent ops of the stream: what each was like, and when its operands were touched again.

use hashbrown::HashMap;

use super::Signature;

/// Number of consecutive ops by which a place in the stream is recognised.
const GRAM: usize = 8;
/// Multiplier of the rolling hash: odd, so that it has an inverse.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Content of an operand's slot: the storage was neither touched again nor dropped so far. Other values count the ops
/// until it was touched.
pub const UNKNOWN: u32 = 0;
/// Content of an operand's slot: the storage was dropped before it was touched again.
pub const NEVER: u32 = u32::MAX;

/// What the tracker is told of an op.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Equal for ops that are alike.
    pub signature: Signature,
    /// Bytes that the program holds after the op.
    pub live_bytes: usize,
    /// Bytes of its workspace.
    pub scratch_bytes: usize,
    /// Its predicted time.
    pub launch_ns: u64,
}

/// Ops in order. Each has a signature, and a slot for each operand.
#[derive(Debug, Default)]
pub struct History {
    ops: Vec<Recorded>,
    slots: Vec<u32>,
    /// The number of the first op in `ops`.
    first: u64,
    /// Number of slots that were removed from the front.
    first_slot: u64,
    /// Hash of the last [`GRAM`] ops.
    rolling: u64,
    /// By that hash, the last op at which it had this value.
    places: HashMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    signature: u64,
    slots_begin: u64,
    /// Bytes that the program held after the op, and those bytes with the op's workspace.
    live_bytes: usize,
    most_bytes: usize,
    /// Predicted time of all ops up to and including it.
    end_ns: u64,
}

impl History {
    /// The number that the next op will have.
    pub fn next_op(&self) -> u64 {
        self.first + self.ops.len() as u64
    }

    /// How many ops are remembered.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Appends an op with this many operands.
    pub fn push(&mut self, signature: u64, operands: usize, op: Observed) {
        let slots_begin = self.first_slot + self.slots.len() as u64;
        let end_ns = self.ops.last().map_or(0, |op| op.end_ns) + op.launch_ns;
        let (live_bytes, most_bytes) = (op.live_bytes, op.live_bytes + op.scratch_bytes);
        self.ops.push(Recorded { signature, slots_begin, live_bytes, most_bytes, end_ns });
        self.slots.resize(self.slots.len() + operands, UNKNOWN);
        let left = self.ops.len().checked_sub(GRAM + 1).map_or(0, |index| self.ops[index].signature);
        let power = (0..GRAM).fold(1u64, |power, _| power.wrapping_mul(FACTOR));
        self.rolling =
            self.rolling.wrapping_mul(FACTOR).wrapping_add(signature).wrapping_sub(left.wrapping_mul(power));
    }

    /// The signature of an op, if it is remembered.
    pub fn signature(&self, op: u64) -> Option<u64> {
        Some(self.ops.get(op.checked_sub(self.first)? as usize)?.signature)
    }

    /// Bytes that the program held after an op, if the op is remembered.
    pub fn live_bytes(&self, op: u64) -> Option<usize> {
        Some(self.ops.get(op.checked_sub(self.first)? as usize)?.live_bytes)
    }

    /// By how many bytes the program's need grew at most, within this many ops after an op.
    pub fn growth_bytes(&self, op: u64, ops: u64) -> Option<usize> {
        let begin = op.checked_sub(self.first)? as usize;
        let live = self.ops.get(begin)?.live_bytes;
        let after = self.ops.get(begin + 1..(begin + 1 + ops as usize).min(self.ops.len()))?;
        Some(after.iter().map(|op| op.most_bytes).max().unwrap_or(0).saturating_sub(live))
    }

    /// Predicted time of the `ops` ops after an op.
    pub fn time_ns(&self, op: u64, ops: u64) -> Option<u64> {
        let begin = op.checked_sub(self.first)? as usize;
        Some(self.ops.get(begin + ops as usize)?.end_ns - self.ops[begin].end_ns)
    }

    /// The previous op at which the last [`GRAM`] ops were the same as now. The last op is then remembered for that
    /// hash.
    pub fn recognised(&mut self) -> Option<u64> {
        if self.ops.len() < GRAM {
            return None;
        }
        let last = self.next_op() - 1;
        let place = self.places.insert(self.rolling, last)?;
        self.ends_alike(place).then_some(place)
    }

    /// Whether the [`GRAM`] ops up to `place` are the last ones.
    pub fn ends_alike(&self, place: u64) -> bool {
        let last = self.next_op() - 1;
        (0..GRAM as u64).all(|back| {
            let then = place.checked_sub(back).and_then(|op| self.signature(op));
            then.is_some() && then == self.signature(last - back)
        })
    }

    /// An operand's slot, if its op is remembered.
    pub fn slot(&mut self, op: u64, operand: usize) -> Option<&mut u32> {
        let index = op.checked_sub(self.first)? as usize;
        let begin = (self.ops.get(index)?.slots_begin - self.first_slot) as usize;
        self.slots.get_mut(begin + operand)
    }

    /// Forgets all but the last `kept` ops.
    pub fn forget(&mut self, kept: usize) {
        let forgotten = self.ops.len().saturating_sub(kept);
        let slots =
            self.ops.get(forgotten).map_or(self.slots.len() as u64 + self.first_slot, |op| op.slots_begin);
        self.slots.drain(..(slots - self.first_slot) as usize);
        self.ops.drain(..forgotten);
        (self.first, self.first_slot) = (self.first + forgotten as u64, slots);
        let first = self.first;
        self.places.retain(|_, place| *place >= first);
    }
}
