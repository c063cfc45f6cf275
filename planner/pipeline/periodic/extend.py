"""From a schedule of few micro-batches to one of many: its middle is repeated.

A device's sequence is cut at two positions between which every kind of operation of each of its
stages runs q times, and which look alike: from each, the micro-batches under way are the same
but for a shift by q. What lies between may be repeated, shifted by q each time, and gives complete
sequences again, whatever the schedule looks like. Devices are cut near one instant. Where the
schedule is periodic there, the repetition is as good as the schedule; where it isn't, some cuts are
better than others, so several instants and q are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.pipeline.kernel.tables import (
    BACKWARD,
    FORWARD,
    RELOAD,
    Integers,
    numbered,
    tables_of,
)
from planner.pipeline.orders import orders_of
from planner.pipeline.periodic.sequences import Sequences, sequences_of_orders, time_sequences
from planner.pipeline.periodic.shorten import fewest_held, with_micro_batches
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.progress import StopCheck, never, watched

INSTANTS = 6
PERIODS = (1, 2, 3, 4, 6, 8, 12, 24)
MULTIPLES_OF_HELD = (1, 2, 3)
REPEATS_TRIED = 2
FINALISTS = 3


@dataclass(frozen=True)
class Period:
    """Per device, the two positions of its sequence between which `advance` micro-batches pass."""

    advance: int
    begin: tuple[int, ...]
    end: tuple[int, ...]


def extended(
    problem: PipelineProblem,
    count: int,
    short: Schedule,
    should_stop: StopCheck = never,
) -> Sequences | None:
    """Sequences for the problem from a schedule of the same with `count` micro-batches.

    The best, as timed, of the periods tried; None where none leads to a schedule or micro-batches
    pass a stage in another order than their numbers', or told to stop before the first.
    """
    few = with_micro_batches(problem, count)
    tables = tables_of(few)
    base = sequences_of_orders(tables, orders_of(few, watched(short.ops, should_stop)))
    devices = range(len(problem.devices))
    cuts = [_Cuts.of_device(base.of_device(d)) for d in watched(devices, should_stop, 1)]
    if not all(own.ordered for own in cuts):
        return None
    timing = time_sequences(tables, base)
    if timing is None:
        return None
    missing = problem.micro_batches - count
    begins = [timing.start_ns[numbered(tables, *base.of_device(d).T)] for d in devices]
    candidates: list[tuple[int, Period]] = []
    held = fewest_held(problem)
    advances = sorted({*PERIODS, *(held * k for k in MULTIPLES_OF_HELD)})
    advances = [a for a in advances if missing % a == 0]
    for period in _periods(cuts, begins, advances, should_stop):
        if should_stop():
            break
        estimate = _estimate_ns(problem, base, count, period, missing)
        if estimate is not None:
            candidates.append((estimate, period))
    best: tuple[int, Sequences] | None = None
    candidates.sort(key=lambda candidate: candidate[0])
    whole = tables_of(problem)
    for estimate, period in candidates[:FINALISTS]:
        if best is not None and (estimate >= best[0] or should_stop()):
            break
        sequences = repeated(base, period, missing // period.advance)
        timed = time_sequences(whole, sequences)
        if timed is not None and (best is None or timed.objective_ns < best[0]):
            best = timed.objective_ns, sequences
    return None if best is None else best[1]


def repeated(base: Sequences, period: Period, times: int) -> Sequences:
    """The sequences with `times` more copies of the period."""
    devices = []
    for d, (begin, end) in enumerate(zip(period.begin, period.end, strict=True)):
        rows = base.of_device(d)
        shift = np.array([0, 0, period.advance], dtype=np.int64)
        copies = [rows[begin:end] + k * shift for k in range(1, times + 1)]
        devices.append(np.concatenate([rows[:end], *copies, rows[end:] + times * shift]))
    return Sequences.join(devices)


def _estimate_ns(
    problem: PipelineProblem, base: Sequences, count: int, period: Period, missing: int
) -> int | None:
    """The objective to expect: what a few repetitions take, and their growth for the rest."""
    times = missing // period.advance
    values = []
    for tried in sorted({max(0, min(times, REPEATS_TRIED) - 1), min(times, REPEATS_TRIED)}):
        few = with_micro_batches(problem, count + tried * period.advance)
        timing = time_sequences(tables_of(few), repeated(base, period, tried))
        if timing is None:
            return None
        values.append(timing.objective_ns)
    return values[-1] + (times - min(times, REPEATS_TRIED)) * (values[-1] - values[0])


def _periods(
    cuts: list[_Cuts], begins: list[Integers], advances: list[int], should_stop: StopCheck
) -> Iterator[Period]:
    """Periods of these advances around a few instants of the middle half of the schedule, until
    told to stop."""
    used = [d for d, own in enumerate(cuts) if len(begins[d])]
    last = max(int(begins[d][-1]) for d in used)
    seen = set()
    for advance in advances:
        if should_stop():
            return
        pairs = [own.pairs(advance) for own in cuts]
        if any(not len(pairs[d][0]) for d in used):
            continue
        for k in range(INSTANTS):
            instant = last * (INSTANTS + 1 + 2 * k) // (4 * INSTANTS)
            begin, end = [], []
            for d, (left, right) in enumerate(pairs):
                if d not in used:
                    begin.append(0)
                    end.append(0)
                    continue
                middle = begins[d][left] + (begins[d][np.minimum(right, len(begins[d]) - 1)])
                chosen = int(np.argmin(np.abs(middle // 2 - instant)))
                begin.append(int(left[chosen]))
                end.append(int(right[chosen]))
            period = Period(advance, tuple(begin), tuple(end))
            if period not in seen:
                seen.add(period)
                yield period


@dataclass(frozen=True)
class _Cuts:
    """Positions of one device's sequence by how the micro-batches under way look there.

    `ordered` says whether every kind of operation runs in the order of micro-batches.
    """

    ordered: bool
    position: dict[tuple[object, ...], dict[int, int]]

    @classmethod
    def of_device(cls, rows: Integers) -> _Cuts:
        runs = sorted({(s, kind) for kind, s, _ in rows.tolist() if kind != RELOAD})
        place = {run: k for k, run in enumerate(runs)}
        offloaded = {(s, m) for kind, s, m in rows.tolist() if kind == RELOAD}
        passed = [0] * len(runs)
        away: set[tuple[int, int, int]] = set()
        position: dict[tuple[object, ...], dict[int, int]] = {}
        ordered = True
        for k, (kind, s, m) in enumerate([*rows.tolist(), (None, None, None)]):
            front = passed[0] if passed else 0
            state = (
                tuple(p - front for p in passed),
                frozenset((j, t, x - front) for j, t, x in away) if away else None,
            )
            position.setdefault(state, {})[front] = k
            if kind is None:
                break
            if kind == RELOAD:
                away.remove((0, s, m))
                away.add((1, s, m))
                continue
            ordered = ordered and passed[place[s, kind]] == m
            passed[place[s, kind]] += 1
            if kind == FORWARD and (s, m) in offloaded:
                away.add((0, s, m))
            elif kind == BACKWARD:
                away.discard((1, s, m))
        return cls(ordered, position)

    def pairs(self, advance: int) -> tuple[Integers, Integers]:
        """The positions between which `advance` micro-batches pass, as two arrays."""
        found = [
            (begin, at[front + advance])
            for at in self.position.values()
            for front, begin in at.items()
            if front + advance in at
        ]
        both = np.array(found, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]
