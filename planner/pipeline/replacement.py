"""What a new schedule saves over the one that runs, on a profile that is known only so well.

Both are executed in their orders and waits, as early as those allow, on the same problem: once as
it is, and then on samples of it. A sample multiplies all times of a stage by one factor, drawn
normally with the standard error of that stage's estimate; both schedules see the same samples, so
that what they share cancels (common random numbers). Memory is not looked at: the one runs, the
other has been verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from planner.errors import OrderError
from planner.pipeline.kernel.tables import (
    BACKWARD,
    DURATION,
    FORWARD,
    KINDS,
    OFFLOAD,
    RELOAD,
    WEIGHT,
    tables_of,
    timed_columns,
)
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.execution import Execution
from planner.pipeline.robust.jitter import EDGES_TO_FOLLOW, FEWEST_SAMPLES
from planner.pipeline.robust.precedence import PrecedenceGraph
from planner.pipeline.schedule import Schedule, ops_of_document, waits_of_document
from planner.pipeline.timing import time_orders
from planner.progress import StopCheck, check, never

MOST_SAMPLES = 200
LOW_QUANTILE = 0.1
LEAST_FACTOR = 0.1
BASIS = (
    "both schedules executed in their orders on the profile of this problem, and on samples of it "
    "within its noise; gain_low is the 10 % quantile"
)


@dataclass(frozen=True)
class Replacement:
    """The objective of the running and of the new schedule (ns), and the share of the former that
    the latter saves: as measured, and what nine in ten samples exceed. `noise` is the relative
    standard error of each stage; `running_fits` whether the running order keeps the problem's
    memory limits, and where it does not `running_peaks_bytes` what it takes by device."""

    running_ns: int
    candidate_ns: int
    gain: float
    gain_low: float
    samples: int
    noise: tuple[float, ...]
    running_fits: bool
    running_peaks_bytes: tuple[int, ...] | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        figures = {"gain": round(self.gain, 6), "gain_low": round(self.gain_low, 6)}
        peaks = self.running_peaks_bytes
        return {
            **asdict(self),
            **figures,
            "noise": list(self.noise),
            "running_peaks_bytes": None if peaks is None else list(peaks),
            "basis": BASIS,
        }


def running_schedule(document: Mapping[str, Any]) -> Schedule:
    """The schedule that a document describes, with its waits if it has any; no figures."""
    waits = waits_of_document(document.get("waits") or ())
    return Schedule(ops_of_document(document["ops"]), 0, 0, (), (), waits)


def replacement(
    problem: PipelineProblem,
    running: Schedule,
    candidate: Schedule,
    noise: Sequence[float],
    *,
    running_fits: bool,
    candidate_graph: PrecedenceGraph | None = None,
    seed: int = 0,
    should_stop: StopCheck = never,
) -> Replacement:
    """Compare two schedules of the problem's shape on the problem and on samples of it.

    `running` may have been made for other times and sizes; `noise` has one relative standard error
    per stage; `candidate_graph` is that of the candidate with its waits, where it is known. The
    number of samples depends on the schedules' sizes only. Raises `OrderError` if `running` is not
    of the problem's shape, `Interrupted` if told to stop.
    """
    _check_shape(problem, running)
    one = Execution(problem, running)
    check(should_stop)
    other = Execution(problem, candidate, graph=candidate_graph)
    check(should_stop)
    exact = np.ones(len(problem.stages))
    running_ns, candidate_ns = one.scaled_ns(exact), other.scaled_ns(exact)
    affordable = EDGES_TO_FOLLOW // max(1, len(one.graph.before) + len(other.graph.before))
    count = min(MOST_SAMPLES, max(FEWEST_SAMPLES, affordable))
    random = np.random.default_rng(seed)
    gains = []
    for _ in range(count):
        check(should_stop)
        factors = 1 + np.asarray(noise) * random.standard_normal(len(problem.stages))
        factors = np.maximum(factors, LEAST_FACTOR)
        gains.append(_gain(one.scaled_ns(factors), other.scaled_ns(factors)))
    gains.sort()
    return Replacement(
        running_ns=round(running_ns),
        candidate_ns=round(candidate_ns),
        gain=_gain(running_ns, candidate_ns),
        gain_low=gains[ceil(LOW_QUANTILE * count) - 1],
        samples=count,
        noise=tuple(noise),
        running_fits=running_fits,
        running_peaks_bytes=None if running_fits else _peaks_bytes(problem, running),
    )


def _peaks_bytes(problem: PipelineProblem, schedule: Schedule) -> tuple[int, ...]:
    """What each device holds at most where the schedule's orders run as early as they can."""
    orders = orders_of(problem, schedule.ops)
    return time_orders(problem, orders, enforce_memory=False).peak_memory_bytes


def _gain(running_ns: float, candidate_ns: float) -> float:
    return 1 - candidate_ns / running_ns if running_ns else 0.0


def _check_shape(problem: PipelineProblem, schedule: Schedule) -> None:
    tables = tables_of(problem)
    numbers, _, _ = timed_columns(tables, schedule.ops)
    _, stages, micro_batches, _, _ = zip(*schedule.ops, strict=True)
    for values, size in ((stages, tables.stages), (micro_batches, tables.micro_batches)):
        if min(values) < 0 or max(values) >= size:
            raise OrderError("the schedule has stages or micro-batches that this problem has not")
    counts = np.bincount(numbers, minlength=len(tables.ops)).reshape(len(KINDS), -1)
    has_weight = tables.ops[:, DURATION].reshape(len(KINDS), -1)[WEIGHT] > 0
    if (
        (counts[[FORWARD, BACKWARD]] != 1).any()
        or (counts[WEIGHT] != has_weight).any()
        or (counts[RELOAD] > (tables.can_offload > 0)).any()
        or (counts[OFFLOAD] != counts[RELOAD]).any()
    ):
        raise OrderError("the schedule does not have each operation of this problem once")
