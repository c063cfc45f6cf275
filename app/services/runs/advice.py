"""What a run's telemetry says beyond its plan: what is wrong with it, and which shape would be
faster. Worked out when somebody asks, and loaded no earlier."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.callers import Caller
from app.database import Database
from app.errors import RunWithoutPlan
from app.repositories.run_rows import RunReader
from app.services.resolutions import json_text
from app.services.runs.stored import (
    row_of,
    stored_plan,
    stored_request,
    stored_samples,
    stored_state,
)
from planner.following.drift import drifts
from planner.following.estimates import LEAST_SAMPLES, estimates_of
from planner.following.profile import fresh_problem, limit_changes
from planner.following.state import RunState, same_shape
from planner.following.telemetry import ITERATION_NS, PLAN_VERSION, TIMES, Sample
from planner.following.versions import VersionState
from planner.pipeline.problem import PipelineProblem

if TYPE_CHECKING:
    from planner.diagnoses.telemetry import IterationSample
    from planner.following.partitions import Layers
    from planner.following.shapes import Elasticity

PROPOSING_S = 10.0
"""After so long what was found by then is answered."""
SIZES = (
    "activation_bytes",
    "weight_grad_bytes",
    "backward_workspace_bytes",
    "offload_bytes",
)
REQUIRED_TIMES = ("forward_ns", "backward_input_ns")
STAGE_FIGURES = ("peak_memory_bytes", "memory_limit_bytes", "link_busy_share", "gpu_utilisation")


@dataclass(frozen=True)
class _Known:
    """A run's state, its window, its request, and the plan that ranks run, which there is, with its
    version."""

    state: RunState
    samples: Sequence[Sample]
    request: Mapping[str, Any]
    version: int
    plan: Mapping[str, Any]


class RunAdvice:
    """Answers about runs that take some work."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def diagnosis(self, caller: Caller, run_id: str) -> str:
        """Likely causes of what is wrong, as JSON text. Raises `RunWithoutPlan`."""
        from planner.diagnoses.diagnose import diagnose
        from planner.diagnoses.request import DiagnosisRequest
        from planner.pipeline.documents import read_problem
        from planner.pipeline.schedule import TimedOp

        known = self._known(caller, run_id)
        planned = read_problem(known.plan["problem"])
        fresh = measured_problem(known.state, known.samples)
        ops = known.plan["schedule"]["ops"]
        _, elasticity = shape_of(known.request, len(known.state.base.stages))
        request = DiagnosisRequest(
            problem=with_memory_of(planned, fresh),
            ops=tuple(TimedOp(*(op[name] for name in TimedOp._fields)) for op in ops),
            plan_versions=versions_by_stage(known.samples),
            telemetry=iterations_of(known.samples),
            rolled_back=rolled_back_on_this(known.state, known.samples),
            micro_batch_size=elasticity.micro_batch_size,
            # A plan may have been made for a slow GPU's times: judged by those, it is as planned.
            expected=known.state.base if same_shape(planned, known.state.base) else None,
            plan_version=known.version,
        )
        return json_text(diagnose(request).to_document())

    def proposals(self, caller: Caller, run_id: str) -> str:
        """Other shapes that would be faster, as JSON text. Raises `RunWithoutPlan`."""
        from planner.following.elastic import IMBALANCE, imbalance, propose
        from planner.pipeline.replacement import running_schedule

        known = self._known(caller, run_id)
        state = known.state
        problem = measured_problem(state, known.samples, state.settings.memory_headroom)
        layers, elasticity = shape_of(known.request, len(problem.stages))
        ends = time.monotonic() + PROPOSING_S
        proposals = propose(
            problem,
            running_schedule(known.plan["schedule"]),
            layers,
            elasticity,
            lambda: time.monotonic() >= ends,
        )
        document = proposals.to_document()
        return json_text(
            {
                "imbalance": imbalance(problem),
                "threshold": IMBALANCE,
                **document,
                "notes": [measured_note(state, known.samples), *document["notes"]],
            }
        )

    def _known(self, caller: Caller, run_id: str) -> _Known:
        with self._database.reading() as session:
            connection = session.connection()
            reader = RunReader(connection)
            row = row_of(reader, caller, run_id)
            version = row.running_version or row.newest_version
            plan = stored_plan(reader, run_id, version)
            if version is None or plan is None:
                raise RunWithoutPlan("Ask again once there is one.", headers={"Retry-After": "2"})
            state = stored_state(reader, run_id)
            samples = stored_samples(connection, row, state)
            return _Known(state, samples, stored_request(reader, run_id), version, plan)


def measured_problem(
    state: RunState, samples: Sequence[Sample], memory_headroom: float = 0.0
) -> PipelineProblem:
    """The run's problem with what its stages take and may use by now."""
    estimates = {**state.anchor, **estimates_of(samples, state.counts)}
    changes = limit_changes(state.base, state.memory_limits, state.limits_solved_for)
    return fresh_problem(state.base, estimates, memory_headroom, changes)


