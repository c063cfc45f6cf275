"""How many random problems of a size are solved to proven optimality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.ablation.courses import Course, courses
from benchmarks.ablation.variants import AUTO, HEURISTICS

MS = 1_000_000
ACTIVATION_BYTES = 64 * 2**20
ENGINES = ("+ CBC", "+ CP-SAT", AUTO)


@dataclass(frozen=True)
class Rate:
    """Of `problems` random problems with so many stages and micro-batches: how many each variant
    proved, the runs that were made, and the best gap (0 to 1) of each problem."""

    stages: int
    micro_batches: int
    problems: int
    proven: Mapping[str, int]
    runs: Sequence[Sequence[Course]]


def proof_rate(stages: int, micro_batches: int, problems: int, limit_s: float) -> Rate:
    """Solve random problems of one size by the heuristics and, where these do not prove their
    schedule optimal, with each engine. What the heuristics prove counts for all: every variant
    begins with them."""
    runs = [
        list(_runs(random_problem(stages, micro_batches, seed), limit_s, f"random {seed}"))
        for seed in range(problems)
    ]
    proven = {
        variant: sum(
            own[0].proven_s is not None
            or any(run.variant == variant and run.proven_s is not None for run in own)
            for own in runs
        )
        for variant in (HEURISTICS, *ENGINES)
    }
    return Rate(stages, micro_batches, problems, proven, runs)


def _runs(problem: Mapping[str, Any], limit_s: float, name: str) -> Iterator[Course]:
    for run in courses(name, problem, limit_s, (HEURISTICS,)):
        yield run
        if run.proven_s is None:
            yield from courses(name, problem, limit_s, ENGINES)


def random_problem(stages: int, micro_batches: int, seed: int) -> dict[str, Any]:
    """One stage per device. F, B and W of each stage take 4 to 12 ms (whole, drawn alone), a hop
    1 ms. A device holds 50 to 100 % of the activations that 1F1B holds there, at least one. In
    every second problem all stages may offload, each way in 4 to 12 ms."""
    draw = Random(seed)
    offload = seed % 2 == 1

    def stage(number: int) -> dict[str, Any]:
        times = {
            name: draw.randint(4, 12) * MS
            for name in ("forward_ns", "backward_input_ns", "backward_weight_ns")
        }
        moved_ns = draw.randint(4, 12) * MS
        moved = {"offload_bytes": ACTIVATION_BYTES, "offload_ns": moved_ns, "reload_ns": moved_ns}
        return {
            "device": number,
            **times,
            "activation_bytes": ACTIVATION_BYTES,
            "weight_grad_bytes": ACTIVATION_BYTES // 2,
            **(moved if offload else {}),
        }

    share = draw.uniform(0.5, 1.0)
    held = [min(micro_batches, stages - number) for number in range(stages)]
    return {
        "micro_batches": micro_batches,
        "devices": [
            {"activation_memory_bytes": max(1, round(share * own)) * ACTIVATION_BYTES}
            for own in held
        ],
        "stages": [stage(number) for number in range(stages)],
        "transfers": [{"forward_ns": MS, "backward_ns": MS}] * (stages - 1),
    }
