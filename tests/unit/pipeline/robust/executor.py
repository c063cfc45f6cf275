"""Ranks that follow a schedule's sequence and waits, event by event and without a clock.

Written from the rules that `planner.pipeline.robust.precedence` documents, sharing none of its
code: operations start when they may, in any order within one instant, and nobody looks at memory
except to record what is in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Schedule, Token

Memory = tuple[str, int]


class Condition(NamedTuple):
    """An operation that must have started or ended; `travels` if its data then take a latency."""

    what: Literal["start", "end"]
    token: Token
    travels: bool = False


class Deadlock(Exception):
    """Nothing runs, nothing may start, and operations are left."""


@dataclass
class Execution:
    """When everything started and ended, and the most that was in use of each memory."""

    start: dict[Token, int] = field(default_factory=dict)
    end: dict[Token, int] = field(default_factory=dict)
    peak: dict[Memory, int] = field(default_factory=lambda: defaultdict(int))

    def exceeded(self, problem: PipelineProblem) -> list[Memory]:
        """The memories whose limits were passed."""
        return [key for key, limit in limits(problem).items() if self.peak[key] > limit]


def given_time(problem: PipelineProblem, token: Token) -> int:
    stage = problem.stages[token.stage]
    times = {
        "F": stage.forward_ns,
        "B": stage.backward_input_ns,
        "W": stage.backward_weight_ns,
        "O": stage.offload_ns,
        "R": stage.reload_ns,
    }
    return times[token.op][token.micro_batch]


def given_latency(problem: PipelineProblem, late: Token) -> int:
    """The latency before an F or a B that comes from a neighbouring stage."""
    op, s, m = late
    if op == "F" and s:
        return problem.transfers[s - 1].forward_ns[m]
    if op == "B" and s + 1 < len(problem.stages):
        return problem.transfers[s].backward_ns[m]
    return 0


def limits(problem: PipelineProblem) -> dict[Memory, int]:
    found: dict[Memory, int] = {}
    for d, device in enumerate(problem.devices):
        if device.activation_memory_bytes is not None:
            found["device", d] = device.activation_memory_bytes
    for h, host in enumerate(problem.hosts):
        if host.memory_bytes is not None:
            found["host", h] = host.memory_bytes
    return found


def allocates(problem: PipelineProblem, token: Token) -> dict[Memory, int]:
    op, s, m = token
    stage = problem.stages[s]
    device = ("device", stage.device)
    host = problem.devices[stage.device].host
    if op == "F":
        return {device: stage.activation_bytes[m]}
    if op == "R":
        return {device: stage.offload_bytes[m]}
    if op == "B":
        late = stage.weight_grad_bytes[m] if stage.backward_weight_ns[m] else 0
        more = max(0, late - stage.activation_bytes[m])
        return {device: more + stage.backward_workspace_bytes[m]}
    if op == "O" and host is not None:
        return {("host", host): stage.offload_bytes[m]}
    return {}


def frees(problem: PipelineProblem, token: Token) -> dict[Memory, int]:
    op, s, m = token
    stage = problem.stages[s]
    device = ("device", stage.device)
    host = problem.devices[stage.device].host
    late = stage.weight_grad_bytes[m] if stage.backward_weight_ns[m] else 0
    if op == "O":
        return {device: stage.offload_bytes[m]}
    if op == "W":
        return {device: late}
    if op == "B":
        less = max(0, stage.activation_bytes[m] - late)
        return {device: less + stage.backward_workspace_bytes[m]}
    if op == "R" and host is not None:
        return {("host", host): stage.offload_bytes[m]}
    return {}


def conditions(problem: PipelineProblem, schedule: Schedule) -> dict[Token, list[Condition]]:
    """What must have started or ended before each operation may start."""
    sequence = [op.token for op in sorted(schedule.ops, key=lambda op: op.start_ns)]
    present = set(sequence)
    needs: dict[Token, list[Condition]] = {token: [] for token in sequence}
    in_total: dict[Memory, int] = defaultdict(int)
    for token in sequence:
        for memory, size in allocates(problem, token).items():
            in_total[memory] += size
    last_of_queue: dict[object, Token] = {}
    last_allocation: dict[Memory, Token] = {}
    limit = limits(problem)
    for token in sequence:
        op, s, m = token
        before = {
            "F": [],
            "B": [Token("F", s, m), Token("R", s, m)],
            "W": [Token("B", s, m)],
            "O": [Token("F", s, m)],
            "R": [Token("O", s, m)],
        }[op]
        if problem.micro_batch_order is MicroBatchOrder.FIXED and op in "FBW":
            before.append(Token(op, s, m - 1))
        queue: object = (problem.stages[s].device,) if op in "FBW" else problem.channel(s, op)
        queue = queue, given_time(problem, token) == 0
        if queue in last_of_queue:
            before.append(last_of_queue[queue])
        last_of_queue[queue] = token
        needs[token] += [Condition("end", earlier) for earlier in before if earlier in present]
        sender = Token(op, s - 1 if op == "F" else s + 1, m)
        if op in "FB" and sender in present:
            needs[token].append(Condition("end", sender, travels=True))
        for memory, size in allocates(problem, token).items():
            if size and memory in limit and in_total[memory] > limit[memory]:
                if memory in last_allocation:
                    needs[token].append(Condition("start", last_allocation[memory]))
                last_allocation[memory] = token
    for wait in schedule.waits or ():
        needs[wait.token] += [Condition("end", earlier) for earlier in wait.after]
    return needs


def execute(
    problem: PipelineProblem,
    schedule: Schedule,
    durations: Mapping[Token, int] | None = None,
    latencies: Mapping[Token, int] | None = None,
    random: Random | None = None,
) -> Execution:
    """Run everything as early as it may; the problem's own times unless others are given.

    What happens at one instant happens one after the other, in an order that `random` draws.
    Raises `Deadlock`.
    """
    random = random or Random(0)
    done = Execution()
    used: dict[Memory, int] = defaultdict(int)
    now = 0
    unmet: dict[Token, int] = {}
    ready_at: dict[Token, int] = {}
    followers: dict[tuple[str, Token], list[tuple[Token, bool]]] = defaultdict(list)
    for token, needs in conditions(problem, schedule).items():
        unmet[token] = len(needs)
        ready_at[token] = 0
        for what, earlier, travels in needs:
            followers[what, earlier].append((token, travels))
    to_start = {token for token, count in unmet.items() if not count}
    running: set[Token] = set()

    def length(token: Token) -> int:
        return given_time(problem, token) if durations is None else durations[token]

    def latency(token: Token) -> int:
        return given_latency(problem, token) if latencies is None else latencies[token]

    def happened(what: str, token: Token) -> None:
        for later, travels in followers[what, token]:
            ready_at[later] = max(ready_at[later], now + (latency(later) if travels else 0))
            unmet[later] -= 1
            if not unmet[later]:
                to_start.add(later)

    while to_start or running:
        events = [
            *((ready_at[token], "start", token) for token in to_start),
            *((done.start[token] + length(token), "end", token) for token in running),
        ]
        now = min(when for when, _, _ in events)
        _, event, token = random.choice(sorted(entry for entry in events if entry[0] == now))
        if event == "start":
            to_start.discard(token)
            running.add(token)
            done.start[token] = now
            for memory, size in allocates(problem, token).items():
                used[memory] += size
                done.peak[memory] = max(done.peak[memory], used[memory])
        else:
            running.discard(token)
            done.end[token] = now
            for memory, size in frees(problem, token).items():
                used[memory] -= size
        happened(event, token)
    if len(done.end) < len(unmet):
        raise Deadlock(sorted(token for token in unmet if token not in done.end))
    assert not any(used.values())
    return done


def worst_durations(problem: PipelineProblem, schedule: Schedule, token: Token) -> dict[Token, int]:
    """Durations under which nothing has ended that need not have when this operation starts."""
    needs = conditions(problem, schedule)
    must_end: set[Token] = set()
    seen: set[Token] = set()
    to_visit = [token]
    while to_visit:
        current = to_visit.pop()
        if current in seen:
            continue
        seen.add(current)
        must_end |= {earlier for what, earlier, _ in needs[current] if what == "end"}
        to_visit += [earlier for _, earlier, _ in needs[current]]
    return {other: 0 if other in must_end else 1 for other in needs}
