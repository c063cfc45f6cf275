"""Our plan for a cluster beside the fastest classic schedule that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.heterogeneity.clusters import KINDS, cluster
from benchmarks.solving import Solved, solved_in
from planner.pipeline.classic.placement import Placement, interleaved, v_shape
from planner.pipeline.classic.rows import CHEAP_ROW, comparison_rows
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.spec import AS_POSTED, Candidate


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our answer to a cluster, and the makespans (ns) of the classic schedules that fit."""

    kind: str
    answer: Solved
    fitting: Sequence[tuple[int, str]]

    @property
    def classic(self) -> tuple[int, str] | None:
        """The fastest; None if none fits."""
        return min(self.fitting, default=None)

    @property
    def gain(self) -> float | None:
        """What we save, in percent of the fastest classic makespan; None without one of both."""
        return self._gain_over(self.fitting)

    @property
    def gain_over_1f1b(self) -> float | None:
        """The same of 1F1B, where that fits."""
        return self._gain_over([row for row in self.fitting if row[1] == CHEAP_ROW])

    def _gain_over(self, rows: Sequence[tuple[int, str]]) -> float | None:
        if not rows or self.answer.objective_ns is None:
            return None
        return 100 * (1 - self.answer.objective_ns / min(rows)[0])

    @property
    def gap(self) -> float:
        """Between our plan and the bound, in percent of the plan."""
        if not self.answer.objective_ns:
            return 100.0
        return 100 * (1 - self.answer.bound_ns / self.answer.objective_ns)


def compared(clusters: int, time_limit_s: float, *, is_free: bool) -> Iterator[Comparison]:
    """So many clusters of each kind, in their own or in any placement."""
    for kind in KINDS:
        for seed in range(clusters):
            candidates = placements(cluster(kind, seed), is_free=is_free)
            answer = solved_in(candidates, time_limit_s)
            yield Comparison(kind, answer, classic_makespans(candidates))


def placements(problem: PipelineProblem, *, is_free: bool) -> list[Candidate]:
    """The problem as it is, or that and both ways to cut its stages in two."""
    if not is_free:
        return [Candidate(AS_POSTED, problem)]
    return [
        Candidate(Placement.ONE_CHUNK, problem),
        Candidate(Placement.INTERLEAVED, interleaved(problem)),
        Candidate(Placement.V_SHAPE, v_shape(problem)),
    ]


def classic_makespans(candidates: Sequence[Candidate]) -> list[tuple[int, str]]:
    """Makespan (ns) and name of all classic schedules that fit in these placements, however long
    it takes to make them."""
    return [
        (row.timed.makespan_ns, row.name)
        for candidate in candidates
        for row in comparison_rows(candidate.problem)
        if row.fits and not row.hypothetical and row.timed is not None
    ]
