"""What an operation of a rank has to wait for that its rank's own order does not imply.

These are the schedule's `waits`, and, where ranks share a host link or the memory of a host, the
operation before it there if that is another rank's: the proof that memory suffices for any
durations (`planner.pipeline.robust`) rests on these queues too. An allocation has to wait for the
start of the one before it only; here it waits for its end, which takes no deadlock along, since
all of this leads forward in the schedule's sequence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from planner.export.torch_csv.cells import Cell
from planner.export.torch_csv.orders import RankOrders
from planner.pipeline.effects import memory_limits
from planner.pipeline.schedule import TimedOp, Token


def waits_of_cells(whole: RankOrders, schedule: Mapping[str, Any]) -> dict[Cell, list[Cell]]:
    """Per operation the others whose ends it waits for, in the schedule's sequence."""
    place = {op.token: position for position, op in enumerate(whole.ops)}
    after: dict[Token, set[Token]] = defaultdict(set)
    for wait in schedule.get("waits", ()):
        after[_token(wait)].update(map(_token, wait["after"]))
    for late, early in _shared_queues(whole):
        after[late].add(early)
    return {
        whole.cell(token): [whole.cell(early) for early in sorted(own, key=place.__getitem__)]
        for token, own in after.items()
    }


def _token(document: Mapping[str, Any]) -> Token:
    return Token(document["op"], document["stage"], document["micro_batch"])


def _shared_queues(whole: RankOrders) -> Iterator[tuple[Token, Token]]:
    """Neighbours on a host link, and in a host's memory, that are on different ranks."""
    last: dict[Hashable, TimedOp] = {}
    stages = whole.problem.stages
    for op in whole.ops:
        for queue in _queues(whole, op):
            before = last.get(queue)
            if before is not None and stages[before.stage].device != stages[op.stage].device:
                yield op.token, before.token
            last[queue] = op


def _queues(whole: RankOrders, op: TimedOp) -> Iterator[Hashable]:
    if op.op not in "OR":
        return
    problem = whole.problem
    yield problem.channel(op.stage, op.op)
    host = problem.devices[problem.stages[op.stage].device].host
    if op.op == "O" and ("host", host) in memory_limits(problem):
        yield "host", host
