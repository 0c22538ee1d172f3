"""A lower bound on the time of one training iteration under a memory budget.

Given a log of the DTR simulator (Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021), a budget in percent
of the log's live peak, and the bandwidth of two lanes beside compute (device to host, host to device), it prints a
time that no schedule of offload and recompute beats, as a multiple of the log's compute time. Checkmate (Jain et al.,
MLSys 2020) states recompute as an integer program over every op; with offload that is too large to solve. The program
here is a relaxation: every schedule is a solution of it at the same cost or less, so what the solver proves of its
optimum holds for schedules.

What a schedule is. Ops run in the log's order; a MUTATE's results are new storages. An op, and its recompute, which
takes as long, needs its inputs and all outputs resident. A storage leaves whole: its bytes are free only once the
host copy is complete (offload), or at once (drop). It comes back by a fetch of a host copy, which holds memory at
least for the bytes brought so far, or by recompute of its maker. A storage that the log releases may stay for
recomputes. Constants alone exist before the iteration.

What the relaxation leaves out.
- The state is recorded only when the ops at a few checkpoints start; between two checkpoints (an interval) the order
  of events is mostly free.
- Constants, and storages up to 0.2 % of the peak, take memory only while an op touches them; they cost no transfer
  and no recompute.
- An op's recompute counts once per interval, none before the first checkpoint.
- A share of a storage may be resident or sent; a recompute is all or nothing.

Why each constraint holds for every schedule.
- States: at a checkpoint a storage is resident, awaits a fetch (its next return is one) or is dropped (its next
  return, if any, is a recompute). One that is being fetched is divided between the first two by the bytes brought.
  One that awaits a fetch has a complete host copy, so was sent in full.
- Returns: before its next touch, what is dropped is recomputed and what awaits a fetch is fetched, in this interval
  or from the same state in a later one.
- Recompute: when an op is recomputed after a checkpoint, each input was resident there, or recomputed since, or
  fetched since from a host copy that the checkpoint saw (a younger copy is of a storage recomputed since).
- Checkpoint memory: what is resident and what the op touches fits the budget.
- Interval memory: what is resident at both ends of an interval, neither fetched nor recomputed in it, was there
  throughout; it fits the budget along with what any op of the interval, or any recompute in it, touches.
- Lanes: the bytes sent or fetched in an interval fit its time, and those made late or needed early fit the part left
  to them. A storage is sent only if it was resident at the interval's start, or made or recomputed in the interval.
- Time: recomputes run one at a time and add to the log's compute time.
"""

import argparse
import bisect
import datetime
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass

import highspy

ALIGNMENT_BYTES = 256
SMALL_SHARE = 0.002  # storages up to this share of the peak are left out
TOLERANCE = 1e-5  # the solver's is 1e-6, as a share of peak or of compute time
INFINITY = math.inf


class InputError(Exception):
    """A log or a budget that no bound can be computed for."""


@dataclass
class Storage:
    size_bytes: int
    maker: int | None  # op that makes it, None for a constant
    references: int = 1
    last_live: int | None = None  # last op before its release, None: never released


@dataclass
class Op:
    time_ns: float
    inputs: list[int]
    outputs: list[int]


