"""What happens to a simulated training run: the plan's view of it, and the truth.

A scenario says how long everything truly takes in each iteration, as factors of the problem that
the planner was told, by how much single operations jitter, and when the shape changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer
from planner.pipeline.robust.execution import Floats

MIB = 2**20
MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Truth:
    """Factors of one iteration: of each stage's F, B and W, and of its offloads and reloads."""

    compute: Floats
    link: Floats


@dataclass(frozen=True)
class Loss:
    """A node is lost: after `downtime_ns` the run goes on from `iteration` in another shape."""

    iteration: int
    problem: PipelineProblem
    downtime_ns: int


@dataclass(frozen=True)
class Scenario:
    """A run of `iterations`. `truth(i)` changes at `changes` only, as far as an oracle is asked to
    plan again; `jitter` is the standard deviation of the logarithm of an operation's time."""

    name: str
    problem: PipelineProblem
    truth: Callable[[int], Truth]
    changes: tuple[int, ...] = ()
    iterations: int = 2_000
    jitter: float = 0.03
    loss: Loss | None = None
    seed: int = 0

    @property
    def drifts(self) -> bool:
        """Whether anything but jitter happens."""
        return bool(self.changes) or self.loss is not None


def pipeline(
    devices: int = 8,
    micro_batches: int = 16,
    *,
    depth: float = 1.1,
    offload: bool = False,
    scale: float = 1.0,
) -> PipelineProblem:
    """A GPT-like pipeline of even stages: F, B and W of 20, 21 and 13 ms, `depth` times the
    activations of 1F1B in memory, and copies of half an activation that take 30 ms."""
    activation = 256 * MIB
    stage = Stage(
        device=0,
        forward_ns=(round(20 * MILLISECOND * scale),) * micro_batches,
        backward_input_ns=(round(21 * MILLISECOND * scale),) * micro_batches,
        backward_weight_ns=(round(13 * MILLISECOND * scale),) * micro_batches,
        activation_bytes=(round(activation * scale),) * micro_batches,
        weight_grad_bytes=(round(activation * scale) // 2,) * micro_batches,
        backward_workspace_bytes=(0,) * micro_batches,
        offload_bytes=(round(activation * scale) // 2 if offload else 0,) * micro_batches,
        offload_ns=(30 * MILLISECOND if offload else 0,) * micro_batches,
        reload_ns=(30 * MILLISECOND if offload else 0,) * micro_batches,
    )
    hop = (MILLISECOND // 2,) * micro_batches
    limit = ceil(depth * devices * activation * scale)
    return PipelineProblem(
        micro_batches=micro_batches,
        devices=(Device(activation_memory_bytes=limit),) * devices,
        stages=tuple(replace(stage, device=d) for d in range(devices)),
        transfers=(Transfer(hop, hop),) * (devices - 1),
    )


def steady(problem: PipelineProblem, **own: float) -> Scenario:
    """Nothing but jitter."""
    stages = len(problem.stages)
    ones = Truth(np.ones(stages), np.ones(stages))
    return Scenario("jitter only", problem, lambda _: ones, **own)  # type: ignore[arg-type]


def wrong_guess(problem: PipelineProblem, seed: int = 5) -> Scenario:
    """Stages take up to 20 % more or less than the plan was made for, from the beginning."""
    stages = len(problem.stages)
    factors = np.random.default_rng(seed).uniform(0.8, 1.2, stages)
    truth = Truth(factors, np.ones(stages))
    return Scenario("wrong guess", problem, lambda _: truth, (0,))


def slow_drift(problem: PipelineProblem) -> Scenario:
    """A stage becomes 20 % slower over 1,000 iterations."""
    stages = len(problem.stages)

    def truth(i: int) -> Truth:
        factors = np.ones(stages)
        factors[stages // 2] += 0.2 * min(1.0, max(0.0, (i - 300) / 1_000))
        return Truth(factors, np.ones(stages))

    return Scenario("slow drift", problem, truth, tuple(range(300, 1_301, 50)))


def straggler(problem: PipelineProblem, iterations: int = 2_000) -> Scenario:
    """A GPU is 1.3 times as slow from iteration 200 on."""
    stages = len(problem.stages)

    def truth(i: int) -> Truth:
        factors = np.ones(stages)
        factors[stages // 4] = 1.3 if i >= 200 else 1.0
        return Truth(factors, np.ones(stages))

    return Scenario("straggler", problem, truth, (200,), iterations)


def degraded_link(problem: PipelineProblem) -> Scenario:
    """The links to the host of a quarter of the devices take twice as long from 400 on."""
    stages = len(problem.stages)

    def truth(i: int) -> Truth:
        link = np.ones(stages)
        link[: stages // 4] = 2.0 if i >= 400 else 1.0
        return Truth(np.ones(stages), link)

    return Scenario("degraded link", problem, truth, (400,))


def lost_node(problem: PipelineProblem, smaller: PipelineProblem) -> Scenario:
    """A quarter of the devices is lost at 800; what is left runs more layers a stage, two of them
    15 % slower than said."""

    def truth(i: int) -> Truth:
        if i < 800:
            return Truth(np.ones(len(problem.stages)), np.ones(len(problem.stages)))
        factors = np.ones(len(smaller.stages))
        factors[1], factors[-1] = 1.15, 1.15
        return Truth(factors, np.ones(len(smaller.stages)))

    loss = Loss(800, smaller, 300 * 1_000 * MILLISECOND)
    return Scenario("lost node", problem, truth, (800,), loss=loss)
