"""Plans of 128 stages and 512 micro-batches: afresh within 60 s, from a running plan within 10 s.

    python -m benchmarks.replanning_scale [--stages N] [--micro-batches N] [--cold-s S]
                                          [--warm-s S] [CASE ...]

Each case is planned afresh. Then every time of its stages moves by up to 10 %, one stage becomes
30 % slower, and it is planned again from the plan that it has. Writes
`results/replanning-scale.md`: the wall time with everything from the request's JSON to the
answer's, the gap to the best bound, what the running orders would take, and the load of the
machine meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.common import FOLDER, parser_for
from planner.pipeline.options import SolverDocument
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer
from planner.pipeline.replan import running_start
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.progress import SilentReporter, never

RESULTS: Path = FOLDER / "results" / "replanning-scale.md"
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
    "limit (s)",
    "wall (s)",
    "CPU (s)",
    "makespan (ms)",
    "gap",
    "running orders (ms)",
    "waits proven",
    "load",
)


def main() -> int:
    """Run the benchmark from the command line."""
    parser = parser_for(__doc__)
    parser.add_argument("--stages", type=int, default=128)
    parser.add_argument("--micro-batches", type=int, default=512)
    parser.add_argument("--cold-s", type=float, default=60.0)
    parser.add_argument("--warm-s", type=float, default=10.0)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    head = f"# Re-planning {arguments.stages} stages x {arguments.micro_batches} micro-batches"
    lines = [head, "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    print("\n".join(lines))
    for case in arguments.cases:
        problem = _problem(arguments.stages, arguments.micro_batches, **CASES[case])
        plan, measured = _solved(problem, arguments.cold_s, None)
        lines.append(_line([case, "afresh", *measured]))
        print(lines[-1], flush=True)
        for straggler in (None, arguments.stages // 2):
            changed = _drifted(problem, straggler)
            _, measured = _solved(changed, arguments.warm_s, plan["schedule"])
            name = "drifted" if straggler is None else "drifted, straggler"
            lines.append(_line([case, name, *measured]))
            print(lines[-1], flush=True)
        RESULTS.write_text("\n".join(lines) + "\n")
    return 0


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
    problem: PipelineProblem, limit_s: float, running: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[str]]:
    """The answer's document, and the cells of its line from the limit on."""
    options = SolverDocument(time_limit_s=limit_s).resolve()
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), options)
    order = json.dumps(
        {
            "spec": spec.to_document(),
            "start": None if running is None else running_start(running),
        }
    )
    began, began_cpu = time.monotonic(), time.process_time()
    received = json.loads(order)
    answer = run(received["spec"], SilentReporter(), never, received["start"])
    json.dumps(answer)
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
    document = answer["document"]
    certificate = document["certificate"]
    origin = document["provenance"]["started_from"]
    return document, [
        f"{limit_s:g}",
        f"{wall_s:.1f}",
        f"{cpu_s:.1f}",
        f"{certificate['value_ns'] / 1e6:.1f}",
        f"{certificate['gap']:.2%}",
        "–" if origin is None else f"{origin['objective_ns'] / 1e6:.1f}",
        "yes" if certificate["memory_safe_under_jitter"] else "no",
        f"{os.getloadavg()[0]:.1f}",
    ]


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