class Log:
    """The ops and storages of a log, and the bytes live during each op."""

    def __init__(self, path):
        self.storages, self.ops, self.names = [], [], {}
        try:
            with open(path, encoding="utf-8") as file:
                records = [json.loads(line) for line in file if line.strip()]
            self.read(iter(records))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
            raise InputError(f"{path} is no log of the DTR simulator: {error!r}") from error
        self.time_ns = sum(op.time_ns for op in self.ops)
        if self.time_ns <= 0:
            raise InputError(f"{path} has no op that takes time")
        self.live_bytes = self.count_live_bytes()
        self.peak_bytes = max(self.live_bytes)

    def read(self, records):
        for record in records:
            kind = record["INSTRUCTION"]
            if kind == "CONSTANT":
                size_bytes = int(next(records)["MEMORY"])
                self.bind(record["NAME"], self.new_storage(size_bytes, None))
            elif kind == "CALL":
                self.read_call(record, records)
            elif kind == "MUTATE":
                self.read_mutate(record)
            elif kind in ("COPY", "COPYFROM"):
                storage = self.names[record["SRC"]]
                self.storages[storage].references += 1
                self.bind(record["DST"], storage)
            elif kind == "RELEASE":
                if record["NAME"] in self.names:
                    self.release(self.names.pop(record["NAME"]))
            elif kind != "ANNOTATE":
                raise ValueError(f"unknown instruction {kind}")

    def read_call(self, record, records):
        op, arguments = self.start_op(record)
        results = record["RESULT"]
        for name in results if isinstance(results, list) else [results]:
            size_bytes, alias = int(next(records)["MEMORY"]), int(next(records)["ALIAS"])
            if alias < 0:
                storage = self.new_storage(size_bytes, len(self.ops) - 1)
                op.outputs.append(storage)
            else:
                storage = arguments[alias]
                self.storages[storage].references += 1
            self.bind(name, storage)
        if not op.outputs:
            op.inputs = []  # an op that only makes views touches no memory

    def read_mutate(self, record):
        """The simulator copies on write: what is mutated becomes a new storage."""
        op, arguments = self.start_op(record)
        for index in record["MUTATE"]:
            size_bytes = self.storages[arguments[index]].size_bytes
            op.outputs.append(self.new_storage(size_bytes, len(self.ops) - 1))
            self.bind(record["ARGS"][index], op.outputs[-1])

    def start_op(self, record):
        arguments = [self.names[name] for name in record["ARGS"]]
        self.ops.append(Op(float(record["TIME"]), sorted(set(arguments)), []))
        return self.ops[-1], arguments

    def new_storage(self, size_bytes, maker):
        size_bytes = -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.storages.append(Storage(size_bytes, maker))
        return len(self.storages) - 1

    def bind(self, name, storage):
        if name in self.names:
            self.release(self.names[name])
        self.names[name] = storage

    def release(self, storage):
        storage = self.storages[storage]
        storage.references -= 1
        if storage.references == 0 and storage.maker is not None:
            storage.last_live = len(self.ops) - 1

    def count_live_bytes(self):
        change = [0] * (len(self.ops) + 1)
        for storage in self.storages:
            last = len(self.ops) - 1 if storage.last_live is None else storage.last_live
            change[storage.maker or 0] += storage.size_bytes
            change[last + 1] -= storage.size_bytes
        return list(itertools.accumulate(change))[:-1]

    def default_checkpoints(self, budget):
        """An op on the way up to the peak; on the way down, for each tenth of it down to the budget, the last op with
        that much live."""
        shares = [live / self.peak_bytes for live in self.live_bytes]
        chosen = {next(op for op, share in enumerate(shares) if share >= 0.8)}
        for level in (tenths / 10 for tenths in range(1, 11)):
            if level >= budget:
                chosen.add(max(op for op, share in enumerate(shares) if share >= level))
        return sorted(chosen)


class Program:
    """A mixed integer program, minimized by HiGHS on one thread."""

    def __init__(self):
        self.cost, self.upper, self.integer = [], [], []
        self.row_lower, self.row_upper, self.row_starts = [], [], []
        self.columns, self.values = [], []

    def variable(self, upper=1.0, cost=0.0, integer=False):
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def add_row(self, terms, lower=-INFINITY, upper=INFINITY):
        self.row_starts.append(len(self.columns))
        self.columns += [column for column, _ in terms]
        self.values += [value for _, value in terms]
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def cover(self, variable, sources):
        """The variable is at most the sum of its sources."""
        self.add_row([(source, 1) for source in sources] + [(variable, -1)], lower=0)

    def minimize(self, seconds, relax):
        """Returns the proven bound and the best objective value found."""
        solver = highspy.Highs()
        options = {"output_flag": False, "threads": 1, "time_limit": seconds, "mip_rel_gap": 0.005}
        for name, value in options.items():
            solver.setOptionValue(name, value)
        count, columns = len(self.cost), list(range(len(self.cost)))
        built = [
            solver.addVars(count, [0.0] * count, self.upper),
            solver.changeColsCost(count, columns, self.cost),
            # HiGHS numbers its kinds of variable: 0 continuous, 1 integer.
            solver.changeColsIntegrality(count, columns, [0 if relax else i for i in self.integer]),
            solver.addRows(len(self.row_lower), self.row_lower, self.row_upper,
                           len(self.columns), self.row_starts, self.columns, self.values),
        ]
        if highspy.HighsStatus.kError in built:
            raise RuntimeError("HiGHS rejects the program")
        solver.run()
        status, found = solver.getModelStatus(), solver.getInfo()
        kinds = highspy.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):  # no cost is below 0
            raise InputError("budget infeasible: not even the relaxation has a schedule")
        if status == kinds.kOptimal or not relax:
            proven = found.objective_function_value if relax else found.mip_dual_bound
            return max(proven, 0.0), found.objective_function_value
        return 0.0, INFINITY  # an interrupted linear program proves nothing


