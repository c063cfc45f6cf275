"""The configuration that needs least memory: whether anything fits at all, and if not, why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from planner.cost.training import Training
from planner.errors import SpecError
from planner.progress import StopCheck, never
from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.space import Saver, points, savers
from planner.training.spec import TrainingSpec
from planner.training.trainings import training_of, with_savers

Outcome = Plan | Shortage


def least_memory(
    spec: TrainingSpec,
    evaluator: Evaluator,
    expert_loads: Mapping[tuple[int, int], float],
    should_stop: StopCheck = never,
) -> Outcome | None:
    """The first configuration found that fits, else the one whose fullest rank needs least. None
    where there is no configuration at all.

    Only the strongest savers of each point are looked at: less ZeRO and less recomputation never
    need less, save that ZeRO stage 3 gathers a layer, and offloads may do more than recomputing.
    """
    best: Shortage | None = None
    for training in _strongest(spec, evaluator, expert_loads):
        if should_stop():
            break
        if best is not None and not evaluator.may_hold(training, best.peak_bytes - 1):
            continue
        outcome = evaluator.evaluate(training)
        if isinstance(outcome, Plan):
            return outcome
        if best is None or outcome.peak_bytes < best.peak_bytes:
            best = outcome
    return best


def _strongest(
    spec: TrainingSpec, evaluator: Evaluator, expert_loads: Mapping[tuple[int, int], float]
) -> list[Training]:
    """By the states that the fullest rank has at the least."""
    found = []
    for point in points(spec, Counter()):
        try:
            training = training_of(
                spec, point, expert_loads.get((point.degrees.expert, point.degrees.tensor))
            )
        except SpecError:
            continue
        for saver in _strong(savers(spec, point.degrees)):
            found += [with_savers(training, spec, chunks, saver) for chunks in point.interleavings]
    return sorted(found, key=evaluator.bounds.states_bytes)


def _strong(allowed: list[Saver]) -> Iterator[Saver]:
    """Of each recomputation the two highest ZeRO stages, offloaded where that is allowed."""
    stages = sorted({stage for stage, _, _ in allowed})[-2:]
    offload = any(offloads for _, _, offloads in allowed)
    return (saver for saver in allowed if saver[0] in stages and saver[2] == offload)
