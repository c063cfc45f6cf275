"""1F1B and the planner's schedule in real time, with operations padded to the problem's times.

Those are what `loadmaster profile` measures of a small model, all so many times as long. Needs no
PyTorch itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from planner.export.format import Source
from planner.export.torch_csv.write import write as torch_csv
from planner.pipeline.classic.schedules import one_forward_one_backward_schedule
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from tests.integration.torch import plans
from tests.integration.torch.plans import Answer
from tests.integration.torch.processes import RANKS, run_cases
from tests.integration.torch.profiles import profiles

FORWARD_S = 0.3
"""What a forward takes in the mean: long beside the milliseconds of handing a tensor over."""
PROFILE = "deferred wide"
REPEAT = 9
"""Measurements of each time of the profile."""
MICRO_BATCHES = 4
LAYERS = [2] * RANKS
CLASSIC, OURS = "1F1B", "Loadmaster"
NS_PER_S = 1_000_000_000
Times = dict[str, int]
TIMES = ("forward_ns", "backward_input_ns", "backward_weight_ns")


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
    answers = padded_answers(profiles(folder, [PROFILE], REPEAT)[PROFILE])
    cases = {}
    for name, answer in answers.items():
        path = folder / f"{name}.csv"
        path.write_text(torch_csv(answer, Source("pipeline", answer)))
        own = {"path": str(path), "layers": LAYERS, "micro_batches": MICRO_BATCHES}
        cases[name] = {**own, "pads": pads_of(answer), "attempts": attempts}
    found, *_ = run_cases(folder, {"timed": cases})
    return {
        name: Timing(answer["schedule"]["makespan_ns"] / NS_PER_S, tuple(found[name]))
        for name, answer in answers.items()
    }


def padded_answers(profile: Mapping[str, Any]) -> dict[str, Answer]:
    """1F1B, whose backward is one operation that takes as long as both of its parts, and what the
    planner finds to be faster, at a profile's times made longer."""
    stages = _longer(profile)
    whole = [_as_one(stage) for stage in stages]
    return {
        CLASSIC: plans.classic(_problem(whole), one_forward_one_backward_schedule),
        OURS: plans.ours(_problem(stages)),
    }


def pads_of(answer: Answer) -> list[dict[str, float]]:
    """Seconds of F, B or I, and W, by stage."""
    return [
        {
            "F": stage.forward_ns[0] / NS_PER_S,
            "B": stage.backward_input_ns[0] / NS_PER_S,
            "I": stage.backward_input_ns[0] / NS_PER_S,
            "W": stage.backward_weight_ns[0] / NS_PER_S,
        }
        for stage in read_problem(answer["problem"]).stages
    ]


def _longer(profile: Mapping[str, Any]) -> list[Times]:
    """The times of a profile's stages, all so many times as long that forwards take `FORWARD_S` in
    the mean."""
    stages = profile["stages"]
    factor = FORWARD_S * NS_PER_S / mean(stage["forward_ns"] for stage in stages)
    return [{name: round(stage[name] * factor) for name in TIMES} for stage in stages]


def _as_one(stage: Times) -> Times:
    whole_ns = stage["backward_input_ns"] + stage["backward_weight_ns"]
    return {**stage, "backward_input_ns": whole_ns, "backward_weight_ns": 0}


def _problem(stages: list[Times]) -> PipelineProblem:
    return read_problem(
        {
            "micro_batches": MICRO_BATCHES,
            "devices": [{} for _ in range(RANKS)],
            "stages": [{"device": rank, **times} for rank, times in enumerate(stages)],
        }
    )