class Relaxation:
    """The relaxed problem. Bytes are shares of the live peak, times shares of the log's compute time. Interval 0 runs
    from the start of the op at checkpoint 0 to that of the next, the last one to the end; interval -1 comes before the
    first. Variables are kept by interval, then by storage."""

    def __init__(self, log, budget, gbps, checkpoints):
        self.program, self.budget, self.checkpoints = Program(), budget, checkpoints
        self.intervals = range(len(checkpoints))
        self.bandwidth = gbps * log.time_ns / log.peak_bytes
        self.duration = [op.time_ns / log.time_ns for op in log.ops]
        self.start = list(itertools.accumulate(self.duration, initial=0.0))
        extra_time = [self.program.variable(upper=INFINITY, cost=1.0) for _ in (-1, *self.intervals)]
        self.extra_time = dict(zip((-1, *self.intervals), extra_time))
        self.select_storages(log)
        self.add_states()
        for interval in self.intervals:
            self.add_returns(interval)
            self.add_checkpoint_memory(interval)
        # The state at both ends is needed here, and at the far end for offload.
        for interval in self.intervals[:-1]:
            self.add_interval_memory(interval)
        for interval in (-1, *self.intervals[:-1]):
            self.add_offload_lane(interval)
        for interval in self.intervals:
            self.add_fetch_lane(interval)
            self.add_time(interval)

    def select_storages(self, log):
        size = [storage.size_bytes / log.peak_bytes for storage in log.storages]
        makers = {index: storage.maker for index, storage in enumerate(log.storages) if size[index] > SMALL_SHARE}
        self.maker = {index: maker for index, maker in makers.items() if maker is not None}
        self.size = {storage: size[storage] for storage in self.maker}
        self.inputs = [[storage for storage in op.inputs if storage in self.size] for op in log.ops]
        self.touched = [self.size.keys() & {*op.inputs, *op.outputs} for op in log.ops]
        self.need = [sum(size[index] for index in {*op.inputs, *op.outputs}) for op in log.ops]
        worst = self.need.index(max(self.need))
        if self.need[worst] > self.budget + TOLERANCE:
            raise InputError(f"budget infeasible: op {worst} needs {100 * self.need[worst]:.1f} % of the peak")
        self.touches = {storage: [] for storage in self.size}
        for op, touched in enumerate(self.touched):
            for storage in touched:
                self.touches[storage].append(op)
        # After this op, neither an op nor a recompute has use for the storage.
        self.last_use = {storage: ops[-1] for storage, ops in self.touches.items()}
        for op in reversed(range(len(log.ops))):
            outputs = self.size.keys() & log.ops[op].outputs
            for storage in self.inputs[op]:
                useful = [self.last_use[storage], *(self.last_use[output] for output in outputs)]
                self.last_use[storage] = max(useful)

    def touched_at(self, interval):
        return self.touched[self.checkpoints[interval]]

    def next_touch(self, storage, interval):
        ops = self.touches[storage]
        later = bisect.bisect_right(ops, self.checkpoints[interval])
        return ops[later] if later < len(ops) else INFINITY

    def weigh(self, variables, sign=1):
        return [(variable, sign * self.size[storage]) for storage, variable in variables.items()]

    def add_states(self):
        program, count = self.program, len(self.checkpoints)
        self.resident, self.awaits_fetch, self.dropped, self.host_copy, self.sent, self.fetched = (
            [{} for _ in range(count)] for _ in range(6)
        )
        self.recomputes = [{} for _ in range(count)]  # by op
        self.recomputes_since, self.fetches_since = {}, {}
        for storage, interval in itertools.product(self.size, self.intervals):
            if self.maker[storage] >= self.checkpoints[interval]:
                continue
            self.fetched[interval][storage] = program.variable()
            if self.checkpoints[interval] > self.last_use[storage]:
                continue
            sent = self.sent[interval][storage] = program.variable()
            if interval > 0 and storage in self.sent[interval - 1]:
                program.cover(self.sent[interval - 1][storage], [sent])
            if storage in self.touched_at(interval):
                continue
            resident = self.resident[interval][storage] = program.variable()
            awaits = self.awaits_fetch[interval][storage] = program.variable()
            dropped = self.dropped[interval][storage] = program.variable(integer=True)
            program.add_row([(resident, 1), (awaits, 1), (dropped, 1)], lower=1, upper=1)
            copy = self.host_copy[interval][storage] = program.variable(integer=True)
            program.cover(awaits, [copy])
            program.cover(copy, [sent])

    def recompute(self, op, interval):
        """Whether the op is recomputed in the interval."""
        if op not in self.recomputes[interval]:
            self.recomputes[interval][op] = self.program.variable(integer=True)
        return self.recomputes[interval][op]

    def recompute_since(self, op, first, last):
        """Whether the op is recomputed in intervals first to last."""
        key = (op, first, last)
        if key not in self.recomputes_since:
            done = self.recomputes_since[key] = self.program.variable()
            self.program.cover(done, [self.recompute(op, i) for i in range(first, last + 1)])
            for storage in self.inputs[op]:
                if storage not in self.touched_at(first):
                    self.program.cover(done, [
                        self.resident[first][storage],
                        self.fetch_since(storage, first, last),
                        self.recompute_since(self.maker[storage], first, last),
                    ])
        return self.recomputes_since[key]

    def fetch_since(self, storage, first, last):
        """Whether a host copy there at checkpoint first is fetched in intervals first to last."""
        key = (storage, first, last)
        if key not in self.fetches_since:
            done = self.fetches_since[key] = self.program.variable()
            self.program.cover(done, [self.host_copy[first][storage]])
            self.program.cover(done, [self.fetched[i][storage] for i in range(first, last + 1)])
        return self.fetches_since[key]

    def add_returns(self, interval):
        program = self.program
        for storage in self.resident[interval]:
            maker, fetched = self.maker[storage], self.fetched[interval][storage]
            awaits, dropped = self.awaits_fetch[interval][storage], self.dropped[interval][storage]
            touch = self.next_touch(storage, interval)
            last = bisect.bisect_left(self.checkpoints, touch) - 1
            if touch < INFINITY:
                program.cover(dropped, [self.recompute_since(maker, interval, last)])
            if touch < INFINITY and last == interval:
                program.cover(awaits, [fetched])
            elif interval + 1 in self.intervals and storage in self.resident[interval + 1]:
                program.cover(awaits, [fetched, self.awaits_fetch[interval + 1][storage]])
                recompute = self.recompute(maker, interval)
                program.cover(dropped, [recompute, self.dropped[interval + 1][storage]])

    def add_checkpoint_memory(self, interval):
        room = self.budget - self.need[self.checkpoints[interval]]
        self.program.add_row(self.weigh(self.resident[interval]), upper=room)

    def add_interval_memory(self, interval):
        program, kept = self.program, self.kept_throughout(interval)
        total = program.variable(upper=INFINITY)
        program.add_row(self.weigh(kept, -1) + [(total, 1)], lower=0)
        # What is touched and was kept is in the total already.
        for op in range(self.checkpoints[interval] + 1, self.checkpoints[interval + 1]):
            twice = {storage: kept[storage] for storage in self.touched[op] & kept.keys()}
            terms = [(total, 1)] + self.weigh(twice, -1)
            program.add_row(terms, upper=self.budget - self.need[op])
        for op, recompute in self.recomputes[interval].items():
            twice = {storage: program.variable() for storage in self.touched[op] & kept.keys()}
            for storage, both in twice.items():
                program.cover(both, [kept[storage]])
                program.cover(both, [recompute])
            terms = [(total, 1), (recompute, self.need[op])] + self.weigh(twice, -1)
            program.add_row(terms, upper=self.budget)

    def kept_throughout(self, interval):
        """Whether each storage neither leaves nor returns in the interval."""
        kept = {}
        for storage in self.sent[interval].keys() & self.sent[interval + 1].keys():
            kept[storage] = self.program.variable()
            recompute = self.recompute(self.maker[storage], interval)
            sources = [kept[storage], self.fetched[interval][storage], recompute]
            if storage in self.touched_at(interval + 1):
                self.program.add_row([(source, 1) for source in sources], lower=1)
            else:
                self.program.cover(self.resident[interval + 1][storage], sources)
        return kept

    def fit_lane(self, terms, interval, first, last):
        """The bytes fit between the starts of ops first and last of the interval."""
        room = self.bandwidth * (self.start[last] - self.start[first])
        self.program.add_row(terms + [(self.extra_time[interval], -self.bandwidth)], upper=room)

    def add_offload_lane(self, interval):
        """The lane's work by the last checkpoint; what leaves later is free."""
        first, last = [0, *self.checkpoints][interval + 1 :][:2]
        before, after = self.sent[interval] if interval >= 0 else {}, self.sent[interval + 1]
        before = {storage: before[storage] for storage in before if storage in after}
        self.fit_lane(self.weigh(after) + self.weigh(before, -1), interval, first, last)
        maker = {storage: self.maker[storage] for storage in after}
        for born in sorted(set(maker.values())):
            if born >= first:
                late = {storage: after[storage] for storage in after if maker[storage] >= born}
                self.fit_lane(self.weigh(late), interval, born + 1, last)
        for storage in before:
            if storage in self.resident[interval]:
                recompute = self.recompute(self.maker[storage], interval)
                there = [self.resident[interval][storage], recompute]
                self.program.cover(after[storage], [before[storage], *there])

    def add_fetch_lane(self, interval):
        first, last = [*self.checkpoints, len(self.duration)][interval:][:2]
        self.fit_lane(self.weigh(self.fetched[interval]), interval, first, last)
        awaits = self.awaits_fetch[interval]
        touch = {storage: self.next_touch(storage, interval) for storage in awaits}
        for op in sorted(set(touch.values())):
            if op <= last:
                early = {storage: awaits[storage] for storage in awaits if touch[storage] <= op}
                self.fit_lane(self.weigh(early), interval, first, op)

    def add_time(self, interval):
        recomputes = self.recomputes[interval].items()
        terms = [(recompute, -self.duration[op]) for op, recompute in recomputes]
        self.program.add_row([(self.extra_time[interval], 1)] + terms, lower=0)


