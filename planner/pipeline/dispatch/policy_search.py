"""A short seeded search over list-scheduling policies: keep the best of what was dispatched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

from planner.errors import Interrupted
from planner.pipeline.dispatch.list_scheduling import ListScheduler
from planner.pipeline.dispatch.policy import DispatchPolicy, every, unlimited
from planner.pipeline.objective import objective_of_ops_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp

Mutation = Callable[[DispatchPolicy, Random], DispatchPolicy]
OFFLOAD_SHARES = ((1, 1), (1, 1), (1, 2), (2, 3), (3, 4), (1, 3), (0, 1))


class PolicySearch:
    """Dispatches policies and keeps the best outcome by the problem's objective.

    `budget` is how many operations may be placed in all; it bounds the time of the search and,
    unlike a clock, gives the same answer on every machine.
    """

    def __init__(
        self,
        problem: PipelineProblem,
        needed: frozenset[tuple[int, int]],
        budget: int,
        should_stop: Callable[[], bool],
        lower_bound_ns: int,
    ) -> None:
        self.problem, self.needed = problem, needed
        self.budget, self.should_stop, self.lower_bound_ns = budget, should_stop, lower_bound_ns
        self.seen: set[DispatchPolicy] = set()
        self.best: tuple[int, int] | None = None
        self.policy: DispatchPolicy | None = None
        self.ops: list[TimedOp] = []

    @property
    def exhausted(self) -> bool:
        """Whether there is an answer that cannot be improved, or no more time to improve it."""
        if self.best is None:
            return False
        return self.best[0] <= self.lower_bound_ns or self.budget <= 0 or self.should_stop()

    def consider(self, policy: DispatchPolicy) -> bool:
        """Dispatch a policy not seen yet; whether it is no worse than the best."""
        if policy in self.seen or self.exhausted:
            return False
        self.seen.add(policy)
        try:
            ops = ListScheduler(self.problem, policy, self.needed).run(self.should_stop)
        except Interrupted:
            if self.best is None:
                raise
            return False
        self.budget -= len(ops)
        value = objective_of_ops_ns(self.problem, ops), len(ops)
        if self.best is not None and value > self.best:
            return False
        self.best, self.policy, self.ops = value, policy, ops
        return True

    def consider_all(self, policies: Iterable[DispatchPolicy]) -> None:
        """Dispatch each."""
        for policy in policies:
            self.consider(policy)

    def improve(self, mutations: list[Mutation], random: Random, patience: int) -> None:
        """Change one to three choices of the best at a time, until `patience` changes in a row
        brought nothing or the budget is spent."""
        tries = 0
        while tries < patience and not self.exhausted:
            assert self.policy is not None
            changed = self.policy
            for _ in range(random.choice((1, 1, 2, 3))):
                changed = random.choice(mutations)(changed, random)
            before = self.best
            self.consider(changed)
            tries = 0 if self.best != before else tries + 1


def depth_profile(problem: PipelineProblem, slope: float, extra: int) -> tuple[int, ...]:
    """In-flight caps that shrink with depth: slope x (stages from here on) + extra, at least 1."""
    count = len(problem.stages)
    return tuple(
        max(1, min(problem.micro_batches, int((count - s) * slope) + extra)) for s in range(count)
    )


def cap_mutations(problem: PipelineProblem) -> list[Mutation]:
    """Changes of the in-flight caps: a profile by depth, a constant, none, or one stage's cap."""
    count, micro_batches = len(problem.stages), problem.micro_batches

    def profile(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        slope = random.choice((0.25, 0.5, 0.75, 1.0, 1.5, 2.0))
        caps = depth_profile(problem, slope, random.randint(-1, 4))
        return replace(policy, in_flight=caps)

    def level(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        cap = random.choice((micro_batches, random.randint(1, 2 * count)))
        return replace(policy, in_flight=(min(cap, micro_batches),) * count)

    def one_stage(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        s = random.randrange(count)
        cap = min(policy.in_flight[s], 2 * count) + random.choice((-2, -1, 1, 2))
        caps = list(policy.in_flight)
        caps[s] = max(1, min(micro_batches, cap))
        return replace(policy, in_flight=tuple(caps))

    def held(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        cap = min(micro_batches, random.randint(1, 2 * count))
        chosen = random.choice((unlimited(problem), (cap,) * count))
        return replace(policy, held=chosen)

    return [profile, level, one_stage, one_stage, held]


def order_mutations(problem: PipelineProblem, delay_ns: int) -> list[Mutation]:
    """Changes of what goes first and of the tolerances; the first backwards wait `delay_ns` at
    most."""
    weight_ns = max(max(stage.backward_weight_ns) for stage in problem.stages)
    backward_ns = max(max(stage.backward_input_ns) for stage in problem.stages)
    delays = (None, 0, weight_ns // 4, weight_ns // 2, backward_ns // 4, backward_ns // 2)

    def first(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, first_backward_delay_ns=random.choice((0, delay_ns // 2, delay_ns)))

    def forward(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, forward_delay_ns=random.choice(delays))

    def weight(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, weight_delay_ns=random.choice(delays))

    def weight_first(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, weight_first=not policy.weight_first)

    mutations: list[Mutation] = [first, forward]
    if weight_ns:
        mutations += [weight, weight, weight_first]
    if any(len(stages) > 1 for stages in problem.stages_of_device):

        def deep(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
            return replace(policy, deep_first=not policy.deep_first)

        def warm_up(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
            caps = depth_profile(problem, random.choice((0.0, 0.25, 0.5)), random.randint(-1, 1))
            return replace(policy, warm_up=caps)

        mutations += [deep, warm_up]
    return mutations


def offload_mutations(
    problem: PipelineProblem, thresholds: tuple[float | None, ...]
) -> list[Mutation]:
    """Changes of what is offloaded and when, and of when it is reloaded."""

    def share(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, offload=every(problem, *random.choice(OFFLOAD_SHARES)))

    def stage_share(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        s = random.randrange(len(problem.stages))
        selection = list(policy.offload)
        selection[s] = every(problem, *random.choice(OFFLOAD_SHARES))[s]
        return replace(policy, offload=tuple(selection))

    def threshold(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, offload_above=random.choice(thresholds))

    def newest(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, newest_offload_first=not policy.newest_offload_first)

    def slack(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, reload_slack=random.choice((0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)))

    def room(policy: DispatchPolicy, random: Random) -> DispatchPolicy:
        return replace(policy, reload_room=random.randint(0, 2))

    return [share, stage_share, stage_share, threshold, newest, slack, slack, room]
