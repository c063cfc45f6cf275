"""Schedules of long iterations made at once, for one stage per device and equal micro-batches.

Compiled list scheduling and insertion take some 0.05 s for 100,000 operations, so that many
policies can be tried on the whole iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np

from planner.pipeline.kernel.tables import (
    BACKWARD,
    FORWARD,
    UNLIMITED,
    WEIGHT,
    Integers,
    tables_of,
)
from planner.pipeline.periodic.greedy import FAR, GreedyPolicy, greedy_starts
from planner.pipeline.periodic.insertion import insertion_starts
from planner.pipeline.periodic.offloads import with_offloads
from planner.pipeline.periodic.one_chunk import OneChunk, one_chunk_of
from planner.pipeline.periodic.sequences import Sequences, time_sequences
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.progress import StopCheck

# A quarter of it, so that a sum with an instant stays a 64-bit integer.
ANY_DELAY_NS = FAR // 4
NEVER = FAR
PATIENCE = 400
RELOAD_SLACKS = (0.5, 2.0)
RESIDENT = (3, 5, 12)
OFFLOAD_OPENINGS = 8


class DirectSearch:
    """Keeps the best sequences found for one problem. `best_ns` is their objective."""

    def __init__(
        self, problem: PipelineProblem, should_stop: StopCheck, lower_bound_ns: int = 0
    ) -> None:
        self.problem = problem
        self.chunk = one_chunk_of(problem)
        self.should_stop = should_stop
        self.lower_bound_ns = lower_bound_ns
        self.best_ns: int | None = None
        self.best: Sequences | None = None
        self.policy: tuple[int, GreedyPolicy] | None = None

    @property
    def done(self) -> bool:
        """Whether to stop: told to, or nothing can be better."""
        return self.should_stop() or (
            self.best_ns is not None and self.best_ns <= self.lower_bound_ns
        )

    def run(self) -> Sequences | None:
        """Try the openings, then change the best policy a little at a time."""
        for policy in _openings(self.chunk, self.problem.micro_batches):
            if self.done and self.best is not None:
                return self.best
            self._consider(policy)
        for lag in (0, self.problem.micro_batches):
            starts, complete = insertion_starts(self.chunk, self.problem.micro_batches, lag)
            if complete:
                self._adopt(starts)
        if self.problem.can_offload:
            self._try_offloads()
        self._improve(Random(0))
        return self.best

    def _consider(self, policy: GreedyPolicy) -> bool:
        """Whether the policy is no worse than the best policy so far."""
        starts, complete = greedy_starts(self.chunk, self.problem.micro_batches, policy)
        if not complete:
            return False
        value = self._objective_ns(starts)
        if self.policy is not None and value > self.policy[0]:
            return False
        self.policy = value, policy
        self._adopt(starts)
        return True

    def _adopt(self, starts: Integers) -> None:
        value = self._objective_ns(starts)
        if self.best_ns is None or value < self.best_ns:
            self.best_ns, self.best = value, sequences_of_starts(self.problem, self.chunk, starts)

    def _objective_ns(self, starts: Integers) -> int:
        lengths = np.stack([self.chunk.forward, self.chunk.backward, self.chunk.weight])
        ends = np.where(starts >= 0, starts + lengths[:, :, None], -1).max(axis=(0, 2))
        ends += np.array([self.problem.devices[s.device].epilogue_ns for s in self.problem.stages])
        if self.problem.objective is Objective.MAKESPAN:
            return int(ends.max())
        return int((ends - starts[FORWARD, :, 0]).max())

    def _improve(self, random: Random) -> None:
        """Random changes of the best policy, a few stages at a time."""
        failures = 0
        while self.policy is not None and failures < PATIENCE and not self.done:
            before = self.policy[0]
            self._consider(_changed(self.policy[1], self.chunk, random))
            failures = 0 if self.policy[0] < before else failures + 1

    def _try_offloads(self) -> None:
        """Policies as if activations had room enough, then offloads so that they have."""
        able = np.array([stage.offload_bytes[0] > 0 for stage in self.problem.stages])
        roomy = self.chunk._replace(limit=np.where(able, UNLIMITED, self.chunk.limit))
        count = self.problem.micro_batches
        tables = tables_of(self.problem)
        for resident in RESIDENT:
            pending = self._pending_beside(resident)
            for policy in islice(_openings(roomy, count), OFFLOAD_OPENINGS):
                starts, complete = greedy_starts(roomy, count, policy._replace(pending=pending))
                if not complete or self._is_worse(starts):
                    continue
                sequences = sequences_of_starts(self.problem, roomy, starts)
                for slack in RELOAD_SLACKS:
                    if self.done and self.best is not None:
                        return
                    changed = with_offloads(self.problem, sequences, slack)
                    timing = None if changed is None else time_sequences(tables, changed)
                    if timing is not None and (
                        self.best_ns is None or timing.objective_ns < self.best_ns
                    ):
                        self.best_ns, self.best = timing.objective_ns, changed

    def _pending_beside(self, resident: int) -> Integers:
        """How many weight gradients may wait beside so many activations, per stage: what cannot
        be offloaded of those under way counts too."""
        chunk, count = self.chunk, self.problem.micro_batches
        depth = np.arange(len(chunk.forward), 0, -1, dtype=np.int64)
        offload = np.array([stage.offload_bytes[0] for stage in self.problem.stages])
        taken = np.minimum(depth, resident) * chunk.activation
        taken += np.maximum(depth - resident, 0) * (chunk.activation - offload)
        pending: Integers = (chunk.limit - taken) // np.maximum(chunk.late, 1)
        return np.clip(pending, 1, count)

    def _is_worse(self, starts: Integers) -> bool:
        return self.best_ns is not None and self._objective_ns(starts) >= self.best_ns


def sequences_of_starts(problem: PipelineProblem, chunk: OneChunk, starts: Integers) -> Sequences:
    """Device sequences in the order of starts (by kind F, B, W, stage and micro-batch)."""
    devices: list[Integers] = []
    for stages in problem.stages_of_device:
        if not stages:
            devices.append(np.empty((0, 3), dtype=np.int64))
            continue
        s = stages[0]
        kinds, micro_batches = np.nonzero(starts[:, s] >= 0)
        begin = starts[kinds, s, micro_batches]
        end = begin + np.stack([chunk.forward, chunk.backward, chunk.weight])[kinds, s]
        order = np.lexsort((kinds, micro_batches, end, begin))
        rows = np.stack([kinds, np.full(len(kinds), s), micro_batches], axis=1)
        devices.append(rows[order].astype(np.int64))
    return Sequences.join(devices)


def _openings(chunk: OneChunk, count: int) -> Iterator[GreedyPolicy]:
    """Depths from half to twice 1F1B's; forwards and weight gradients that wait, or don't."""
    stages = len(chunk.forward)
    depth = np.arange(stages, 0, -1, dtype=np.int64)
    level = np.full(stages, count, dtype=np.int64)
    caps = [
        depth,
        2 * depth - 1,
        (3 * depth) // 2,
        depth + 2,
        level,
        depth // 2 + 1,
        depth // 2 + 2,
    ]
    seen = set()
    for cap in caps:
        within = np.minimum(np.maximum(cap, 1), _most_held(chunk, count))
        if within.tobytes() in seen:
            continue
        seen.add(within.tobytes())
        for forward_delay in (ANY_DELAY_NS, 0):
            for weight_delay in (0, ANY_DELAY_NS):
                yield GreedyPolicy(
                    within,
                    level,
                    np.full(stages, forward_delay, dtype=np.int64),
                    np.full(stages, weight_delay, dtype=np.int64),
                )


def _most_held(chunk: OneChunk, count: int) -> Integers:
    """How many activations fit on each stage, at most all."""
    room = np.maximum(chunk.limit - chunk.backward_allocation, chunk.activation)
    most: Integers = np.minimum(room // np.maximum(chunk.activation, 1), count)
    return np.where(chunk.activation > 0, most, count)


def _changed(policy: GreedyPolicy, chunk: OneChunk, random: Random) -> GreedyPolicy:
    """One to three changes of one to all stages."""
    stages = len(chunk.forward)
    changed = GreedyPolicy(*(values.copy() for values in policy))
    for _ in range(random.choice((1, 1, 2, 3))):
        begin = random.randrange(stages)
        own = slice(begin, begin + random.choice((1, 1, 2, 4, stages)))
        what = random.randrange(4)
        if what == FORWARD:
            changed.in_flight[own] = np.maximum(
                1, changed.in_flight[own] + random.choice((-2, -1, 1, 2))
            )
        elif what == BACKWARD:
            lengths = [0, int(chunk.backward[begin]) // 4, int(chunk.backward[begin]) // 2]
            changed.forward_delay_ns[own] = random.choice([ANY_DELAY_NS, *lengths])
        elif what == WEIGHT:
            changed.pending[own] = random.choice((1, 2, 3, 4, 6, 8, NEVER))
        else:
            lengths = [0, int(chunk.weight[begin]) // 4, int(chunk.weight[begin]) // 2]
            changed.weight_delay_ns[own] = random.choice([ANY_DELAY_NS, *lengths])
    return changed
