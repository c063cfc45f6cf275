"""Classic schedules, AdaOffload and the planner's answer for a model on a cluster, each verified
once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.verified import wrong_in_schedule
from planner.cost.hardware import Cluster, read_cluster
from planner.errors import OrderError
from planner.pipeline.adaoffload import adaoffload
from planner.pipeline.classic.rows import comparison_rows
from planner.pipeline.documents import read_problem
from planner.pipeline.kernel.tables import compute_durations, tables_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.schedule import Schedule
from planner.pipeline.solve import run
from planner.pipeline.spec import PipelineSpec
from planner.pipeline.verify import verify
from planner.progress import SilentReporter, never

CLASSIC = ("1F1B", "ZB-H1", "PipeOffload")
ADAOFFLOAD, OURS = "AdaOffload", "Loadmaster"


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, in bf16 with Adam; `micro_batches` per iteration."""

    model: str
    micro_batches: int = 32
    micro_batch_size: int = 1
    sequence: int = 1024
    flash_attention: bool = False
    recomputation: str = "none"

    @property
    def samples(self) -> int:
        """Samples of one iteration."""
        return self.micro_batches * self.micro_batch_size

    def request(self, cluster: str, search_iterations: int) -> dict[str, Any]:
        """The body of a request for a plan, one stage (or several) on each GPU of the cluster. With
        iterations instead of a time limit the plan does not depend on the machine."""
        return {
            "model": {"preset": self.model, "sequence": self.sequence},
            "cluster": cluster,
            "training": {
                "micro_batch_size": self.micro_batch_size,
                "micro_batches": self.micro_batches,
                "pipeline_parallel": read_cluster(cluster).gpus,
                "flash_attention": self.flash_attention,
                "recomputation": self.recomputation,
            },
            "solver": {"search_iterations": search_iterations, "threads": 1},
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """A schedule. Of one that does not fit the figures say what it would be with memory enough.

    `peak_bytes` is the most that any GPU holds: parameters, gradients, optimizer states and
    activations. `bubble` is the idle share: 1 - compute time of all GPUs / (GPUs x makespan).
    `wrong` is what the verifier has against a schedule that fits.
    """

    makespan_ns: int
    peak_bytes: int
    bubble: float
    fits: bool
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """All schedules of a setting by name; one that cannot be made is missing. `bound_ns` is proven
    for every placement, 0 where nothing fits."""

    setting: Setting
    schedules: Mapping[str, Outcome]
    bound_ns: int

    def fitting(self, name: str) -> Outcome | None:
        """The schedule of this name, if there is one that fits."""
        outcome = self.schedules.get(name)
        return outcome if outcome is not None and outcome.fits else None

    @property
    def gap(self) -> float:
        """How far our makespan may be above the least one, as its share; 0 is proven. Raises
        `KeyError` where nothing fits."""
        makespan_ns = self.schedules[OURS].makespan_ns
        return (makespan_ns - self.bound_ns) / makespan_ns

    @property
    def bubble_at_bound(self) -> float:
        """The bubble below which no schedule can be. Raises `KeyError` where nothing fits."""
        ours = self.schedules[OURS]
        return 1 - (1 - ours.bubble) * ours.makespan_ns / self.bound_ns

    def gain_over(self, name: str) -> float | None:
        """Share by which our iteration is shorter; None unless both fit."""
        ours, other = self.fitting(OURS), self.fitting(name)
        if ours is None or other is None:
            return None
        return 1 - ours.makespan_ns / other.makespan_ns

    def most_over(self, name: str) -> float | None:
        """Share by which any schedule can be shorter, if that one fits."""
        other = self.fitting(name)
        return None if other is None or not self.bound_ns else 1 - self.bound_ns / other.makespan_ns

    def samples_per_s(self, outcome: Outcome) -> float:
        """Samples of all GPUs together."""
        return self.setting.samples / outcome.makespan_ns * 1e9

    def complaints(self) -> Iterator[str]:
        """What must not be: a plan that breaks a rule, and a classic schedule that beats ours."""
        for name, outcome in self.schedules.items():
            if outcome.wrong is not None:
                yield f"{self.setting}: {name}: {outcome.wrong}"
        ours = self.fitting(OURS)
        for name in CLASSIC:
            other = self.fitting(name)
            if other is not None and (ours is None or ours.makespan_ns > other.makespan_ns):
                yield f"{self.setting}: {name} is better than {OURS}"


def measured(
    setting: Setting, cluster: str, search_iterations: int, *, with_adaoffload: bool = False
) -> Measured:
    """Every schedule at its best placement."""
    request = resolve_request(setting.request(cluster, search_iterations))
    hardware = read_cluster(cluster)
    schedules = classic_outcomes(request.resolved, hardware)
    if with_adaoffload and (found := _adaoffload_outcome(request.resolved, hardware)):
        schedules[ADAOFFLOAD] = found
    answer = run(request.spec, SilentReporter(), never)
    if answer["state"] != "succeeded":
        return Measured(setting, schedules, 0)
    document = answer["document"]
    plan = document["schedule"]
    problem = read_problem(document["problem"])
    schedules[OURS] = replace(
        _outcome(problem, hardware, plan["makespan_ns"], plan["peak_memory_bytes"], fits=True),
        wrong=wrong_in_schedule(document["problem"], plan),
    )
    return Measured(setting, schedules, answer["lower_bound"])


def classic_outcomes(spec: PipelineSpec, cluster: Cluster) -> dict[str, Outcome]:
    """Of each classic schedule the placement where it fits and is shortest."""
    found: dict[str, list[Outcome]] = {name: [] for name in CLASSIC}
    for candidate in spec.candidates:
        for row in comparison_rows(candidate.problem):
            timed = row.timed
            # A hypothetical row is another candidate's own.
            if row.name not in found or row.hypothetical or timed is None:
                continue
            outcome = _outcome(
                row.problem, cluster, timed.makespan_ns, timed.peak_memory_bytes, fits=row.fits
            )
            if row.fits:
                outcome = replace(outcome, wrong=_wrong(row.problem, timed.schedule))
            found[row.name].append(outcome)
    return {name: min(outcomes, key=_rank) for name, outcomes in found.items() if outcomes}


def _adaoffload_outcome(spec: PipelineSpec, cluster: Cluster) -> Outcome | None:
    """AdaOffload at its best placement; None where it finds no schedule."""
    outcomes = []
    for candidate in spec.candidates:
        problem = candidate.problem
        try:
            schedule = adaoffload(problem)
        except OrderError:
            continue
        outcome = _outcome(
            problem, cluster, schedule.makespan_ns, schedule.peak_memory_bytes, fits=True
        )
        outcomes.append(replace(outcome, wrong=_wrong(problem, schedule)))
    return min(outcomes, key=_rank, default=None)


def _rank(outcome: Outcome) -> tuple[bool, int]:
    return not outcome.fits, outcome.makespan_ns


def _wrong(problem: PipelineProblem, schedule: Schedule) -> str | None:
    return next(map(str, verify(problem, schedule)), None)


def _outcome(
    problem: PipelineProblem,
    cluster: Cluster,
    makespan_ns: int,
    peak_memory_bytes: Iterable[int],
    *,
    fits: bool,
) -> Outcome:
    """What a device has left for activations is its memory without reserve and model states."""
    usable_bytes = cluster.memory_bytes - cluster.reserved_bytes
    limits = [device.activation_memory_bytes or 0 for device in problem.devices]
    busy_ns = int(compute_durations(tables_of(problem)).sum())
    return Outcome(
        makespan_ns=makespan_ns,
        peak_bytes=max(
            usable_bytes - limit + peak
            for limit, peak in zip(limits, peak_memory_bytes, strict=True)
        ),
        bubble=1 - busy_ns / (len(problem.devices) * makespan_ns),
        fits=fits,
    )
