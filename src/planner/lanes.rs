//! The times of copies. A lane makes one copy after the other, in the order of submission. So a reservation that delays other
//! copies is refused if the storage of one of them would not be away any more.

use super::iteration::Slot;
use crate::schedule::IntervalId;

/// Both lanes, in an iteration that repeats. Copies out are made in the order in which they can begin, and copies back in the
/// order in which they must have ended.
#[derive(Clone, Debug, Default)]
pub struct CopyLanes {
    period_ns: u64,
    pub copies: Vec<PlannedCopy>,
    /// Indices into `copies`.
    out: Vec<usize>,
    back: Vec<usize>,
    busy_ns: u64,
}

/// A copy out and back again. Times beyond the period are in the next iteration.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlannedCopy {
    pub interval: IntervalId,
    pub slot: Slot,
    pub bytes: i64,
    /// The times of the copies out and back.
    pub offload_ns: u64,
    pub fetch_ns: u64,
    /// When the copy out can begin.
    pub ready_ns: u64,
    /// When the storage can be away.
    pub from_ns: u64,
    pub until_ns: u64,
    /// The storage was away before in the same iteration, so that the host still has its bytes.
    pub is_clean: bool,
    /// When the copy out ends.
    pub out_ns: u64,
    /// When the copy back begins.
    pub back_ns: u64,
}

impl PlannedCopy {
    /// When the copy out ends, and when the copy back begins.
    pub fn times_ns(&self) -> [u64; 2] {
        [self.out_ns, self.back_ns]
    }

    /// The time of the slower copy.
    fn slower_ns(&self) -> u64 {
        self.offload_ns.max(self.fetch_ns)
    }
}

impl CopyLanes {
    /// Lanes without copies.
    pub fn new(period_ns: u64) -> Self {
        CopyLanes { period_ns, ..CopyLanes::default() }
    }

    /// Adds a copy, if all storages are then away for some time and `is_worth_it` holds for this one. After a refusal, the
    /// other copies keep the times that they would have had until the next [`run`](CopyLanes::run).
    pub fn add(&mut self, copy: PlannedCopy, is_worth_it: impl Fn(&PlannedCopy) -> bool) -> bool {
        let slower_ns = copy.slower_ns();
        if slower_ns > copy.until_ns - copy.from_ns || self.busy_ns + slower_ns > self.period_ns {
            return false;
        }
        let place = self.copies.len();
        self.copies.push(copy);
        self.find_clean(copy.slot);
        let out = self.out.partition_point(|&at| self.copies[at].ready_ns <= copy.ready_ns);
        self.out.insert(out, place);
        let until_ns = copy.until_ns % self.period_ns;
        let back = self.back.partition_point(|&at| self.copies[at].until_ns % self.period_ns >= until_ns);
        self.back.insert(back, place);
        self.run();
        if self.are_away() && is_worth_it(&self.copies[place]) {
            self.busy_ns += slower_ns;
            return true;
        }
        self.out.remove(out);
        self.back.remove(back);
        self.copies.pop();
        self.find_clean(copy.slot);
        false
    }

    /// Finds the copies of a storage that need not be made.
    fn find_clean(&mut self, slot: Slot) {
        let of_slot = || self.copies.iter().filter(|copy| copy.slot == slot);
        let Some(first_ns) = of_slot().map(|copy| copy.from_ns).min() else { return };
        for copy in self.copies.iter_mut().filter(|copy| copy.slot == slot) {
            copy.is_clean = copy.from_ns > first_ns;
        }
    }

    /// Removes the copies of an interval. `false` if a clean copy of the storage depended on them, so that now not all storages
    /// are away for some time.
    pub fn remove(&mut self, interval: IntervalId) -> bool {
        let before = self.copies.len();
        while let Some(place) = self.copies.iter().position(|copy| copy.interval == interval) {
            let copy = self.copies.remove(place);
            let slot = copy.slot;
            self.busy_ns -= copy.slower_ns();
            self.find_clean(slot);
            for order in [&mut self.out, &mut self.back] {
                order.retain(|&at| at != place);
                order.iter_mut().filter(|at| **at > place).for_each(|at| *at -= 1);
            }
        }
        if self.copies.len() == before {
            return true;
        }
        self.run();
        self.are_away()
    }

    fn are_away(&self) -> bool {
        self.copies.iter().all(|copy| copy.out_ns <= copy.back_ns)
    }

