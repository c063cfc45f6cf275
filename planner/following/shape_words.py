"""Why a change of shape is proposed, in words with the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from planner.following.batch_sizes import RULE_OF_THUMB
from planner.following.shapes import Baseline
from planner.pipeline.problem import PipelineProblem

LAYERS_UNKNOWN = (
    "No layers are moved: how many each stage has is not known (of a posted problem it never is; "
    "post `model` and `cluster`)."
)
NOT_BETTER_BALANCED = (
    "No layers are moved: in no other partition the slowest device takes less time per micro-batch."
)
SIZE_UNKNOWN = (
    "How many samples a micro-batch has is not known (of a posted problem it never is); it is "
    "taken to be divisible."
)
_MOVED = "Transfers between stages, epilogues and workspaces are taken to stay as they are."
_RESIZED = "Transfers and workspaces are taken to change with the micro-batch, epilogues to stay."
_NO_FIXED_SHARE = (
    "Times are taken to shrink as the micro-batch does (fixed_share 0), which launches and small "
    "matrices do not: this gain is the most that smaller micro-batches can bring. Measure two "
    "sizes and give fixed_share."
)
_MEANS = (
    "Micro-batches differ: every figure, that of the running order too, is of an iteration of "
    "their mean times and largest sizes."
)


@dataclass(frozen=True, slots=True)
class Before:
    """The run as it is. `stage_times_ns` are F + B + W of one micro-batch, `device_time_ns` is
    that of the slowest device; `running_ns` is the running order timed again on the profile and
    `same_shape_ns` the best quick one (None where it does not fit)."""

    stage_times_ns: tuple[int, ...]
    device_time_ns: int
    micro_batches: int
    micro_batch_size: int | None
    fixed_share: float
    layers_per_stage: tuple[int, ...] | None
    are_alike: bool
    running_ns: int | None
    same_shape_ns: int | None

    @property
    def best_ns(self) -> int | None:
        """What there is without a change; None where nothing fits."""
        known = (self.running_ns, self.same_shape_ns)
        return min((ns for ns in known if ns is not None), default=None)


def slowest_device_ns(problem: PipelineProblem) -> int:
    """What the slowest device computes for the first micro-batch."""
    return max(
        sum(problem.stages[s].compute_ns(0) for s in own) for own in problem.stages_of_device
    )


def reason_for(
    before: Before,
    problem: PipelineProblem,
    layers_per_stage: tuple[int, ...] | None,
    predicted_ns: int,
) -> str:
    """What is unequal, what changes, and what that gives."""
    parts = [_unequal(before.stage_times_ns)]
    if layers_per_stage is not None and before.layers_per_stage is not None:
        parts.append(_moved(before.layers_per_stage, layers_per_stage))
    if problem.micro_batches != before.micro_batches:
        parts.append(_batched(before, problem.micro_batches))
    parts += [_paced(before, problem), _predicted(before, predicted_ns)]
    return " ".join(parts)


def notes_of(before: Before, micro_batches: int) -> tuple[str, ...]:
    """What the prediction rests on."""
    notes = [_MOVED if micro_batches == before.micro_batches else _RESIZED]
    if micro_batches > before.micro_batches and not before.fixed_share:
        notes.append(_NO_FIXED_SHARE)
    if micro_batches > before.micro_batches and before.micro_batch_size is None:
        notes.append(SIZE_UNKNOWN)
    if not before.are_alike:
        notes.append(_MEANS)
    return tuple(notes)


def rule_of_thumb_note(before: Before, rule: Baseline) -> str:
    """What the rule of thumb says where no other number of micro-batches is proposed."""
    words = f"Rule of thumb, {RULE_OF_THUMB}: {rule.micro_batches}"
    if rule.micro_batches == before.micro_batches:
        return f"{words}, as now."
    if rule.predicted_ns is None:
        return f"{words}. {rule.reason}"
    now_ns = before.best_ns
    now = "" if now_ns is None else f", {now_ns / 1e6:.3f} ms with {before.micro_batches}"
    return f"{words}, predicted {rule.predicted_ns / 1e6:.3f} ms{now}: not proposed."


def timed_partition_note(
    before: Before, layers_per_stage: Sequence[int], predicted_ns: int | None
) -> str:
    """That the best balanced partition was timed (None: no schedule of it fits) and is not
    proposed."""
    words = f"No layers are moved: with {list(layers_per_stage)}, the best balanced,"
    if predicted_ns is None:
        return f"{words} no quick schedule fits into memory."
    return f"{words} an iteration is predicted to take {predicted_ns / 1e6:.3f} ms{_now(before)}."


def untimed_partition_note(before: Before, layers_per_stage: Sequence[int], bound_ns: int) -> str:
    """That the best balanced partition was not timed: by its bound it cannot be faster, or the time
    was used up."""
    words = f"No layers are moved: with {list(layers_per_stage)}, the best balanced,"
    now_ns = before.best_ns
    if now_ns is None or bound_ns < now_ns:
        return f"{words} nothing was timed: the time for proposals was used up."
    return f"{words} an iteration takes at least {bound_ns / 1e6:.3f} ms{_now(before)}."


def _now(before: Before) -> str:
    return "" if before.best_ns is None else f", {before.best_ns / 1e6:.3f} ms as it is"


def _unequal(times_ns: Sequence[int]) -> str:
    slowest, fastest = max(times_ns), min(times_ns)
    words = f"{slowest / fastest:.2f} times as long as" if fastest else "time, but not"
    return f"Stage {times_ns.index(slowest)} takes {words} stage {times_ns.index(fastest)}."


def _moved(before: Sequence[int], after: Sequence[int]) -> str:
    changed = [
        f"stage {s} {old} -> {new}"
        for s, (old, new) in enumerate(zip(before, after, strict=True))
        if old != new
    ]
    return f"Layers: {', '.join(changed)}."


def _batched(before: Before, micro_batches: int) -> str:
    more = micro_batches > before.micro_batches
    effect = "filling and draining take less" if more else "operations are fewer and larger"
    if before.micro_batch_size is None:
        ratio = Fraction(before.micro_batches, micro_batches)
        return (
            f"{micro_batches} micro-batches of {ratio} times the size instead of "
            f"{before.micro_batches}: {effect}."
        )
    size = before.micro_batches * before.micro_batch_size // micro_batches
    return (
        f"{micro_batches} micro-batches of {size} instead of {before.micro_batches} of "
        f"{before.micro_batch_size} samples: {effect}."
    )


def _paced(before: Before, problem: PipelineProblem) -> str:
    """The slowest device of an iteration, after and before."""
    after_ns = problem.micro_batches * slowest_device_ns(problem)
    before_ns = before.micro_batches * before.device_time_ns
    return (
        f"The slowest device then works for {after_ns / 1e6:.3f} ms of an iteration instead of "
        f"{before_ns / 1e6:.3f} ms."
    )


def _predicted(before: Before, predicted_ns: int) -> str:
    if before.running_ns is None:
        return "The running order no longer fits into memory; this does."
    gain = 1 - predicted_ns / before.running_ns
    words = f"Predicted {gain:.1%} shorter than the running order on this profile"
    if before.same_shape_ns is None:
        return f"{words}."
    alone = max(0.0, 1 - before.same_shape_ns / before.running_ns)
    return f"{words}; a new order alone would give {alone:.1%}."
