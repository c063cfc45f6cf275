"""The twelve profiles that Zero Bubble published, with its bubble rates, and ours beside them.

Source: Zero Bubble Pipeline Parallelism, arXiv 2401.10241, and the program that its authors
published (github.com/sail-sg/zero-bubble-pipeline-parallelism).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.solving import Solved, solved
from planner.pipeline.classic.placement import v_shape
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import Objective, PipelineProblem

PUBLISHED = Path(__file__).parent / "published.csv"
FIRST_RATE = 9
"""The columns from here on are rates."""
SEQUENCE = 1024
NS_PER_US = 1000
ROUNDING = 0.5e-4
"""Published rates have four digits behind the point."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of F, B, W of a stage and of a hop, alike for all stages and micro-batches, and the
    published bubble rates by the name of the schedule."""

    model: str
    heads: int
    hidden: int
    stages: int
    micro_batches: int
    forward_ns: int
    input_ns: int
    weight_ns: int
    hop_ns: int
    published: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is solved and compared: a limit in units of 1F1B's peak (p activations of a stage), a
    placement, an objective, and the name of the published rate."""

    name: str
    peaks: int
    is_v_shape: bool
    objective: Objective
    published: str


SPAN_SETTINGS = (
    Setting("ZB-1p", 1, False, Objective.STEADY_SPAN, "ZB-1p"),
    Setting("ZB-2p", 2, False, Objective.STEADY_SPAN, "ZB-2p"),
    Setting("ZB-V", 1, True, Objective.STEADY_SPAN, "ZB-V"),
)
MAKESPAN_SETTINGS = (
    # ZB-1p's first device starts first and ends last, so that its rate is the same for both.
    Setting("ZB-1p", 1, False, Objective.MAKESPAN, "ZB-1p"),
    Setting("ZB-2p", 2, False, Objective.MAKESPAN, "ZB-2p makespan"),
    Setting("ZB-V", 1, True, Objective.MAKESPAN, "ZB-V makespan"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Our answer to a profile in a setting."""

    profile: Profile
    setting: Setting
    answer: Solved

    @property
    def published(self) -> float:
        """The published bubble rate."""
        return self.profile.published[self.setting.published]

    @property
    def rate(self) -> float | None:
        """Our bubble rate; None without a plan."""
        return bubble_rate(self.profile, self.answer.objective_ns)

    @property
    def filled_rate(self) -> float:
        """The same, where having no plan counts as nothing but bubble."""
        return 1.0 if self.rate is None else self.rate

    @property
    def bound(self) -> float:
        """The least bubble rate that the proven bound allows."""
        return max(0.0, bubble_rate(self.profile, self.answer.bound_ns) or 0.0)

    @property
    def verdict(self) -> str:
        """`less`, `equal` or `more` bubble than published, to the published digits."""
        if self.filled_rate > self.published + ROUNDING:
            return "more"
        return "less" if self.filled_rate < self.published - ROUNDING else "equal"


def published_profiles() -> list[Profile]:
    """All twelve, in the published order."""
    with PUBLISHED.open(newline="") as file:
        return [_profile(row) for row in csv.DictReader(file)]


def outcomes(
    profiles: Sequence[Profile], settings: Sequence[Setting], limit_per_stage_s: float
) -> Iterator[Outcome]:
    """Solve each profile in each setting; those with more stages get more time."""
    for profile in profiles:
        for setting in settings:
            limit_s = limit_per_stage_s * profile.stages
            yield Outcome(profile, setting, solved(problem_of(profile, setting), limit_s))


def bubble_rate(profile: Profile, span_ns: int | None) -> float | None:
    """(X - m (F + B + W)) / X, where X is the makespan or the span: sail-sg's definition."""
    if not span_ns:
        return None
    stage_ns = profile.forward_ns + profile.input_ns + profile.weight_ns
    work_ns = profile.micro_batches * stage_ns
    return (span_ns - work_ns) / span_ns


def problem_of(profile: Profile, setting: Setting) -> PipelineProblem:
    """The profile as a problem. Bytes are those of one layer and one sequence, by the formulas of
    the published program (half precision, no flash attention): 34 h + 5 a s per token of an
    activation, of which 32 h stay from B to W; limits count activations, so nothing depends on
    how many layers and sequences there really were."""
    activation_bytes = SEQUENCE * (34 * profile.hidden + 5 * profile.heads * SEQUENCE)
    limit_bytes = setting.peaks * profile.stages * activation_bytes

    stage = {
        "forward_ns": profile.forward_ns,
        "backward_input_ns": profile.input_ns,
        "backward_weight_ns": profile.weight_ns,
        "activation_bytes": activation_bytes,
        "weight_grad_bytes": SEQUENCE * 32 * profile.hidden,
    }
    hop = {"forward_ns": profile.hop_ns, "backward_ns": profile.hop_ns}
    problem = read_problem(
        {
            "objective": setting.objective.value,
            "micro_batches": profile.micro_batches,
            "devices": [{"activation_memory_bytes": limit_bytes}] * profile.stages,
            "stages": [{"device": d, **stage} for d in range(profile.stages)],
            "transfers": [hop] * (profile.stages - 1),
        }
    )
    return v_shape(problem) if setting.is_v_shape else problem


def _profile(row: Mapping[str, str]) -> Profile:
    return Profile(
        model=row["model"],
        heads=int(row["heads"]),
        hidden=int(row["hidden"]),
        stages=int(row["stages"]),
        micro_batches=int(row["micro_batches"]),
        forward_ns=int(row["forward_us"]) * NS_PER_US,
        input_ns=int(row["input_us"]) * NS_PER_US,
        weight_ns=int(row["weight_us"]) * NS_PER_US,
        hop_ns=int(row["hop_us"]) * NS_PER_US,
        published={name: float(row[name]) for name in list(row)[FIRST_RATE:]},
    )
