"""Starts for a search where memory is short: list schedules within the devices' limits.

With memory for fewer micro-batches than 1F1B holds, the rate is set by how soon a round trip
through the stages gives memory back, and which stage should hold how many micro-batches, and
wait for what, depends on the costs. A short seeded search over the policies of the list
scheduler finds out; no schedule offloads anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

from planner.errors import OrderError
from planner.pipeline.classic.list_schedule import FAR, ListPolicy, list_schedule
from planner.pipeline.classic.timed import timed
from planner.pipeline.dispatch.policy_search import depth_profile
from planner.pipeline.kernel.orders import OrderArrays, orders_from_arrays
from planner.pipeline.kernel.tables import LIMIT, WEIGHT, compute_durations, tables_of
from planner.pipeline.names import FoundBy
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.progress import StopCheck, never

BUDGET_OPERATIONS = 8_000_000
"""Operations that the search places in all, a few seconds, within the numbers of policies below."""
LEAST_POLICIES = 60
MOST_POLICIES = 3000
CHAINS = 3
SLOPES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


def memory_limited_starts(
    problem: PipelineProblem,
    should_stop: StopCheck = never,
    budget_operations: int = BUDGET_OPERATIONS,
    *,
    most: int = CHAINS,
) -> list[tuple[str, Orders]]:
    """Different orders without offloads that keep within the limits, at most `most`, best first,
    with names.

    For any placement. Empty where one micro-batch at a time does not fit without offloads. Apart
    from `should_stop` the answer depends only on the other arguments.
    """
    search = _Search(problem, should_stop, budget_operations)
    try:
        search.run()
    except OrderError:
        return []
    return [
        (FoundBy.LIST_SCHEDULE.replace("#", str(k + 1)), orders_from_arrays(search.tables, orders))
        for k, (_, _, orders) in enumerate(search.leaders[:most])
        if search.fits(orders)
    ]


class _Search:
    """Keeps the best few outcomes and changes the policy of one of them at a time."""

    def __init__(
        self, problem: PipelineProblem, should_stop: StopCheck, budget_operations: int
    ) -> None:
        self.problem, self.should_stop = problem, should_stop
        self.tables = tables_of(problem)
        self.random = Random(0)
        durations = compute_durations(self.tables)
        weights = int((durations[WEIGHT] > 0).sum())
        affordable = budget_operations // (2 * durations[WEIGHT].size + weights)
        self.left = max(LEAST_POLICIES, min(MOST_POLICIES, affordable))
        self.leaders: list[tuple[int, ListPolicy, OrderArrays]] = []
        self.seen: set[ListPolicy] = set()
        self.delays = [int(table.max()) for table in durations]

    def run(self) -> None:
        """Try the openings, then change leaders in turn until the budget is spent."""
        for policy in self._openings():
            self._consider(policy, len(self.leaders))
        # Each leader goes its own way, so that the ends differ.
        self._sort_leaders()
        del self.leaders[CHAINS:]
        tries = 0
        while self.leaders and self.left > 0 and tries < MOST_POLICIES:
            if self.should_stop():
                break
            chain = min(self.random.choice((0, 0, 1, 2)), len(self.leaders) - 1)
            before = self.left
            policy = self.leaders[chain][1]
            for _ in range(self.random.choice((1, 1, 2, 3))):
                policy = self._changed(policy)
            self._consider(policy, chain)
            tries = 0 if self.left < before else tries + 1
        self._sort_leaders()

    def fits(self, orders: OrderArrays) -> bool:
        """Whether the orders keep within the limits without waiting for memory. They do, unless
        operations that take no time overlap others."""
        peaks = timed(self.problem, orders, self.tables).peak_memory_bytes
        return all(
            peak <= limit
            for peak, limit in zip(peaks, self.tables.devices[:, LIMIT].tolist(), strict=True)
        )

    def _sort_leaders(self) -> None:
        """Best first, each order once."""
        different = {leader[2].numbers.tobytes(): leader for leader in self.leaders}
        self.leaders = sorted(different.values(), key=lambda leader: leader[0])

    def _consider(self, policy: ListPolicy, chain: int) -> None:
        """Take the policy's outcome for the chain's if it is no worse and fits."""
        if policy in self.seen or self.left <= 0 or self.should_stop():
            return
        self.seen.add(policy)
        self.left -= 1
        orders = list_schedule(self.tables, policy)
        outcome = timed(self.problem, orders, self.tables)
        entry = outcome.objective_ns, policy, orders
        if chain == len(self.leaders):
            self.leaders.append(entry)
        elif entry[0] <= self.leaders[chain][0]:
            self.leaders[chain] = entry

    def _openings(self) -> Iterator[ListPolicy]:
        """Depth by memory, 1F1B's and less, with different waits for backwards to come."""
        problem = self.problem
        stages, count = len(problem.stages), problem.micro_batches
        forward, _, weight = self.delays
        depths = {
            (count,) * stages,
            depth_profile(problem, 1.0, 0),
            depth_profile(problem, 0.5, 1),
            depth_profile(problem, 2.0, -1),
        }
        for stage in problem.stages:
            limit = problem.devices[stage.device].activation_memory_bytes
            fits = count if limit is None else limit // max(1, *stage.activation_bytes)
            depths.add(tuple(max(1, min(fits, stages - k)) for k in range(stages)))
            depths.add(tuple(max(1, (stages - k + 1) * fits // stages) for k in range(stages)))
        choices = product(
            (False, True), (0, weight // 2, FAR), (0, forward // 2, FAR), sorted(depths)
        )
        for weight_first, weight_delay, forward_delay, depth in choices:
            yield ListPolicy(
                depth,
                (count,) * stages,
                (0,) * stages,
                first_backward_delay_ns=forward_delay,
                forward_delay_ns=forward_delay,
                weight_delay_ns=weight_delay,
                weight_first=weight_first,
            )

    def _changed(self, policy: ListPolicy) -> ListPolicy:
        """The policy with one choice made anew."""
        random, problem = self.random, self.problem
        stages, count = len(problem.stages), problem.micro_batches
        forward, backward, weight = self.delays
        what = random.choice(
            ("stage", "stage", "stage", "depth", "first", "forward", "weight", "flags", "held")
        )
        if what == "stage":
            s = random.randrange(stages)
            depths = list(policy.in_flight)
            depth = min(depths[s], 2 * stages) + random.choice((-2, -1, 1, 2))
            depths[s] = max(1, min(count, depth))
            return replace(policy, in_flight=tuple(depths))
        if what == "depth":
            profile = depth_profile(problem, random.choice(SLOPES), random.randint(-1, 4))
            return replace(policy, in_flight=profile)
        if what == "held":
            cap = random.choice((count, min(count, random.randint(1, 2 * stages))))
            return replace(policy, held=(cap,) * stages)
        if what == "first":
            delay = random.choice((0, forward // 4, forward // 2, forward, FAR))
            return replace(policy, first_backward_delay_ns=delay)
        if what == "forward":
            delay = random.choice((0, forward // 4, forward // 2, backward // 2, FAR))
            return replace(policy, forward_delay_ns=delay)
        if what == "weight":
            delay = random.choice((0, weight // 4, weight // 2, backward // 2, FAR))
            return replace(policy, weight_delay_ns=delay)
        if random.random() < 0.5:
            return replace(policy, weight_first=not policy.weight_first)
        if len({stage.device for stage in problem.stages}) == stages:
            return policy
        if random.random() < 0.5:
            return replace(policy, deep_first=not policy.deep_first)
        profile = depth_profile(problem, random.choice((0.0, 0.25, 0.5)), random.randint(-1, 1))
        return replace(policy, warm_up=profile)
