"""Transfers of a stage in micro-batch order, as the model has them where they are alike."""

from __future__ import annotations

from dataclasses import replace

from planner.pipeline.milp.graph import transfers_alike
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp, Token


def with_transfers_in_order(problem: PipelineProblem, schedule: Schedule) -> Schedule:
    """The schedule in which the offloads of each stage whose transfers are alike, and its
    reloads, run in micro-batch order.

    Transfers trade places within a stage; all have the same bytes and times, so memory and links
    see no difference. It stays valid: the k-th forward ends before the k-th offload slot, the
    k-th offload slot ends before the k-th reload slot, and that one before the k-th backward.
    """
    moved: dict[Token, Token] = {}
    for op in ("O", "R"):
        for s in range(len(problem.stages)):
            slots = [o for o in schedule.ops if o.op == op and o.stage == s]
            if transfers_alike(problem, s):
                micro_batches = sorted(slot.micro_batch for slot in slots)
                slots.sort(key=lambda slot: (slot.start_ns, slot.micro_batch))
                for slot, m in zip(slots, micro_batches, strict=True):
                    moved[slot.token] = slot.token._replace(micro_batch=m)

    def renamed(op: TimedOp) -> TimedOp:
        return op._replace(micro_batch=moved.get(op.token, op.token).micro_batch)

    return replace(schedule, ops=tuple(renamed(op) for op in schedule.ops))
