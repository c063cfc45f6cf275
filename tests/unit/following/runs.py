"""A small run for tests: a problem, and samples of its iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from planner.following.look import Look, Solved
from planner.following.settings import FollowSettings
from planner.following.state import RunState, new_run
from planner.following.step import step
from planner.following.telemetry import Sample
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer

STAGES, MICRO_BATCHES = 3, 4
FORWARD_NS, BACKWARD_NS, WEIGHT_NS = 1_000_000, 1_100_000, 700_000
ITERATION_NS = 15_000_000
SETTINGS = FollowSettings(warm_up=5, window=60, resolve_every=30, swap_lead=4, measure_over=10)


def problem(limit: int | None = 1_000, *, offload: bool = False) -> PipelineProblem:
    """Three even stages."""

    def every(value: int) -> tuple[int, ...]:
        return (value,) * MICRO_BATCHES

    return PipelineProblem(
        micro_batches=MICRO_BATCHES,
        devices=(Device(activation_memory_bytes=limit),) * STAGES,
        stages=tuple(
            Stage(
                device=d,
                forward_ns=every(FORWARD_NS),
                backward_input_ns=every(BACKWARD_NS),
                backward_weight_ns=every(WEIGHT_NS),
                activation_bytes=every(100),
                weight_grad_bytes=every(40),
                backward_workspace_bytes=every(0),
                offload_bytes=every(60 if offload else 0),
                offload_ns=every(900_000 if offload else 0),
                reload_ns=every(800_000 if offload else 0),
            )
            for d in range(STAGES)
        ),
        transfers=(Transfer(every(1_000), every(1_000)),) * (STAGES - 1),
    )


Slowdown = Callable[[int, int], float]
"""By iteration and stage, a factor of that stage's times."""


def samples(
    iterations: Iterable[int],
    slowdown: Slowdown = lambda i, s: 1.0,
    *,
    iteration_ns: Callable[[int], float] = lambda i: ITERATION_NS,
    jitter: float = 0.005,
    seed: int = 0,
    **own: float,
) -> list[Sample]:
    """Samples of all stages, with a jitter that depends on iteration and stage alone."""
    found = []
    for i in iterations:
        for s in range(STAGES):
            random = Random(f"{seed} {i} {s}")
            factor = slowdown(i, s)
            values = {
                name: round(time_ns * factor * random.lognormvariate(0, jitter))
                for name, time_ns in (
                    ("forward_ns", FORWARD_NS),
                    ("backward_input_ns", BACKWARD_NS),
                    ("backward_weight_ns", WEIGHT_NS),
                )
            }
            noise = Random(f"{seed} {i}").lognormvariate(0, jitter)
            found.append(
                Sample(i, s, {**values, "iteration_ns": round(iteration_ns(i) * noise), **own})
            )
    return found


def straggler(i: int, s: int) -> float:
    """Stage 1 is 1.3 times as slow from iteration 40 on."""
    return 1.3 if s == 1 and i >= 40 else 1.0


def succeeded(
    state: RunState, gain: float = 0.1, low: float | None = None, *, at_most: float | None = None
) -> Solved:
    """The solve in flight has found a plan that saves so much, and may have proven that no plan
    saves more than `at_most`."""
    assert state.solving is not None
    replacement = {
        "running_ns": 1_000_000,
        "candidate_ns": round(1_000_000 * (1 - gain)),
        "gain": gain,
        "gain_low": gain - 0.005 if low is None else low,
        "running_fits": True,
    }
    bound_ns = None if at_most is None else round(1_000_000 * (1 - at_most))
    return Solved(state.solving.number, "succeeded", replacement, lower_bound_ns=bound_ns)


class Run:
    """A run that is looked at again and again; `everything` are its samples."""

    def __init__(
        self,
        everything: list[Sample],
        settings: FollowSettings = SETTINGS,
        *,
        given_plan: bool = True,
    ) -> None:
        self.state = new_run(problem(), settings, given_plan=given_plan)
        self.samples = everything
        self.acks: dict[int, dict[int, int]] = {}
        self.kinds: list[str] = []

    def look(self, newest: int, solved: Solved | None = None) -> Look:
        """What the service would show of the run at an iteration."""
        window = self.state.settings.window
        shown = [s for s in self.samples if newest - window < s.iteration <= newest]
        return Look(newest, shown, self.acks, solved)

    def at(self, newest: int, solved: Solved | None = None) -> list[str]:
        """One step; the kinds of what happened."""
        outcome = step(self.state, self.look(newest, solved))
        self.state = outcome.state
        kinds = [event.kind for event in outcome.events]
        self.kinds += kinds
        return kinds

    def acknowledge(self, version: int, iteration: int, ranks: Iterable[int] = range(3)) -> None:
        """These ranks acknowledge a version."""
        self.acks.setdefault(version, {}).update(dict.fromkeys(ranks, iteration))
