"""One annealing chain: its sequences, its random numbers and the best it has found."""

from __future__ import annotations

import numpy as np

from planner.pipeline.kernel.longest_path import latest_starts
from planner.pipeline.kernel.tables import DURATION, Integers, Tables, timed_ops
from planner.pipeline.schedule import TimedOp
from planner.pipeline.search.anneal import anneal, begin
from planner.pipeline.search.state import copy_sequences, scratch_for, state_of

OPERATIONS_PER_LOOK = 250_000
"""About how many operations are timed between two looks at a wish to stop."""


class Chain:
    """Anneals from given sequences; keeps the best. Not for use by two threads at once."""

    def __init__(
        self, tables: Tables, offloads: bool, rows: Integers, lengths: Integers, seed: int
    ) -> None:
        self.tables = tables
        self.offloads = offloads
        self.state = state_of(tables, rows, lengths)
        self.best = state_of(tables, rows, lengths)
        self.scratch = scratch_for(tables, self.state)
        # Neighbouring seeds are spread apart.
        self.random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**63], dtype=np.int64)
        self.refresh = max(1, min(256, OPERATIONS_PER_LOOK // int(lengths.sum() + 1)))
        self.best_ns = begin(tables, self.state, self.scratch, offloads)
        if self.best_ns >= 0:
            copy_sequences(self.state, self.best)
        self.found: tuple[int, list[TimedOp]] | None = None

    @property
    def is_runnable(self) -> bool:
        """Whether the sequences that it was made from can be carried out."""
        return self.best_ns >= 0

    def restart(self, other: Chain) -> None:
        """Go on from another chain's best sequences."""
        copy_sequences(other.best, self.state)
        if other.best_ns < self.best_ns:
            copy_sequences(other.best, self.best)
            self.best_ns = other.best_ns

    def anneal(
        self, iterations: int, warm_ns: float, cold_ns: float, good_ns: int, stop: Integers
    ) -> int:
        """Try so many moves, cooling between two temperatures; how many were tried.

        Sets `found` to the best objective and its operations, if it became better.
        """
        before = self.best_ns
        self.best_ns, tried = anneal(
            self.tables,
            self.state,
            self.best,
            self.scratch,
            self.offloads,
            iterations,
            warm_ns,
            cold_ns,
            self.random,
            self.best_ns,
            good_ns,
            self.refresh,
            stop,
        )
        if self.best_ns < before:
            self.found = self.best_ns, self._best_ops()
        return tried

    def _best_ops(self) -> list[TimedOp]:
        """The best schedule's operations; for the steady span those that start latest, as long as
        every device ends when it did."""
        end_ns = self.best.end_ns
        if self.tables.steady and not self.offloads:
            rows, lengths = self.best.rows, self.best.lengths
            due_ns = np.zeros_like(lengths)
            for d in np.flatnonzero(lengths):
                due_ns[d] = end_ns[rows[d, lengths[d] - 1]]
            late = np.zeros_like(end_ns)
            latest_starts(self.tables, rows, lengths, due_ns, late, self.scratch.timing)
            end_ns = late + self.tables.ops[:, DURATION]
        return timed_ops(self.tables, self.best.rows, self.best.lengths, end_ns)
