"""The sequences in which devices, host links and hosts serve a schedule's operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from planner.errors import OrderError
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp, Token

Channel = tuple[str, str]
"""What `PipelineProblem.channel` returns: a host link and, if full duplex, a direction."""


@dataclass(frozen=True)
class Orders:
    """The sequences that a schedule follows.

    `compute` has one sequence per device: its F, B, W and R tokens in the order in which they
    start. R is among them because it allocates device memory; a stage's micro-batch is offloaded
    if it has an R. `channels` and `hosts` give the sequence of the transfers on each exclusive
    channel and of the offloads into each host; without them transfers are served first come,
    first served.
    """

    compute: tuple[tuple[Token, ...], ...]
    channels: Mapping[Channel, tuple[Token, ...]] | None = None
    hosts: Mapping[int, tuple[Token, ...]] | None = None


def orders_of(problem: PipelineProblem, ops: Iterable[TimedOp]) -> Orders:
    """The orders that a timed schedule follows; timing them again is never later."""
    compute: list[list[Token]] = [[] for _ in problem.devices]
    channels: dict[Channel, list[Token]] = defaultdict(list)
    hosts: dict[int, list[Token]] = defaultdict(list)
    last = len(problem.stages)
    rank = {"F": 0, "O": 1, "R": 2, "B": 3, "W": 4}

    def by_start(op: TimedOp) -> tuple[int, int, int, int, int]:
        # At equal times operations of no length follow their dependencies, one micro-batch after
        # the other so that each frees its memory: forwards down the stages, backwards up.
        depth = op.stage if op.op in "FO" else last - op.stage
        return op.start_ns, op.end_ns, op.micro_batch, rank[op.op], depth

    for op in sorted(ops, key=by_start):
        device = problem.stages[op.stage].device
        if op.op != "O":
            compute[device].append(op.token)
        if op.op in "OR":
            channels[problem.channel(op.stage, op.op)].append(op.token)
        host = problem.devices[device].host
        if op.op == "O" and host is not None:
            hosts[host].append(op.token)
    return Orders(
        tuple(map(tuple, compute)),
        {channel: tuple(tokens) for channel, tokens in channels.items()},
        {host: tuple(tokens) for host, tokens in hosts.items()},
    )


def check_complete(problem: PipelineProblem, orders: Orders) -> None:
    """Raise `OrderError` unless each device runs exactly its operations, R only where it can."""
    if len(orders.compute) != len(problem.devices):
        raise OrderError(f"{len(orders.compute)} sequences for {len(problem.devices)} devices")
    for d, tokens in enumerate(orders.compute):
        seen = set(tokens)
        if len(seen) != len(tokens):
            raise OrderError(f"device {d} runs an operation twice")
        needed = 0
        for s in problem.stages_of_device[d]:
            stage = problem.stages[s]
            for m in range(problem.micro_batches):
                kinds: tuple[OpKind, ...] = (
                    ("F", "B", "W") if stage.has_weight_op(m) else ("F", "B")
                )
                for kind in kinds:
                    if (kind, s, m) not in seen:
                        raise OrderError(
                            f"device {d} never runs {kind} of stage {s}, micro-batch {m}"
                        )
                needed += len(kinds)
        reloads = [token for token in tokens if token.op == "R"]
        if needed + len(reloads) != len(tokens):
            raise OrderError(f"device {d} runs an operation that is not its own")
        for _, s, m in reloads:
            if problem.stages[s].device != d or not problem.stages[s].offload_bytes[m]:
                raise OrderError(f"stage {s}, micro-batch {m} has nothing to offload")
