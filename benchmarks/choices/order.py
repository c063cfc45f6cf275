"""What it costs that micro-batches keep their order, on small problems solved to optimality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random

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


@dataclass(frozen=True)
class Kind:
    """Random problems: whether micro-batches differ (by up to half in time and size, the same on
    all stages), and whether activations can be offloaded."""

    name: str
    unequal: bool
    offload: bool


KINDS = (
    Kind("equal micro-batches", unequal=False, offload=False),
    Kind("equal, with offload", unequal=False, offload=True),
    Kind("unequal micro-batches", unequal=True, offload=False),
    Kind("unequal, with offload", unequal=True, offload=True),
)


@dataclass(frozen=True)
class Ordered:
    """One problem: the makespans (ns) of the best schedule in the given order, of the best one in
    whichever order on each stage, and of the best one in one order that all stages keep. None
    where it was not proven in time."""

    kind: Kind
    seed: int
    fixed_ns: int | None
    free_ns: int | None
    one_order_ns: int | None
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
    answers, one_order_ns = [fixed, free], _proven_ns(fixed)
    if _proven_ns(free) is not None and one_order_ns != _proven_ns(free) and kind.unequal:
        others = list(_other_orders(problem, free.bound_ns, limit_s))
        answers += others
        values = [_proven_ns(answer) for answer in others]
        known = [value for value in [*values, one_order_ns] if value is not None]
        # What was not proven may be better than all that was, unless nothing can be.
        settled = None not in values or min(known, default=0) == free.bound_ns
        one_order_ns = min(known) if settled and known else None
    return Ordered(
        kind=kind,
        seed=seed,
        fixed_ns=_proven_ns(fixed),
        free_ns=_proven_ns(free),
        one_order_ns=one_order_ns,
        wrong=[answer.wrong for answer in answers if answer.wrong is not None],
    )


def random_problem(kind: Kind, stages: int, micro_batches: int, seed: int) -> PipelineProblem:
    """Stages of 4 to 12 ms for each of F, B and W in whole ms, and room for one activation less
    than 1F1B holds, but for two at least (for one with offload)."""
    draw = Random(seed)
    sizes = [
        draw.choice((0.5, 0.75, 1.0, 1.25, 1.5)) if kind.unequal else 1.0
        for _ in range(micro_batches)
    ]

    def times() -> tuple[int, ...]:
        own = draw.randint(4, 12)
        return tuple(round(own * size) * MS for size in sizes)

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


def _other_orders(problem: PipelineProblem, enough_ns: int, limit_s: float) -> Iterator[Solved]:
    """Every order of the micro-batches that differs from the given one, until one is as good as
    any schedule can be."""
    seen = {problem.stages}
    for order in permutations(range(problem.micro_batches)):
        other = in_order(problem, order)
        if other.stages in seen:
            continue
        seen.add(other.stages)
        answer = solved(other, limit_s)
        yield answer
        if answer.objective_ns == enough_ns:
            return


def _proven_ns(answer: Solved) -> int | None:
    return answer.objective_ns if answer.is_proven else None
