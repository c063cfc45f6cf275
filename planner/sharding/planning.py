"""The best plan of one formulation: instance, reductions, ILP, verification, predicted peak.

Where the reductions leave few plans they are all compared in place of the ILP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.sharding.build import Formulation
from planner.sharding.few_plans import best_of_few
from planner.sharding.fitting import Fitting
from planner.sharding.ilp.solve import IlpOptions, IlpResult, solve_instance
from planner.sharding.instance import Instance, Plan, totals
from planner.sharding.options import SolveOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.reduce import reduce_instance
from planner.sharding.restrict import least_memory_bytes, unreduced
from planner.sharding.verify import find_violations

FoundStatus = Literal["optimal", "feasible", "infeasible", "no_plan"]
Method = Literal["ILP", "comparison", "elimination", "local search"]

PEAK_ROUNDS = 6
LEAST_SOLVE_S = 0.5
FITTING_SHARE, LONGEST_FITTING_S = 0.25, 5.0
"""Of the time left, and seconds, for plans that fit where a plan's peak is too high."""
PERSISTENT_SHARE = 0.8
"""Of the time left after that where none was found: the rest is for saying what would fit."""


@dataclass(frozen=True)
class Budget:
    """When a solve has to end: at `deadline` (of `time.monotonic`) or when asked to."""

    deadline: float
    should_stop: Callable[[], bool]
    log: Callable[[str], None]

    def seconds_left(self) -> float:
        """Until the deadline; a solve begun late still gets a moment."""
        return max(LEAST_SOLVE_S, self.deadline - time.monotonic())

    def share(self, parts: int) -> Budget:
        """The first of so many equal parts of the time that is left."""
        return replace(self, deadline=self.within(1 / parts))

    def within(self, share: float) -> float:
        """When so much of the time that is left now will be over."""
        now = time.monotonic()
        return now + share * max(0.0, self.deadline - now)

    def ilp_options(self, options: SolveOptions) -> IlpOptions:
        """What an ILP that is solved now has to be told."""
        return IlpOptions(
            engine=options.engine,
            time_limit_s=self.seconds_left(),
            mip_gap=options.mip_gap,
            threads=options.threads,
            should_stop=self.should_stop,
            on_log=self.log,
        )

    def is_over(self) -> bool:
        """Whether nothing new should be begun."""
        return time.monotonic() >= self.deadline or self.should_stop()


@dataclass(frozen=True)
class Found:
    """What a search for a plan came to.

    The instance's memory limit is what the plan may keep: less than the devices have where
    transient memory comes on top. `peak_bytes` is the predicted peak of the plan, or, where none
    was found that fits (`no_plan`), the least memory, kept or held for a moment, of those looked
    at. `bound_of_all` holds for the plans that keep more than the instance allows as well.
    `ilp` is what the search within the instance came to, be it an ILP or a comparison of all plans
    that the reductions leave; `found_by` says where the plan itself comes from. `compared_peaks` is
    how many plans were looked at, from the cheapest on, if the plan is the best of all whose peaks
    fit, else 0.
    """

    instance: Instance
    plan: Plan | None
    status: FoundStatus
    peak_bytes: int | None
    ilp: IlpResult
    bound_of_all: float | None
    reduced_operators: int
    reduced_strategies: int
    found_by: Method
    compared_peaks: int = 0


def find_plan(
    formulation: Formulation,
    alpha: float,
    limit_bytes: int | None,
    options: SolveOptions,
    budget: Budget,
    *,
    persist: bool = False,
) -> Found:
    """The plan of least objective whose predicted peak fits in `limit_bytes`.

    What a plan keeps is limited in the instance; what it needs for a moment on top (resharded
    copies, gradients at work) is only known once it is there. Where both together exceed the limit,
    the limit of what is kept is lowered by the excess and the search repeated, down to the least
    that any plan keeps. Since plans that keep more may need less on top, those are looked at from
    the cheapest on, and by local search; to `persist` is to go on with that for most of the time
    where none is found that fits. Raises `Interrupted` if told to stop before there is an
    ILP.
    """
    first = found = _solve(formulation, formulation.instance(alpha, limit_bytes), options, budget)
    if limit_bytes is None or first.plan is None or _fits(first, limit_bytes):
        return found
    least_bytes = least_memory_bytes(first.instance)
    starts = []
    for rounds_left in reversed(range(PEAK_ROUNDS)):
        plan = found.plan
        if plan is None or _fits(found, limit_bytes):
            break
        assert found.peak_bytes is not None
        starts.append(plan.choice)
        if plan.memory_bytes <= least_bytes:
            break
        # The limit may be loose: what counts is what this plan keeps.
        kept_bytes = plan.memory_bytes - (found.peak_bytes - limit_bytes)
        kept_bytes = max(least_bytes, kept_bytes if rounds_left else 0)
        found = _solve(formulation, formulation.instance(alpha, kept_bytes), options, budget)
    if found.plan is not None:
        starts.insert(0, found.plan.choice)
    return _best_fitting(formulation, limit_bytes, first, found, starts, budget, persist)