def checkpoint_list(text):
    return sorted({int(op) for op in text.split(",")})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", help="a log of the DTR simulator")
    parser.add_argument("--budget", type=float, required=True, help="percent of the live peak")
    parser.add_argument("--gbps", type=float, default=12.5, help="of each lane, 1e9 bytes/s")
    parser.add_argument("--checkpoints", type=checkpoint_list, help="ops, as 112,133,137")
    parser.add_argument("--seconds", type=float, default=130.0, help="time limit of the solver")
    parser.add_argument("--relax", action="store_true", help="drop integrality: faster, weaker")
    parser.add_argument("--json", metavar="FILE", help="also adds the bound to this file, for scripts/bench-results")
    arguments = parser.parse_args()
    if not 0 < arguments.budget <= 100 or arguments.gbps <= 0:
        parser.error("--budget is a percentage up to 100, --gbps is above 0")
    return arguments


def compute_bound(arguments):
    log, budget = Log(arguments.log), arguments.budget / 100
    checkpoints = arguments.checkpoints or log.default_checkpoints(budget)
    if checkpoints[0] < 0 or checkpoints[-1] >= len(log.ops):
        raise InputError(f"checkpoints are ops 0 to {len(log.ops) - 1}")
    print(f"peak {log.peak_bytes} bytes, checkpoints {','.join(map(str, checkpoints))}", flush=True)
    program = Relaxation(log, budget, arguments.gbps, checkpoints).program
    return program.minimize(arguments.seconds, arguments.relax)


