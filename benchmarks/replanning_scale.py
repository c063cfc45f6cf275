"""Plans of 128 stages and 512 micro-batches: afresh within 60 s, from a running plan within 10 s.

    python -m benchmarks.replanning_scale [--stages N] [--micro-batches N] [--cold-s S]
                                          [--warm-s S] [CASE ...]

Each case is planned afresh. Then every time of its stages moves by up to 10 %, one stage becomes
30 % slower, and it is planned again from the plan that it has. Prints the figures; without
arguments it also writes `results/replanning-scale.md` and `.json`. 1 if a plan takes longer than
it may, or may deadlock or run out of memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from benchmarks.common import is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show
from benchmarks.verified import wrong_in_schedule
from planner.pipeline.documents import problem_to_document
from planner.pipeline.options import SolverDocument
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer
from planner.pipeline.replan import running_start
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.progress import SilentReporter, never

STAGES, MICRO_BATCHES, COLD_S, WARM_S = 128, 512, 60.0, 10.0
OPERATION_NS, HOP_NS = 10_000_000, 1_000_000
ACTIVATION_BYTES = 100 * 2**20
DRIFT, SLOWER = 0.1, 1.3
CASES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "heterogeneous": {"spread": 0.1},
    "uniform, offload": {"memory": 0.5, "offload": True},
    "heterogeneous, offload": {"spread": 0.1, "memory": 0.5, "offload": True},
}
"""`spread` of stage times, `memory` as a share of what 1F1B holds on the first stage."""
COLUMNS = (
    "case",
    "solve",
    "wall (s)",
    "limit (s)",
    "CPU (s)",
    "makespan (ms)",
    "gap",
    "running orders (ms)",
    "load",
    "bars",
)
NOTE = """\
Pipelines of {stages} stages and {count} micro-batches, each planned afresh; then with every time
moved by up to 10 %, and with one stage 30 % slower on top, planned again from the plan that runs.
*Wall* and *CPU* hold everything from the request's JSON to the answer's; the *gap* is to the best
lower bound that was proven; *running orders* is what the plan that runs would take at the new
times; *load* is the machine's load average of a minute. With *offload*, devices have half of the
memory of 1F1B. The bars: the plan is there within its limit, the verifier finds nothing against
it, and its waits are proven to keep ranks within memory and without deadlock whatever the
durations."""


@dataclass(frozen=True)
class Row:
    """One solve: its limit, wall and CPU times (s), the answer's document (empty if it has no
    plan), and what is wrong with its plan, in a sentence; None if nothing is."""

    case: str
    solve: str
    limit_s: float
    wall_s: float
    cpu_s: float
    load: float
    document: Mapping[str, Any]
    wrong: str | None

    @property
    def certificate(self) -> Mapping[str, Any]:
        """What the answer says of its plan."""
        return dict(self.document["certificate"])


def main() -> int:
    """Run the benchmark from the command line; 1 if a bar is missed."""
    parser = parser_for(__doc__)
    parser.add_argument("--stages", type=int, default=STAGES)
    parser.add_argument("--micro-batches", type=int, default=MICRO_BATCHES)
    parser.add_argument("--cold-s", type=float, default=COLD_S)
    parser.add_argument("--warm-s", type=float, default=WARM_S)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    asked = parser.parse_args()
    environment = environment_now()
    size = asked.stages, asked.micro_batches
    rows = []
    for row in solves(asked.cases, *size, asked.cold_s, asked.warm_s):
        rows.append(row)
        print(f"{row.case}, {row.solve}: {row.wall_s:.1f} s", file=sys.stderr, flush=True)
    record = record_of(rows, *size, environment)
    show(record)
    if is_default(parser, asked):
        keep("replanning-scale", record)
    return int(any(missed(row) for row in rows))


def solves(
    cases: Iterable[str], stages: int, count: int, cold_s: float, warm_s: float
) -> Iterator[Row]:
    """Each case afresh, then with times that have moved, then with a straggler on top."""
    for case in cases:
        problem = _problem(stages, count, **CASES[case])
        afresh = _solved(case, "afresh", problem, cold_s, None)
        yield afresh
        if not afresh.document:
            continue
        for name, straggler in (("drifted", None), ("drifted, straggler", stages // 2)):
            changed = _drifted(problem, straggler)
            yield _solved(case, name, changed, warm_s, afresh.document["schedule"])


def missed(row: Row) -> list[str]:
    """The bars that a solve misses."""
    found = []
    if row.wall_s > row.limit_s:
        found.append("time")
    if row.wrong is not None:
        found.append(f"valid ({row.wrong})")
    if row.document and not row.certificate["memory_safe_under_jitter"]:
        found.append("waits proven")
    return found


def record_of(
    rows: Sequence[Row], stages: int, count: int, environment: Mapping[str, str]
) -> Record:
    """The rows as they are kept."""
    return Record(
        title=f"Planning {stages} stages with {count} micro-batches, afresh and again",
        command="python -m benchmarks.replanning_scale",
        note=NOTE.format(stages=stages, count=count),
        tables=[Table("", COLUMNS, [_cells(row) for row in rows])],
        figures=[figure for row in rows for figure in _figures(row)],
        environment=environment,
    )


def _cells(row: Row) -> list[str]:
    return [
        row.case,
        row.solve,
        f"{row.wall_s:.1f}",
        f"{row.limit_s:g}",
        f"{row.cpu_s:.1f}",
        *_plan_cells(row),
        f"{row.load:.1f}",
        "; ".join(f"{bar}: MISSED" for bar in missed(row)) or "met",
    ]


def _plan_cells(row: Row) -> list[str]:
    if not row.document:
        return ["–", "–", "–"]
    origin = row.document["provenance"]["started_from"]
    return [
        f"{row.certificate['value_ns'] / 1e6:.1f}",
        f"{row.certificate['gap']:.2%}",
        "–" if origin is None else f"{origin['objective_ns'] / 1e6:.1f}",
    ]


def _figures(row: Row) -> Iterator[Figure]:
    """What a solve finds within its time depends on how busy the machine is."""
    if not row.document:
        return
    name, makespan_ms = f"{row.case}, {row.solve}", row.certificate["value_ns"] / 1e6
    yield Figure(f"makespan, {name}", makespan_ms, "ms", "less", noise=0.02)
    yield Figure(f"CPU, {name}", row.cpu_s, "s", "less", noise=0.3, least=1.0)


def _problem(
    stages: int, count: int, *, spread: float = 0.0, memory: float = 1.0, offload: bool = False
) -> PipelineProblem:
    random = Random(0)
    moved = ACTIVATION_BYTES if offload else 0

    def level(value: int) -> tuple[int, ...]:
        return (value,) * count

    def stage(device: int) -> Stage:
        forward, backward, weight = (
            level(round(OPERATION_NS * (1 + spread * random.uniform(-1, 1)))) for _ in "FBW"
        )
        return Stage(
            device=device,
            forward_ns=forward,
            backward_input_ns=backward,
            backward_weight_ns=weight,
            activation_bytes=level(ACTIVATION_BYTES),
            weight_grad_bytes=level(ACTIVATION_BYTES // 2),
            backward_workspace_bytes=level(0),
            offload_bytes=level(moved),
            offload_ns=level(OPERATION_NS),
            reload_ns=level(OPERATION_NS),
        )

    limit = int(memory * stages * ACTIVATION_BYTES)
    hops = Transfer(level(HOP_NS), level(HOP_NS))
    return PipelineProblem(
        micro_batches=count,
        devices=(Device(activation_memory_bytes=limit),) * stages,
        stages=tuple(map(stage, range(stages))),
        transfers=(hops,) * (stages - 1),
    )


def _drifted(problem: PipelineProblem, straggler: int | None) -> PipelineProblem:
    random = Random(1)

    def moved(values: tuple[int, ...], factor: float) -> tuple[int, ...]:
        return (round(values[0] * factor * (1 + DRIFT * random.uniform(-1, 1))),) * len(values)

    def measured(s: int, stage: Stage) -> Stage:
        factor = SLOWER if s == straggler else 1.0
        return replace(
            stage,
            forward_ns=moved(stage.forward_ns, factor),
            backward_input_ns=moved(stage.backward_input_ns, factor),
            backward_weight_ns=moved(stage.backward_weight_ns, factor),
        )

    return replace(problem, stages=tuple(measured(*own) for own in enumerate(problem.stages)))


def _solved(
    case: str,
    solve: str,
    problem: PipelineProblem,
    limit_s: float,
    running: Mapping[str, Any] | None,
) -> Row:
    options = SolverDocument(time_limit_s=limit_s).resolve()
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), options)
    start = None if running is None else running_start(running)
    order = json.dumps({"spec": spec.to_document(), "start": start})
    began, began_cpu = time.monotonic(), time.process_time()
    received = json.loads(order)
    answer = run(received["spec"], SilentReporter(), never, received["start"])
    json.dumps(answer)
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
    document: Mapping[str, Any] = {}
    if answer["state"] == "succeeded":
        document = answer["document"]
        wrong = wrong_in_schedule(problem_to_document(problem), document["schedule"])
    else:
        wrong = answer.get("detail", answer["state"])
    return Row(
        case=case,
        solve=solve,
        limit_s=limit_s,
        wall_s=wall_s,
        cpu_s=cpu_s,
        load=os.getloadavg()[0],
        document=document,
        wrong=wrong,
    )


if __name__ == "__main__":
    sys.exit(main())
