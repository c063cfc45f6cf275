"""1F1B and the planner's schedule in real time, with operations padded to the problem's times.

Needs no PyTorch itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from planner.export.format import Source
from planner.export.torch_csv.write import write as torch_csv
from planner.pipeline.classic.schedules import one_forward_one_backward_schedule
from tests.integration.torch import plans
from tests.integration.torch.plans import Answer
from tests.integration.torch.processes import RANKS, run_cases

PADS = {"F": 0.3, "B": 0.54, "I": 0.3, "W": 0.24}
"""Seconds that operations take: long beside the milliseconds of handing a tensor over."""
MICRO_BATCHES = 4
LAYERS = [2] * RANKS
CLASSIC, OURS = "1F1B", "Loadmaster"
NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Timing:
    """A schedule's planned makespan, and what it took each time (s)."""

    planned_s: float
    measured_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The usual attempt."""
        return median(self.measured_s)


def measure(folder: Path, attempts: int) -> dict[str, Timing]:
    """Steps of both schedules, by name, on four processes over gloo."""
    answers = padded_answers()
    cases = {}
    for name, answer in answers.items():
        path = folder / f"{name}.csv"
        path.write_text(torch_csv(answer, Source("pipeline", answer)))
        own = {"path": str(path), "layers": LAYERS, "micro_batches": MICRO_BATCHES}
        cases[name] = {**own, "pads": PADS, "attempts": attempts}
    found, *_ = run_cases(folder, {"timed": cases})
    return {
        name: Timing(answer["schedule"]["makespan_ns"] / NS_PER_S, tuple(found[name]))
        for name, answer in answers.items()
    }


def padded_answers() -> dict[str, Answer]:
    """1F1B, whose backward is one operation, and what the planner finds to be faster, at the times
    of `PADS`."""
    line = tuple(range(RANKS))
    pads_ns = {kind: round(seconds * NS_PER_S) for kind, seconds in PADS.items()}
    forward = {"forward_ns": pads_ns["F"]}
    whole = {
        **plans.FUSED,
        **forward,
        "backward_input_ns": pads_ns["B"],
    }
    split = {**forward, "backward_input_ns": pads_ns["I"], "backward_weight_ns": pads_ns["W"]}
    fused = plans.problem_of(line, MICRO_BATCHES, **whole)
    return {
        CLASSIC: plans.classic(fused, one_forward_one_backward_schedule),
        OURS: plans.ours(plans.problem_of(line, MICRO_BATCHES, **split)),
    }