def add_to_results(arguments, cell):
    """The file has the bounds of earlier commands too."""
    cells = []
    if os.path.exists(arguments.json):
        with open(arguments.json, encoding="utf-8") as file:
            cells = json.load(file)["cells"]
    describe = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    with open(arguments.json, "w", encoding="utf-8") as file:
        json.dump({
            "bench": "bounds",
            "commit": commit,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "cells": [*cells, cell],
        }, file, indent=2)


def main():
    arguments, started = parse_arguments(), time.monotonic()
    try:
        bound, best = compute_bound(arguments)
    except InputError as error:
        sys.exit(f"bound.py: {error}")
    # Rounded down, past the tolerance, so that it stays a bound.
    proven = max(1.0, math.floor((1 + bound - TOLERANCE) * 1e4) / 1e4)
    found = f"{1 + best:.4f}" if best < 1e20 else "not found"
    name, seconds = os.path.basename(arguments.log), time.monotonic() - started
    print(f"{name} {arguments.budget:g} %: no schedule below {proven:.4f} "
          f"(relaxation's best {found}), {seconds:.0f} s")
    if arguments.json:
        add_to_results(arguments, {
            "log": name.removesuffix(".log"),
            "budget_percent": arguments.budget,
            "link_gbps": arguments.gbps,
            "checkpoints": ", ".join(map(str, arguments.checkpoints or ["by live bytes"])),
            "program": "relaxed" if arguments.relax else "integers",
            "bound_ratio": proven,
            "relaxation_best_ratio": round(1 + best, 4) if best < 1e20 else None,
            "solver_s": round(seconds),
        })


if __name__ == "__main__":
    main()