def measured_note(state: RunState, samples: Sequence[Sample]) -> str:
    """What the times of `measured_problem` rest on."""
    measured = {stage for stage, name in estimates_of(samples, state.counts) if name in TIMES}
    counted = {sample.iteration for sample in samples if state.counts(sample.iteration)}
    if not measured:
        source = "those that the newest plan was made for" if state.anchor else "as posted"
        return (
            f"Nothing is measured yet: all times are {source}. Iterations count after "
            f"{state.settings.warm_up} of warm-up, from {LEAST_SAMPLES} on."
        )
    words = (
        f"Times are measured: medians of {len(counted)} iterations, {min(counted)} to "
        f"{max(counted)}"
    )
    others = [stage for stage in range(len(state.base.stages)) if stage not in measured]
    if not others:
        return f"{words}."
    return f"{words}; those of stages {', '.join(map(str, others))} are not."


def rolled_back_on_this(state: RunState, samples: Sequence[Sample]) -> tuple[int, ...]:
    """The version that was rolled back last, if stages take now what they took then."""
    profile = {**state.anchor, **estimates_of(samples, state.counts)}
    if state.rolled_back_on is None or drifts(state.base, state.rolled_back_on, profile, {}):
        return ()
    rolled_back = [v.number for v in state.versions if v.state is VersionState.ROLLED_BACK]
    return tuple(rolled_back[-1:])


def with_memory_of(planned: PipelineProblem, fresh: PipelineProblem) -> PipelineProblem:
    """The problem of a plan, whose times are as they were planned, with sizes and limits as they
    are now; as it is where the run has had another shape since."""
    if not same_shape(planned, fresh):
        return planned
    stages = [
        replace(stage, **{name: getattr(now, name) for name in SIZES})
        for stage, now in zip(planned.stages, fresh.stages, strict=True)
    ]
    return replace(planned, devices=fresh.devices, hosts=fresh.hosts, stages=tuple(stages))


def versions_by_stage(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Which version each stage ran in the newest iteration that several of them told of: after a
    swap at one iteration, other iterations may differ."""
    told: dict[int, dict[int, int]] = defaultdict(dict)
    for sample in samples:
        if PLAN_VERSION in sample.values:
            told[sample.iteration][sample.stage] = int(sample.values[PLAN_VERSION])
    shared = [iteration for iteration, stages in told.items() if len(stages) > 1]
    if not shared:
        return ()
    return tuple(version for _, version in sorted(told[max(shared)].items()))


def iterations_of(samples: Sequence[Sample]) -> tuple[IterationSample, ...]:
    """The samples as diagnoses read them; stages that do not tell their times are left out."""
    from planner.diagnoses.telemetry import IterationSample, StageSample

    def time_ns(sample: Sample, name: str) -> int | None:
        value = sample.values.get(name)
        return None if value is None else int(value)

    stages: dict[int, list[StageSample]] = defaultdict(list)
    spans: dict[int, int] = {}
    for sample in sorted(samples, key=lambda one: (one.iteration, one.stage)):
        forward, backward = (time_ns(sample, name) for name in REQUIRED_TIMES)
        span = time_ns(sample, ITERATION_NS)
        if span is not None:
            spans[sample.iteration] = span
        if forward is None or backward is None:
            continue
        figures: dict[str, Any] = {name: sample.values.get(name) for name in STAGE_FIGURES}
        stages[sample.iteration].append(
            StageSample(
                stage=sample.stage,
                forward_ns=forward,
                backward_input_ns=backward,
                backward_weight_ns=time_ns(sample, "backward_weight_ns") or 0,
                offload_ns=time_ns(sample, "offload_ns"),
                reload_ns=time_ns(sample, "reload_ns"),
                **figures,
            )
        )
    return tuple(
        IterationSample(iteration, tuple(own), spans.get(iteration))
        for iteration, own in stages.items()
    )


def shape_of(request: Mapping[str, Any], stages: int) -> tuple[Layers | None, Elasticity]:
    """What the stages are made of and the size of a micro-batch, as far as the request says: of a
    posted problem nothing is known, so that only the number of micro-batches may change."""
    from planner.cost.resolve import resolve
    from planner.following.partitions import Layers
    from planner.following.shapes import Elasticity

    if "model" not in request:
        return None, Elasticity()
    resolved = resolve(request["model"], request["cluster"], request.get("training") or {})
    elasticity = Elasticity(micro_batch_size=resolved.training.micro_batch_size)
    for candidate in resolved.candidates:
        if len(candidate.layers_per_stage) == stages:
            of_layers = [
                candidate.static_bytes[stage.device] // count
                for stage, count in zip(
                    candidate.problem.stages, candidate.layers_per_stage, strict=True
                )
            ]
            return Layers(candidate.layers_per_stage, min(of_layers)), elasticity
    return None, elasticity
