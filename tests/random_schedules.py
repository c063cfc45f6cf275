"""Random valid schedules: a random serial execution, re-timed as early as its orders allow."""

from __future__ import annotations

from random import Random

from planner.errors import OrderError
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp, Token
from planner.pipeline.timing import orders_of, time_orders
from planner.pipeline.verify import verify
from tests.brute_force import operations, predecessors

ATTEMPTS = 5


def random_schedule(problem: PipelineProblem, random: Random) -> Schedule:
    """A valid schedule in random order with random offloads; the sequential one if all attempts
    run out of memory."""
    for _ in range(ATTEMPTS):
        ops = _random_serial_ops(problem, random)
        if ops is None:
            continue
        try:
            schedule = time_orders(problem, orders_of(problem, ops))
        except OrderError:
            continue
        if not verify(problem, schedule):
            return schedule
    return sequential_schedule(problem)


def _random_serial_ops(problem: PipelineProblem, random: Random) -> list[TimedOp] | None:
    share = random.choice([0.0, 0.5, 1.0])
    offloads = frozenset(
        (s, m)
        for s, stage in enumerate(problem.stages)
        for m in range(problem.micro_batches)
        if stage.offload_bytes[m] and random.random() < share
    )
    tokens = operations(problem, offloads)
    present = set(tokens)
    used = [0] * len(problem.devices)
    host_used = [0] * len(problem.hosts)
    left = set(tokens)
    ops: list[TimedOp] = []
    now = 0
    while left:
        ready = [
            token
            for token in sorted(left)
            if not any(earlier in left for earlier in predecessors(problem, token, present))
            and _fits(problem, token, used, host_used)
        ]
        if not ready:
            return None
        token = random.choice(ready)
        left.discard(token)
        op, s, m = token
        stage = problem.stages[s]
        # Serial slots of 1 ns each: only the order of the operations counts.
        ops.append(TimedOp(op, s, m, now, now + 1))
        now += 1
        used[stage.device] += {
            "F": stage.activation_bytes[m],
            "B": stage.backward_allocation_bytes(m) - stage.backward_free_bytes(m),
            "W": -stage.late_bytes(m),
            "O": -stage.offload_bytes[m],
            "R": stage.offload_bytes[m],
        }[op]
        host = problem.devices[stage.device].host
        if host is not None and op in "OR":
            host_used[host] += stage.offload_bytes[m] if op == "O" else -stage.offload_bytes[m]
    return ops


def _fits(problem: PipelineProblem, token: Token, used: list[int], host_used: list[int]) -> bool:
    op, s, m = token
    stage = problem.stages[s]
    allocated = {
        "F": stage.activation_bytes[m],
        "R": stage.offload_bytes[m],
        "B": stage.backward_allocation_bytes(m),
    }.get(op, 0)
    limit = problem.devices[stage.device].activation_memory_bytes
    if limit is not None and used[stage.device] + allocated > limit:
        return False
    host = problem.devices[stage.device].host
    if op != "O" or host is None:
        return True
    host_limit = problem.hosts[host].memory_bytes
    return host_limit is None or host_used[host] + stage.offload_bytes[m] <= host_limit