    /// Computes the times of all copies.
    pub fn run(&mut self) {
        let mut free_ns = 0;
        for _ in 0..2 {
            for &at in &self.out {
                let copy = &mut self.copies[at];
                if copy.is_clean {
                    copy.out_ns = copy.from_ns;
                } else {
                    free_ns = copy.ready_ns.max(free_ns) + copy.offload_ns;
                    copy.out_ns = free_ns.max(copy.from_ns);
                }
            }
            // A copy that is not done by the end delays the next iteration.
            free_ns = free_ns.saturating_sub(self.period_ns);
        }
        let mut begin_ns = i64::MAX;
        for _ in 0..2 {
            for &at in &self.back {
                let copy = &mut self.copies[at];
                let until_ns = (copy.until_ns % self.period_ns) as i64;
                begin_ns = until_ns.min(begin_ns) - copy.fetch_ns as i64;
                copy.back_ns = (copy.until_ns as i64 - until_ns + begin_ns).max(0) as u64;
            }
            // A storage that is needed early comes back in the iteration before.
            begin_ns = begin_ns.saturating_add(self.period_ns as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(interval: u32, from_ns: u64, until_ns: u64, copy_ns: u64) -> PlannedCopy {
        let ready_ns = from_ns;
        PlannedCopy {
            interval: IntervalId(interval),
            slot: interval,
            offload_ns: copy_ns,
            fetch_ns: copy_ns,
            ready_ns,
            from_ns,
            until_ns,
            ..PlannedCopy::default()
        }
    }

    fn times(lanes: &CopyLanes) -> Vec<(u64, u64)> {
        lanes.copies.iter().map(|copy| (copy.out_ns, copy.back_ns)).collect()
    }

    #[test]
    fn copies_go_early_and_come_back_late() {
        let mut lanes = CopyLanes::new(100);
        assert!(lanes.add(copy(0, 10, 90, 20), |_| true));
        assert_eq!(times(&lanes), [(30, 70)]);
        // A copy that can begin later waits. A storage that is needed later comes back later, and the other before.
        assert!(lanes.add(copy(1, 15, 95, 20), |_| true));
        assert_eq!(times(&lanes), [(30, 55), (50, 75)]);
        // This copy would delay the others too much.
        assert!(!lanes.add(copy(2, 0, 100, 30), |_| true));
        assert!(!lanes.add(copy(2, 0, 100, 5), |copy| copy.out_ns > 5));
        assert!(lanes.add(copy(2, 0, 100, 5), |copy| copy.out_ns == 5 && copy.back_ns == 95));
        lanes.run();
        assert_eq!(times(&lanes), [(30, 55), (50, 75), (5, 95)]);
    }

    #[test]
    fn a_copy_out_is_made_beside_the_last_reader_and_once() {
        let mut lanes = CopyLanes::new(100);
        let of_slot =
            |interval, from_ns, until_ns| PlannedCopy { slot: 0, ..copy(interval, from_ns, until_ns, 10) };
        // The first copy is done when the storage may leave, the second only half.
        assert!(lanes.add(PlannedCopy { ready_ns: 30, ..of_slot(0, 40, 60) }, |_| true));
        assert_eq!(times(&lanes), [(40, 50)]);
        assert!(lanes.add(PlannedCopy { ready_ns: 35, ..copy(1, 45, 95, 10) }, |_| true));
        assert_eq!(times(&lanes), [(40, 50), (50, 85)]);
        // The storage leaves again and is not copied again. Not even the time for a copy is needed.
        assert!(lanes.add(of_slot(2, 70, 91), |_| true));
        assert_eq!(times(&lanes), [(40, 50), (50, 85), (70, 75)]);
        // A storage that is away earlier makes the copies for later intervals.
        assert!(lanes.add(of_slot(3, 5, 30), |_| true));
        assert_eq!(times(&lanes), [(40, 50), (45, 85), (70, 75), (15, 20)]);
        assert!(lanes.remove(IntervalId(3)));
        assert!(!lanes.remove(IntervalId(0)), "what now has to be copied has no time for it");
        assert_eq!(times(&lanes), [(45, 85), (80, 75)]);
    }

    #[test]
    fn what_is_needed_early_comes_back_in_the_iteration_before() {
        let mut lanes = CopyLanes::new(100);
        assert!(lanes.add(copy(0, 20, 105, 20), |_| true));
        assert_eq!(times(&lanes), [(40, 85)]);
        assert!(lanes.add(copy(1, 30, 90, 10), |_| true));
        assert_eq!(times(&lanes), [(40, 85), (50, 75)]);
    }

    #[test]
    fn what_is_taken_out_leaves_no_trace() {
        let mut lanes = CopyLanes::new(100);
        assert!(lanes.add(copy(0, 10, 90, 20), |_| true));
        assert!(lanes.add(copy(1, 15, 95, 20), |_| true));
        assert!(lanes.add(copy(2, 0, 100, 5), |_| true));
        assert!(lanes.remove(IntervalId(1)));
        assert!(lanes.remove(IntervalId(7)));
        assert_eq!((times(&lanes), lanes.busy_ns), (vec![(30, 70), (5, 95)], 25));
    }

    #[test]
    fn no_lane_is_asked_for_more_than_it_can_do() {
        let mut lanes = CopyLanes::new(100);
        assert!(lanes.add(copy(0, 0, 100, 50), |_| true));
        assert!(!lanes.add(copy(1, 0, 120, 51), |_| true));
    }
}
