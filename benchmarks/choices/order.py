"""What it costs that micro-batches keep their order, on small problems solved to optimality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random

from benchmarks.following.solves import Solver
from benchmarks.solving import Solved, solved
from planner.pipeline.problem import (
    Device,
    MicroBatchOrder,
    PipelineProblem,
    Stage,
    Transfer,
)

MS = 1_000_000
ACTIVATION_BYTES = 64 * 2**20
SIZES = (0.5, 0.75, 1.0, 1.25, 1.5)
SEARCH_ITERATIONS = 100
PROMISING = 3
"""So many of the best orders of micro-batches are solved exactly."""


@dataclass(frozen=True)
class Kind:
    """Random problems: whether micro-batches differ in time and size, by up to half, and whether
    by other factors on each stage; and whether activations can be offloaded."""

    name: str
    unequal: bool
    offload: bool = False
    differs_by_stage: bool = False


KINDS = (
    Kind("equal micro-batches", unequal=False),
    Kind("equal, with offload", unequal=False, offload=True),
    Kind("unequal micro-batches", unequal=True),
    Kind("unequal, with offload", unequal=True, offload=True),
    Kind("unequal, otherwise on each stage", unequal=True, differs_by_stage=True),
)


@dataclass(frozen=True)
class Ordered:
    """One problem: the makespans (ns) of the best schedule in the given order and of the best one
    in whichever order on each stage, None where that was not proven in time; and of the best one
    that was found in one order that all stages keep."""

    kind: Kind
    seed: int
    fixed_ns: int | None
    free_ns: int | None
    one_order_ns: int
    wrong: Sequence[str]

    @property
    def is_proven(self) -> bool:
        """Whether the given order and the free one were both solved to proven optimality."""
        return self.fixed_ns is not None and self.free_ns is not None


def ordered(kind: Kind, stages: int, micro_batches: int, seed: int, limit_s: float) -> Ordered:
    """One random problem; each solve has so many seconds for its proof."""
    problem = random_problem(kind, stages, micro_batches, seed)
    fixed = solved(problem, limit_s)
    free = solved(replace(problem, micro_batch_order=MicroBatchOrder.FREE), limit_s)
    answers = [fixed, free]
    for order in promising_orders(problem):
        if free.bound_ns in [answer.objective_ns for answer in answers if answer is not free]:
            break
        answers.append(solved(in_order(problem, order), limit_s))
    in_one = [answer.objective_ns for answer in answers if answer is not free]
    return Ordered(
        kind=kind,
        seed=seed,
        fixed_ns=_proven_ns(fixed),
        free_ns=_proven_ns(free),
        one_order_ns=min(value for value in in_one if value is not None),
        wrong=[answer.wrong for answer in answers if answer.wrong is not None],
    )


def promising_orders(problem: PipelineProblem) -> list[tuple[int, ...]]:
    """The orders of the micro-batches in which a short search finds the best schedules."""
    solver = Solver(SEARCH_ITERATIONS)

    def makespan_ns(order: tuple[int, ...]) -> int:
        plan = solver.solve(in_order(problem, order))
        assert plan is not None
        return int(plan.document["makespan_ns"])

    return sorted(permutations(range(problem.micro_batches)), key=makespan_ns)[:PROMISING]


def random_problem(kind: Kind, stages: int, micro_batches: int, seed: int) -> PipelineProblem:
    """Stages of 4 to 12 ms for each of F, B and W in whole ms, and room for one activation less
    than 1F1B holds, but for two at least (for one with offload)."""
    draw = Random(seed)

    def drawn() -> list[float]:
        return [draw.choice(SIZES) if kind.unequal else 1.0 for _ in range(micro_batches)]

    sizes = drawn()

    def times() -> tuple[int, ...]:
        own = draw.randint(4, 12)
        return tuple(
            round(own * size) * MS for size in (drawn() if kind.differs_by_stage else sizes)
        )

    activation = tuple(round(ACTIVATION_BYTES * size) for size in sizes)
    none = (0,) * micro_batches

    def stage(number: int) -> Stage:
        forward_ns, backward_ns, weight_ns, copy_ns = (times() for _ in range(4))
        return Stage(
            device=number,
            forward_ns=forward_ns,
            backward_input_ns=backward_ns,
            backward_weight_ns=weight_ns,
            activation_bytes=activation,
            weight_grad_bytes=tuple(size // 2 for size in activation),
            backward_workspace_bytes=none,
            offload_bytes=activation if kind.offload else none,
            offload_ns=copy_ns if kind.offload else none,
            reload_ns=copy_ns if kind.offload else none,
        )

    def room(number: int) -> int:
        held = max(1 if kind.offload else 2, min(micro_batches, stages - number) - 1)
        return held * max(activation)

    hops = Transfer((MS,) * micro_batches, (MS,) * micro_batches)
    return PipelineProblem(
        micro_batches=micro_batches,
        devices=tuple(Device(activation_memory_bytes=room(s)) for s in range(stages)),
        stages=tuple(stage(s) for s in range(stages)),
        transfers=(hops,) * (stages - 1),
    )


def in_order(problem: PipelineProblem, order: Sequence[int]) -> PipelineProblem:
    """The problem whose k-th micro-batch is the one that `order` names at k."""

    def moved(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(values[m] for m in order)

    return replace(
        problem,
        stages=tuple(
            replace(
                own,
                forward_ns=moved(own.forward_ns),
                backward_input_ns=moved(own.backward_input_ns),
                backward_weight_ns=moved(own.backward_weight_ns),
                activation_bytes=moved(own.activation_bytes),
                weight_grad_bytes=moved(own.weight_grad_bytes),
                offload_bytes=moved(own.offload_bytes),
                offload_ns=moved(own.offload_ns),
                reload_ns=moved(own.reload_ns),
            )
            for own in problem.stages
        ),
    )


def _proven_ns(answer: Solved) -> int | None:
    return answer.objective_ns if answer.is_proven else None