def _best_fitting(
    formulation: Formulation,
    limit_bytes: int,
    first: Found,
    found: Found,
    starts: Sequence[tuple[int, ...]],
    budget: Budget,
    persist: bool,
) -> Found:
    """The better of the plan that keeps less, if that fits, and the best of those looked at."""
    deadline = min(budget.within(FITTING_SHARE), time.monotonic() + LONGEST_FITTING_S)
    search = Fitting(formulation, first.instance, limit_bytes, deadline, budget.should_stop)
    every_start = [*starts, *_by_one_role(formulation)]
    choice = search.run(every_start)
    if choice is None and persist and not (search.is_exhausted or budget.is_over()):
        choice = search.run_longer(every_start, budget.within(PERSISTENT_SHARE))
    if choice is not None:
        sums = totals(first.instance, choice)
        objective = sums.objective(first.instance.alpha)
        bound = objective if search.compared else _higher(first.bound_of_all, search.bound)
        knows_less = search.compared > 0 and found.status != "optimal"
        if knows_less or not _is_as_good(found, limit_bytes, objective):
            # The instance knows of no peaks: within it, cheaper plans may well exist.
            own = Plan(choice, objective, sums.memory_bytes, "feasible", bound)
            return replace(
                first,
                plan=own,
                status="feasible",
                peak_bytes=search.peak_bytes(choice),
                bound_of_all=bound,
                found_by="comparison" if search.compared else "local search",
                compared_peaks=search.compared,
            )
        return replace(found, bound_of_all=bound)
    return replace(first, plan=None, status="no_plan", peak_bytes=search.least_needed_bytes)


def _higher(bound: float | None, other: float | None) -> float | None:
    """The better of two lower bounds of the same plans."""
    return max((own for own in (bound, other) if own is not None), default=None)


def _is_as_good(found: Found, limit_bytes: int, objective: float) -> bool:
    """Whether a plan was found that fits and costs no more than this."""
    plan = found.plan
    return plan is not None and _fits(found, limit_bytes) and plan.objective <= objective


def _fits(found: Found, limit_bytes: int) -> bool:
    return found.peak_bytes is not None and found.peak_bytes <= limit_bytes


def _by_one_role(formulation: Formulation) -> Iterator[tuple[int, ...]]:
    """Plans that split all operators by one role, as far as they can be."""
    for role in range(3):
        choice = []
        for own in formulation.strategies:
            degrees = [strategy.degrees[role] for strategy in own]
            choice.append(degrees.index(max(degrees)))
        yield tuple(choice)


def _solve(
    formulation: Formulation, instance: Instance, options: SolveOptions, budget: Budget
) -> Found:
    result = None
    if options.reductions:
        reduced = reduce_instance(instance, should_stop=budget.should_stop)
        result = best_of_few(reduced.instance)
    else:
        reduced = unreduced(instance)
    if result is None:
        result = solve_instance(reduced.instance, **budget.ilp_options(options))
    plan = None if result.plan is None else expanded(instance, reduced.expand, result.plan)
    return Found(
        instance=instance,
        plan=plan,
        status=result.status,
        peak_bytes=None if plan is None else predicted_peak_bytes(formulation, plan.choice),
        ilp=result,
        bound_of_all=result.lower_bound,
        reduced_operators=len(reduced.instance.operators),
        reduced_strategies=sum(len(o.strategies) for o in reduced.instance.operators),
        found_by=result.method,
    )


def expanded(
    instance: Instance, expand: Callable[[Sequence[int]], tuple[int, ...]], plan: Plan
) -> Plan:
    """The plan of the whole instance that the plan of a reduced one stands for, verified."""
    choice = expand(plan.choice)
    sums = totals(instance, choice)
    whole = replace(
        plan,
        choice=choice,
        objective=sums.objective(instance.alpha),
        memory_bytes=sums.memory_bytes,
    )
    if violations := find_violations(instance, whole):
        raise AssertionError(f"the plan found breaks a rule: {violations[0]}")
    return whole
