"""What is to be diagnosed: symptoms, the plan and its problem, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from planner.cost.build import CostModel
from planner.cost.spec import read_cost_model
from planner.diagnoses.documents import DiagnosisDocument, RunningOperationDocument
from planner.diagnoses.names import Symptom
from planner.diagnoses.telemetry import IterationSample, StageSample
from planner.documents import spec_error_from
from planner.errors import SpecError
from planner.export.torch_csv.cells import Cell, parsed
from planner.following.telemetry import (
    IterationTelemetry,
    Measure,
    StageTelemetry,
    Statistics,
)
from planner.pipeline.options import SolveOptions
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import ResolvedRequest, resolve_request
from planner.pipeline.schedule import TimedOp
from planner.pipeline.spec import Candidate

KINDS = frozenset("FBIWOR")
LONGEST_CELL = 16
MOST_CELLS = 50_000
MODEL_FIELDS = ("model", "cluster", "training")


@dataclass(frozen=True, slots=True)
class ThroughputPoint:
    """Throughput measured on a number of devices."""

    devices: int
    tokens_per_s: float
    nodes: int | None = None
    pipeline_parallel: int | None = None
    micro_batches: int | None = None


@dataclass(frozen=True, slots=True)
class SolveObservation:
    """How a solve went: seconds, and the proven gap of its best plan (None: there is no plan)."""

    spent_s: float | None = None
    gap: float | None = None
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Described:
    """The model, cluster and training that a problem was made from; `training` as posted."""

    costs: CostModel
    training: Mapping[str, Any]


@dataclass(frozen=True)
class DiagnosisRequest:
    """Everything a diagnosis may use; what is not known is None or empty.

    `ops` is the plan that runs, `orders` what each rank runs in PyTorch's notation, and
    `plan_versions` the version of the plan that each rank runs. `static_shortage` says who is
    short where the states of the model alone exceed a device. `rolled_back` are versions of the
    plan that were made for these numbers and measured to be slower than what runs. `expected` is
    what stages and copies were expected to take, in the shape of `problem`, where the plan was made
    for other times since, and `plan_version` says which plan of a run that is. With no `symptoms`
    they are found from the numbers.
    """

    symptoms: tuple[Symptom, ...] = ()
    problem: PipelineProblem | None = None
    ops: tuple[TimedOp, ...] | None = None
    orders: tuple[tuple[Cell, ...], ...] | None = None
    plan_versions: tuple[int, ...] = ()
    telemetry: tuple[IterationSample, ...] = ()
    described: Described | None = None
    static_shortage: Mapping[str, Any] | None = None
    options: SolveOptions | None = None
    throughput: tuple[ThroughputPoint, ...] = ()
    solve: SolveObservation | None = None
    rolled_back: tuple[int, ...] = ()
    micro_batch_size: int | None = None
    expected: PipelineProblem | None = None
    plan_version: int | None = None


def read_request(body: Mapping[str, Any]) -> DiagnosisRequest:
    """Check a body and resolve the plan context in it.

    Raises `SpecError` that names the field at fault and the remedy.
    """
    try:
        document = DiagnosisDocument.model_validate(body)
    except ValidationError as error:
        raise spec_error_from(error) from error
    _check_says_something(document)
    _check_stages_once(document.telemetry)
    resolved = _resolved(body)
    problem = None if resolved is None else _problem(resolved, document)
    schedule, solve = document.schedule, document.solve
    if schedule is not None:
        _check_schedule(problem, schedule.ops)
    if problem is not None:
        _check_telemetry(problem, document)
    described = _described(document)
    return DiagnosisRequest(
        symptoms=tuple(dict.fromkeys(document.symptoms)),
        problem=problem,
        ops=None if schedule is None else tuple(TimedOp(**dict(op)) for op in schedule.ops),
        orders=_orders(document.orders) if document.orders else None,
        plan_versions=tuple(document.plan_versions) or _versions(document.telemetry),
        telemetry=tuple(map(_sample, document.telemetry)),
        described=described,
        micro_batch_size=described.costs.training.micro_batch_size if described else None,
        static_shortage=resolved.resolved.static_shortage if resolved else None,
        options=document.solver.resolve(),
        throughput=tuple(ThroughputPoint(**dict(point)) for point in document.throughput),
        solve=None
        if solve is None
        else SolveObservation(solve.spent_s, solve.gap, tuple(solve.log)),
    )


def _check_says_something(document: DiagnosisDocument) -> None:
    fields = document.model_fields_set - {"solver", "placement"}
    if not any(getattr(document, name) for name in fields):
        raise SpecError(
            ("symptoms",),
            "is missing, and there are no numbers to find symptoms from.",
            f"Name one or more of {', '.join(Symptom)}, or give `telemetry`, a plan or other "
            "numbers.",
        )


def _resolved(body: Mapping[str, Any]) -> ResolvedRequest | None:
    """The posted problem or, where there is none, that of the model; None without either."""
    given = {name: value for name, value in body.items() if value is not None}
    source = ["problem"] if "problem" in given else [n for n in MODEL_FIELDS if n in given]
    if not source:
        return None
    return resolve_request({name: given[name] for name in (*source, "solver") if name in given})


def _described(document: DiagnosisDocument) -> Described | None:
    """What the problem was made from; beside a posted problem it may be given as well."""
    if document.model is None and document.cluster is None and document.training is None:
        return None
    if document.model is None or document.cluster is None:
        missing = "model" if document.model is None else "cluster"
        raise SpecError((missing,), "is missing.", "Give `model` and `cluster`, or neither.")
    training = document.training or {}
    return Described(read_cost_model(document.model, document.cluster, training), training)


def _problem(resolved: ResolvedRequest, document: DiagnosisDocument) -> PipelineProblem | None:
    """The problem of the placement that is asked for or that fits the number of stages; the first
    where nothing says which."""
    candidates = resolved.resolved.candidates
    if not candidates:
        return None
    if document.placement is not None:
        return _placed(candidates, document.placement).problem
    stages = 1 + max(
        [
            *(op.stage for op in (document.schedule.ops if document.schedule else ())),
            *(own.stage for sample in document.telemetry for own in sample.stages),
        ],
        default=-1,
    )
    fitting = (own for own in candidates if len(own.problem.stages) == stages)
    return next(fitting, candidates[0]).problem


def _placed(candidates: Sequence[Candidate], placement: str) -> Candidate:
    for candidate in candidates:
        if candidate.placement == placement:
            return candidate
    names = ", ".join(candidate.placement for candidate in candidates)
    raise SpecError(("placement",), f"there is no {placement!r} here.", f"Name one of {names}.")


def _check_schedule(
    problem: PipelineProblem | None, ops: Sequence[RunningOperationDocument]
) -> None:
    if problem is None:
        raise SpecError(
            ("schedule",),
            "belongs to no problem.",
            "Give the `problem` that it is a schedule of, or `model` and `cluster`.",
        )
    for i, op in enumerate(ops):
        for field, count in (
            ("stage", len(problem.stages)),
            ("micro_batch", problem.micro_batches),
        ):
            if getattr(op, field) >= count:
                raise SpecError(
                    ("schedule", "ops", i, field),
                    f"there is no {field.replace('_', '-')} {getattr(op, field)}.",
                    f"The problem has {count}, counted from 0.",
                )


def _check_telemetry(problem: PipelineProblem, document: DiagnosisDocument) -> None:
    count = len(problem.stages)
    for i, sample in enumerate(document.telemetry):
        for j, stage in enumerate(sample.stages):
            if stage.stage >= count:
                raise SpecError(
                    ("telemetry", i, "stages", j, "stage"),
                    f"there is no stage {stage.stage}.",
                    f"The problem has {count}, counted from 0. Name the `placement` if it is of "
                    "another one.",
                )


def _check_stages_once(telemetry: Sequence[IterationTelemetry]) -> None:
    for i, sample in enumerate(telemetry):
        seen: set[int] = set()
        for j, stage in enumerate(sample.stages):
            if stage.stage in seen:
                raise SpecError(
                    ("telemetry", i, "stages", j, "stage"),
                    f"stage {stage.stage} of iteration {sample.iteration} appears twice.",
                    "Give each stage once per iteration.",
                )
            seen.add(stage.stage)


def _versions(telemetry: Sequence[IterationTelemetry]) -> tuple[int, ...]:
    """Those that ranks told of the newest iteration with a version."""
    told = [sample for sample in telemetry if sample.plan_version is not None]
    newest = max((sample.iteration for sample in told), default=None)
    return tuple(
        sample.plan_version
        for sample in told
        if sample.iteration == newest and sample.plan_version is not None
    )


def _sample(document: IterationTelemetry) -> IterationSample:
    stages = tuple(_stage_sample(stage) for stage in document.stages)
    return IterationSample(document.iteration, stages, document.iteration_ns)


def _stage_sample(document: StageTelemetry) -> StageSample:
    return StageSample(
        stage=document.stage,
        forward_ns=_typical_ns(document.forward_ns),
        backward_input_ns=_typical_ns(document.backward_input_ns),
        backward_weight_ns=_typical_ns(document.backward_weight_ns),
        offload_ns=_typical_ns(document.offload_ns),
        reload_ns=_typical_ns(document.reload_ns),
        peak_memory_bytes=document.peak_memory_bytes,
        # A limit of nothing says nothing.
        memory_limit_bytes=document.memory_limit_bytes or None,
        link_busy_share=document.link_busy_share,
        gpu_utilisation=document.gpu_utilisation,
    )


def _typical_ns(measure: Measure | None) -> int | None:
    return measure.typical if isinstance(measure, Statistics) else measure


def _orders(document: Sequence[Sequence[str]]) -> tuple[tuple[Cell, ...], ...]:
    count = sum(map(len, document))
    if count > MOST_CELLS:
        raise SpecError(
            ("orders",), f"has {count:,} operations.", f"Give at most {MOST_CELLS:,} of them."
        )
    orders = []
    for rank, row in enumerate(document):
        cells = []
        for position, text in enumerate(row):
            cell = parsed(text)
            if cell is None or cell.kind not in KINDS or len(text) > LONGEST_CELL:
                raise SpecError(
                    ("orders", rank, position),
                    f"{text[:LONGEST_CELL]!r} is no operation.",
                    "Write stage, kind (F, B, I, W, O or R) and micro-batch, as in 2F0.",
                )
            cells.append(cell)
        orders.append(tuple(cells))
    return tuple(orders)
