"""Exhaustive answers to tiny problems, for comparison with the planner's.

`some_schedule_exists` is an untimed search over all interleavings of all micro-batches;
`least_objective` times every order of every device (and of every channel) with every set of
offloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

from planner.errors import OrderError
from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, Token
from planner.pipeline.timing import Orders, time_orders

Pair = tuple[int, int]


def operations(problem: PipelineProblem, offloads: frozenset[Pair]) -> list[Token]:
    """All operations of a schedule that offloads exactly these (stage, micro-batch) pairs."""
    tokens = []
    for s, stage in enumerate(problem.stages):
        for m in range(problem.micro_batches):
            tokens += [Token("F", s, m), Token("B", s, m)]
            if stage.has_weight_op(m):
                tokens.append(Token("W", s, m))
            if (s, m) in offloads:
                tokens += [Token("O", s, m), Token("R", s, m)]
    return tokens


def predecessors(problem: PipelineProblem, token: Token, present: set[Token]) -> list[Token]:
    """The operations that must have ended before this one starts."""
    op, s, m = token
    before: list[Token] = []
    if op == "F" and s:
        before.append(Token("F", s - 1, m))
    if op == "B":
        before += [Token("F", s, m), Token("R", s, m)]
        if s + 1 < len(problem.stages):
            before.append(Token("B", s + 1, m))
    waits_for: dict[OpKind, OpKind] = {"W": "B", "O": "F", "R": "O"}
    if op in waits_for:
        before.append(Token(waits_for[op], s, m))
    if problem.micro_batch_order is MicroBatchOrder.FIXED and op in "FBW" and m:
        # Without a W of the neighbour, its last one that has any comes before.
        before.append(Token(op, s, m - 1))
    return [token for token in before if token in present]


def offload_sets(problem: PipelineProblem) -> Iterator[frozenset[Pair]]:
    pairs = [
        (s, m)
        for s, stage in enumerate(problem.stages)
        for m in range(problem.micro_batches)
        if stage.offload_bytes[m]
    ]
    for size in range(len(pairs) + 1):
        yield from map(frozenset, combinations(pairs, size))


def some_schedule_exists(problem: PipelineProblem) -> bool:
    """Whether any valid schedule exists; operations run one at a time, in every possible order.

    Any schedule whose operations all take time can be run serially (O where it ends, R where it
    starts, the rest where they start) without holding more, so the serial ones decide.
    """
    return any(_serial_order_exists(problem, offloads) for offloads in offload_sets(problem))


def _serial_order_exists(problem: PipelineProblem, offloads: frozenset[Pair]) -> bool:
    tokens = operations(problem, offloads)
    present = set(tokens)
    before = {token: predecessors(problem, token, present) for token in tokens}
    limits = [d.activation_memory_bytes for d in problem.devices]
    host_limits = [h.memory_bytes for h in problem.hosts]
    start: tuple[frozenset[Token], tuple[int, ...], tuple[int, ...]] = (
        frozenset(),
        (0,) * len(limits),
        (0,) * len(host_limits),
    )
    seen = {start[0]}
    stack = [start]
    while stack:
        done, used, host_used = stack.pop()
        if len(done) == len(tokens):
            return True
        for token in tokens:
            following = done | {token}
            if token in done or following in seen:
                continue
            if any(earlier not in done for earlier in before[token]):
                continue
            op, s, m = token
            stage = problem.stages[s]
            allocated, freed = {
                "F": (stage.activation_bytes[m], 0),
                "B": (stage.backward_allocation_bytes(m), stage.backward_free_bytes(m)),
                "W": (0, stage.late_bytes(m)),
                "O": (0, stage.offload_bytes[m]),
                "R": (stage.offload_bytes[m], 0),
            }[op]
            limit = limits[stage.device]
            if limit is not None and used[stage.device] + allocated > limit:
                continue
            now_used = _changed(used, stage.device, allocated - freed)
            now_host = host_used
            host = problem.devices[stage.device].host
            if host is not None and op in "OR":
                size = stage.offload_bytes[m]
                now_host = _changed(host_used, host, size if op == "O" else -size)
                host_limit = host_limits[host]
                if host_limit is not None and now_host[host] > host_limit:
                    continue
            seen.add(following)
            stack.append((following, now_used, now_host))
    return False


def _changed(values: tuple[int, ...], i: int, delta: int) -> tuple[int, ...]:
    return (*values[:i], values[i] + delta, *values[i + 1 :])


def linear_extensions(
    tokens: list[Token], before: dict[Token, set[Token]]
) -> Iterator[tuple[Token, ...]]:
    """All orders of the tokens in which everything comes after what is before it."""
    if not tokens:
        yield ()
        return
    left = set(tokens)
    for token in tokens:
        if not (before[token] & left):
            rest = [other for other in tokens if other != token]
            for order in linear_extensions(rest, before):
                yield (token, *order)


def device_orders(
    problem: PipelineProblem, device: int, offloads: frozenset[Pair]
) -> list[tuple[Token, ...]]:
    """Every order of a device's F, B, W and R that its own dependencies allow."""
    present = set(operations(problem, offloads))
    own = [t for t in present if problem.stages[t.stage].device == device and t.op != "O"]
    before = {t: _closure(problem, t, present) for t in own}
    return list(linear_extensions(sorted(own), before))


def _closure(problem: PipelineProblem, token: Token, present: set[Token]) -> set[Token]:
    found: set[Token] = set()
    stack = [token]
    while stack:
        for earlier in predecessors(problem, stack.pop(), present):
            if earlier not in found:
                found.add(earlier)
                stack.append(earlier)
    return found


def all_schedules(problem: PipelineProblem) -> Iterator[Schedule]:
    """Every order of everything, timed as early as it goes; orders that deadlock are left out."""
    for offloads in offload_sets(problem):
        per_device = [device_orders(problem, d, offloads) for d in range(len(problem.devices))]
        channels: dict[tuple[str, str], list[Token]] = {}
        for s, m in sorted(offloads):
            for op in ("O", "R"):
                channels.setdefault(problem.channel(s, op), []).append(Token(op, s, m))
        per_channel = [list(permutations(tokens)) for tokens in channels.values()]
        for combination in product(*per_device, *per_channel):
            compute = combination[: len(per_device)]
            given = dict(zip(channels, combination[len(per_device) :], strict=True))
            try:
                yield time_orders(problem, Orders(tuple(compute), given))
            except OrderError:
                continue


def objective_ns(problem: PipelineProblem, schedule: Schedule) -> int:
    if problem.objective is Objective.MAKESPAN:
        return schedule.makespan_ns
    return schedule.steady_span_ns


def least_objective(problem: PipelineProblem) -> int | None:
    """The best objective of any order; None if no order can be executed.

    Optimal for the makespan without host limits. For the steady span only an upper bound: delaying
    a device's first operation beyond the earliest time may shorten its span.
    """
    return min((objective_ns(problem, s) for s in all_schedules(problem)), default=None)
