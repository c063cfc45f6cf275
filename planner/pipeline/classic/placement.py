"""Other placements of a problem's work, to compare with schedules that need them.

Merging puts all stages of a device into one chunk; splitting cuts each of those into two chunks
of equal size. Times and bytes are shared out to the unit, so that every device does the same work
and every micro-batch takes the same bytes in each placement. The workspace of a backward stays
whole, since it is what one layer needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum

from planner.pipeline.problem import PipelineProblem, Stage, Transfer

Values = tuple[int, ...]
"""One entry per micro-batch."""


class Placement(StrEnum):
    """How stages lie on devices, and how a comparison names it."""

    AS_POSTED = "as_posted"
    ONE_CHUNK = "one_chunk"
    INTERLEAVED = "interleaved_2"
    V_SHAPE = "v_shape"


def chunks_per_device(problem: PipelineProblem) -> int | None:
    """How many stages each used device has; None if they have different numbers."""
    counts = {len(stages) for stages in problem.stages_of_device if stages}
    return counts.pop() if len(counts) == 1 else None


def is_one_chunk(problem: PipelineProblem) -> bool:
    """Whether every device has at most one stage."""
    return chunks_per_device(problem) == 1


def is_interleaved(problem: PipelineProblem) -> bool:
    """Whether the stages go round the devices two or more times in the same sequence."""
    chunks = chunks_per_device(problem)
    if chunks is None or chunks < 2:
        return False
    devices = [stage.device for stage in problem.stages]
    ring = len(devices) // chunks
    return all(devices[s] == devices[s % ring] for s in range(len(devices)))


def is_v_shape(problem: PipelineProblem) -> bool:
    """Whether the stages go down the devices once and come back up once."""
    devices = [stage.device for stage in problem.stages]
    return chunks_per_device(problem) == 2 and devices == devices[::-1]


def merged(problem: PipelineProblem) -> PipelineProblem:
    """One stage per device, in the sequence of the devices' first stages.

    The latency from one device to the next is the one behind the former's first stage.
    """
    groups = sorted(stages for stages in problem.stages_of_device if stages)
    stages = tuple(_merge([problem.stages[s] for s in group]) for group in groups)
    hops = tuple(problem.transfers[group[0]] for group in groups[:-1])
    return replace(problem, stages=stages, transfers=hops)


def interleaved(problem: PipelineProblem) -> PipelineProblem:
    """A one-chunk problem with each stage cut in two and the devices visited twice in a row.

    The way back from the last device to the first takes as long as the slowest other hop.
    """
    first, second = _halves(problem)
    back = _slowest(problem)
    hops = (*problem.transfers, back, *problem.transfers)
    return replace(problem, stages=(*first, *second), transfers=hops)


def v_shape(problem: PipelineProblem) -> PipelineProblem:
    """A one-chunk problem with each stage cut in two, down the devices and up again.

    The turn stays on the last device and takes no time. A hop on the way up carries activations
    against the direction of the hop that it is made from, at the same latencies.
    """
    first, second = _halves(problem)
    turn = _hop([0] * problem.micro_batches, [0] * problem.micro_batches)
    hops = (*problem.transfers, turn, *reversed(problem.transfers))
    return replace(problem, stages=(*first, *reversed(second)), transfers=hops)


def _merge(chunks: list[Stage]) -> Stage:
    if len(chunks) == 1:
        return chunks[0]

    def added(each: Callable[[Stage], Values]) -> Values:
        return tuple(map(sum, zip(*map(each, chunks), strict=True)))

    workspace = zip(*(chunk.backward_workspace_bytes for chunk in chunks), strict=True)
    return _shared_out(chunks[0].device, added, tuple(map(max, workspace)))


def _halves(problem: PipelineProblem) -> tuple[list[Stage], list[Stage]]:
    """The larger and the smaller half of each stage."""

    def half(stage: Stage, part: int) -> Stage:
        def share(each: Callable[[Stage], Values]) -> Values:
            return tuple((value + 1 - part) // 2 for value in each(stage))

        return _shared_out(stage.device, share, stage.backward_workspace_bytes)

    return [half(s, 0) for s in problem.stages], [half(s, 1) for s in problem.stages]


def _shared_out(
    device: int, share: Callable[[Callable[[Stage], Values]], Values], workspace: Values
) -> Stage:
    """A stage whose quantities are each the share of those of other stages."""
    return Stage(
        device=device,
        forward_ns=share(lambda stage: stage.forward_ns),
        backward_input_ns=share(lambda stage: stage.backward_input_ns),
        backward_weight_ns=share(lambda stage: stage.backward_weight_ns),
        activation_bytes=share(lambda stage: stage.activation_bytes),
        weight_grad_bytes=share(lambda stage: stage.weight_grad_bytes),
        backward_workspace_bytes=workspace,
        offload_bytes=share(lambda stage: stage.offload_bytes),
        offload_ns=share(lambda stage: stage.offload_ns),
        reload_ns=share(lambda stage: stage.reload_ns),
    )


def _slowest(problem: PipelineProblem) -> Transfer:
    count = range(problem.micro_batches)
    return _hop(
        (max((t.forward_ns[m] for t in problem.transfers), default=0) for m in count),
        (max((t.backward_ns[m] for t in problem.transfers), default=0) for m in count),
    )


def _hop(forward_ns: Iterable[int], backward_ns: Iterable[int]) -> Transfer:
    return Transfer(tuple(forward_ns), tuple(backward_ns))
