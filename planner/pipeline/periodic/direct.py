"""Schedules of long iterations made at once, for one stage per device and equal micro-batches.

Compiled list scheduling and insertion take some 0.05 s for 100,000 operations, so that many
policies can be tried on the whole iteration. Where stages differ each policy is also tried on
stages that all take the mean times, and the orders that it gives there are timed on the real
ones: what runs in step between equal stages loses little between unequal ones, while a list
scheduler that follows every difference lets idle time pile up from stage to stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from planner.pipeline.kernel.tables import (
    FORWARD,
    OFFLOAD,
    WEIGHT,
    Integers,
    tables_of,
)
from planner.pipeline.kernel.timed_arrays import TimedArrays, retimed, starts_of, timed_at
from planner.pipeline.periodic.greedy import FAR, SHARES, GreedyPolicy, greedy_starts
from planner.pipeline.periodic.insertion import insertion_starts
from planner.pipeline.periodic.one_chunk import OneChunk, one_chunk_of
from planner.pipeline.problem import Objective, PipelineProblem
from planner.progress import StopCheck, never

# A quarter of it, so that a sum with an instant stays a 64-bit integer.
ANY_DELAY_NS = FAR // 4
NEVER = FAR
PATIENCE = 400
LEAST_GAIN = 0.0005
OFFLOADED = (SHARES, SHARES * 3 // 4, SHARES // 2)
NEAR = (1, 2, 4, 8, 16)
AHEAD = (0, 1, 2, 3)

Value = tuple[int, int]
"""The objective (ns), and the number of offloads: of equals the one with fewer is better."""


class Way(NamedTuple):
    """A policy, and whether it decides on the real stages or on `even` ones."""

    policy: GreedyPolicy
    is_even: bool


class DirectSearch:
    """Keeps the best starts found for one problem. `best_ns` is their objective."""

    def __init__(
        self, problem: PipelineProblem, should_stop: StopCheck, lower_bound_ns: int = 0
    ) -> None:
        self.problem = problem
        self.chunk = one_chunk_of(problem)
        self.even = _even(self.chunk)
        self.tables = tables_of(problem)
        self.should_stop = should_stop
        self.lower_bound_ns = lower_bound_ns
        self.best: tuple[Value, Integers] | None = None
        self.way: tuple[Value, Way] | None = None

    @property
    def done(self) -> bool:
        """Whether to stop: told to, or nothing can be better."""
        return self.should_stop() or (
            self.best is not None and self.best[0][0] <= self.lower_bound_ns
        )

    def run(self, must_drop: StopCheck = never) -> Iterator[TimedArrays]:
        """Try the openings, then change the best policy a little at a time: the best of the ones,
        and that of all if it is better, unless `must_drop` says that it is no longer wanted."""
        self._open()
        if self.best is None or must_drop():
            return
        opened = self.best[0]
        yield timed_at(self.tables, self.best[1])
        self._improve(Random(0))
        if self.best[0] < opened and not must_drop():
            yield timed_at(self.tables, self.best[1])

    def _open(self) -> None:
        """The openings, but told to stop only until there is something."""
        count = self.problem.micro_batches
        both = (False,) if self.even is None else (True, False)
        for policy in _openings(self.chunk, count, self.problem.can_offload):
            for is_even in both:
                if self.done and self.best is not None:
                    return
                self._consider(Way(policy, is_even))
        for lag in (0, count):
            for is_even in both:
                if self.done and self.best is not None:
                    return
                self._adopt(
                    self._timed(*insertion_starts(self._chunk(is_even), count, lag), is_even)
                )

    def _chunk(self, is_even: bool) -> OneChunk:
        return self.even if is_even and self.even is not None else self.chunk

    def _consider(self, way: Way) -> None:
        """Take the way if it is no worse than the best so far."""
        chunk = self._chunk(way.is_even)
        starts, complete = greedy_starts(chunk, self.problem.micro_batches, way.policy)
        value = self._adopt(self._timed(starts, complete, way.is_even))
        if value is not None and (self.way is None or value <= self.way[0]):
            self.way = value, way

    def _timed(self, starts: Integers, complete: bool, is_even: bool) -> Integers | None:
        """The starts on the real stages; None if not all could run."""
        if not complete or not is_even:
            return starts if complete else None
        again = retimed(self.tables, timed_at(self.tables, starts), keep_transfers=False)
        return None if again is None else starts_of(self.tables, again)

    def _adopt(self, starts: Integers | None) -> Value | None:
        if starts is None:
            return None
        value = self._value(starts)
        if self.best is None or value < self.best[0]:
            self.best = value, starts
        return value

    def _value(self, starts: Integers) -> Value:
        lengths = np.stack([self.chunk.forward, self.chunk.backward, self.chunk.weight])
        computed, offloads = starts[: WEIGHT + 1], starts[OFFLOAD:]
        ends = np.where(computed >= 0, computed + lengths[:, :, None], -1).max(axis=(0, 2))
        ends += np.array([self.problem.devices[s.device].epilogue_ns for s in self.problem.stages])
        if self.problem.objective is Objective.MAKESPAN:
            objective_ns = int(ends.max())
        else:
            objective_ns = int((ends - starts[FORWARD, :, 0]).max())
        return objective_ns, int((offloads >= 0).sum())

    def _improve(self, random: Random) -> None:
        """Random changes of the best policy, a few stages at a time, while they gain anything."""
        tried, mark_ns = 0, None
        while self.way is not None and tried < PATIENCE and not self.done:
            if mark_ns is None or self.way[0][0] < mark_ns:
                tried, mark_ns = 0, int(self.way[0][0] * (1 - LEAST_GAIN))
            policy, is_even = self.way[1]
            self._consider(Way(_changed(policy, self._chunk(is_even), random), is_even))
            tried += 1


def _even(chunk: OneChunk) -> OneChunk | None:
    """The same with the mean times on every stage; None where they all take the same, or where a
    backward is fused: means would split it."""
    times = (chunk.forward, chunk.backward, chunk.weight)
    if all((own == own[0]).all() for own in times) or (chunk.weight == 0).any():
        return None
    forward, backward, weight = (np.full_like(own, round(own.mean())) for own in times)
    return chunk._replace(forward=forward, backward=backward, weight=weight)


def _openings(chunk: OneChunk, count: int, can_offload: bool) -> Iterator[GreedyPolicy]:
    """What is promising everywhere; of the first few one is good already."""
    most = _most_held(chunk, count)
    if can_offload:
        # Early reloads first; where hardly an activation fits, all go, and return at the last.
        early = np.clip(most // 4, 1, 4), np.ones_like(most)
        late = np.ones_like(most), np.zeros_like(most)
        for near, ahead in (early, late):
            for cap in _depths(len(chunk.forward), count):
                for share in OFFLOADED:
                    policy = _level_policy(cap, count, ANY_DELAY_NS, 0, share)
                    yield policy._replace(near=near, ahead=ahead)
    seen = set()
    for cap in _depths(len(chunk.forward), count):
        within = np.minimum(cap, most)
        if within.tobytes() in seen:
            continue
        seen.add(within.tobytes())
        for forward_delay in (ANY_DELAY_NS, 0):
            for weight_delay in (0, ANY_DELAY_NS):
                yield _level_policy(within, count, forward_delay, weight_delay, 0)


def _level_policy(
    in_flight: Integers, count: int, forward_delay_ns: int, weight_delay_ns: int, share: int
) -> GreedyPolicy:
    """A policy that is the same on all stages but for the caps."""

    def level(value: int) -> Integers:
        return np.full(len(in_flight), value, dtype=np.int64)

    return GreedyPolicy(
        in_flight=in_flight,
        pending=level(count),
        forward_delay_ns=level(forward_delay_ns),
        weight_delay_ns=level(weight_delay_ns),
        share=level(share),
        near=level(NEAR[0]),
        ahead=level(AHEAD[0]),
    )


def _depths(stages: int, count: int) -> list[Integers]:
    """In-flight caps: 1F1B's and Zero Bubble's, between them and beyond, and half of them."""
    depth = np.arange(stages, 0, -1, dtype=np.int64)
    level = np.full(stages, count, dtype=np.int64)
    return [
        depth + stages,
        depth,
        2 * depth - 1,
        (3 * depth) // 2,
        depth + 2,
        level,
        depth + stages // 4,
        depth // 2 + 1,
        depth // 2 + 2,
    ]


def _most_held(chunk: OneChunk, count: int) -> Integers:
    """How many activations fit on each stage, at most all."""
    room = np.maximum(chunk.limit - chunk.backward_allocation, chunk.activation)
    most: Integers = np.minimum(room // np.maximum(chunk.activation, 1), count)
    return np.where(chunk.activation > 0, most, count)


def _changed(policy: GreedyPolicy, chunk: OneChunk, random: Random) -> GreedyPolicy:
    """One to three changes of one to all stages."""
    stages = len(chunk.forward)
    changed = GreedyPolicy(*(values.copy() for values in policy))
    kinds = ["in_flight", "forward", "pending", "weight"]
    if chunk.offload.any():
        kinds += ["share", "near", "ahead"]
    for _ in range(random.choice((1, 1, 2, 3))):
        begin = random.randrange(stages)
        own = slice(begin, begin + random.choice((1, 1, 2, 4, stages)))
        if random.random() < 0.1:
            own = slice(0, stages)
        what = random.choice(kinds)
        if what == "in_flight":
            caps = changed.in_flight[own] + random.choice((-4, -2, -1, 1, 2, 4))
            changed.in_flight[own] = np.maximum(1, caps)
        elif what == "forward":
            lengths = [0, int(chunk.backward[begin]) // 4, int(chunk.backward[begin]) // 2]
            changed.forward_delay_ns[own] = random.choice([ANY_DELAY_NS, *lengths])
        elif what == "pending":
            changed.pending[own] = random.choice((1, 2, 3, 4, 6, 8, NEVER))
        elif what == "weight":
            lengths = [0, int(chunk.weight[begin]) // 4, int(chunk.weight[begin]) // 2]
            changed.weight_delay_ns[own] = random.choice([ANY_DELAY_NS, *lengths])
        elif what == "share":
            shares = changed.share[own] + random.choice((-2, -1, -1, 1))
            changed.share[own] = np.clip(shares, 0, SHARES)
        elif what == "near":
            changed.near[own] = random.choice(NEAR)
        else:
            changed.ahead[own] = random.choice(AHEAD)
    return changed
