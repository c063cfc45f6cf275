"""Least time under a memory budget with activation checkpointing, Colossal-Auto's objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.errors import Interrupted
from planner.progress import StopCheck, watched
from planner.sharding import times
from planner.sharding.baselines.baseline import Baseline
from planner.sharding.baselines.optimum import find_best
from planner.sharding.build import Formulation
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost, totals
from planner.sharding.options import SolveOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import PEAK_ROUNDS, Budget
from planner.sharding.restrict import least_memory_bytes

NS_PER_S = 1e9
BETWEEN_CHECKS = 50
"""Operators or edges: a tenth of a second where 64 devices share the work."""

NAME = "least time with checkpointing (Colossal-Auto)"
MODELLED = (
    "The plan of least computation and communication time within the devices' memory, in which "
    "each operator may drop what it keeps for the backward and compute it again: both at once in "
    "one ILP (Liu et al. 2023 solve sharding first and checkpointing second)."
)
NOT_MODELLED = (
    "Checkpoints of whole chains of operators, whose inside is never kept together; the moment in "
    "which an operator's activations are there again; Colossal-AI's own cost units, which add "
    "FLOPs to bytes."
)
KEEPS_LESS = (
    "the fastest that was found whose predicted peak fits: among plans that keep less than the "
    "devices have, so that what is needed for a moment fits on top."
)
IS_THE_PLAN = (
    "the request's own plan, computing nothing again: of faster ones what is kept would fit, but "
    "none was found whose predicted peak does."
)
NONE_FITS = (
    "what is kept fits, but the predicted peak does not; no plan was found whose peak does either."
)


@dataclass(frozen=True, slots=True)
class _Variant:
    strategy: int
    is_repeated: bool
    saved_bytes: int
    repeated_s: float


def least_time(
    timed: Formulation,
    precision: str,
    limit_bytes: int | None,
    options: SolveOptions,
    budget: Budget,
    plan: Sequence[int] | None = None,
) -> Baseline:
    """`timed` has its communication in time, as bytes on the fastest link.

    The ILP limits what is kept. Where the peak of what it finds is too high, its limit is lowered
    by the excess, as for the request's own `plan`, which is a candidate too: of those that fit the
    fastest is taken. Raises `Interrupted` if told to stop before there is an ILP.
    """
    search = _LeastTime(timed, precision, limit_bytes, options, budget)
    first, reason = search.within(limit_bytes, budget)
    if first is None:
        return Baseline(NAME, MODELLED, NOT_MODELLED, timed, None, reason)
    if limit_bytes is None or first.needed_bytes <= limit_bytes:
        return search.baseline(first)
    # The other half of the time is for the rows behind this one.
    lowered = search.lowered(first, limit_bytes, budget.share(2))
    fitting = [] if lowered is None else [lowered]
    if plan is not None:
        own = search.without_checkpointing(plan)
        fitting += [own] if own.needed_bytes <= limit_bytes else []
    if not fitting:
        return search.baseline(replace(first, note=NONE_FITS))
    return search.baseline(min(fitting, key=lambda found: found.objective))


@dataclass(frozen=True, slots=True)
class _Timed:
    """A choice of variants: its time in ns, what it keeps and its predicted peak."""

    choice: tuple[int, ...]
    objective: float
    kept_bytes: int
    peak_bytes: int
    is_proven: bool
    note: str | None = None

    @property
    def needed_bytes(self) -> int:
        """Kept or held for a moment."""
        return max(self.kept_bytes, self.peak_bytes)


class _LeastTime:
    """Solves the same ILP for one limit after the other."""

    def __init__(
        self,
        timed: Formulation,
        precision: str,
        limit_bytes: int | None,
        options: SolveOptions,
        budget: Budget,
    ) -> None:
        self._timed = timed
        self._options = options
        numbers = watched(range(len(timed.strategies)), budget.should_stop, BETWEEN_CHECKS)
        self._variants = [_variants(timed, number, precision) for number in numbers]
        self._instance = _instance(
            timed, self._variants, precision, limit_bytes, budget.should_stop
        )

    def within(self, limit_bytes: int | None, budget: Budget) -> tuple[_Timed | None, str | None]:
        """The fastest that keeps no more than the limit, or why there is none."""
        instance = replace(self._instance, device_memory_bytes=limit_bytes)
        best = find_best(instance, instance, self._options, budget)
        if best.choice is None:
            return None, best.reason
        return self._timed_choice(best.choice, is_proven=best.is_proven), None

    def lowered(self, first: _Timed, limit_bytes: int, budget: Budget) -> _Timed | None:
        """The first that fits as the limit of what is kept is lowered by what is too much."""
        least_bytes, found = least_memory_bytes(self._instance), first
        for _ in range(PEAK_ROUNDS):
            if found.kept_bytes <= least_bytes or budget.is_over():
                return None
            kept_bytes = max(least_bytes, found.kept_bytes - (found.needed_bytes - limit_bytes))
            try:
                lower, _ = self.within(kept_bytes, budget)
            except Interrupted:
                return None
            if lower is None:
                return None
            if lower.needed_bytes <= limit_bytes:
                # Plans that keep more may fit as well, and be faster.
                return replace(lower, is_proven=False, note=KEEPS_LESS)
            found = lower
        return None

    def without_checkpointing(self, plan: Sequence[int]) -> _Timed:
        """A plan of the same strategies as one of the choices."""
        choice = tuple(
            own.index(_Variant(strategy, False, 0, 0.0))
            for own, strategy in zip(self._variants, plan, strict=True)
        )
        return replace(self._timed_choice(choice, is_proven=False), note=IS_THE_PLAN)

    def baseline(self, found: _Timed) -> Baseline:
        """The row of a choice."""
        chosen = self._chosen(found.choice)
        return Baseline(
            NAME,
            MODELLED,
            NOT_MODELLED,
            self._timed,
            tuple(variant.strategy for variant in chosen),
            saved_bytes=sum(variant.saved_bytes for variant in chosen),
            repeated_s=sum(variant.repeated_s for variant in chosen),
            is_proven=found.is_proven,
            note=found.note,
        )

    def _timed_choice(self, choice: tuple[int, ...], *, is_proven: bool) -> _Timed:
        chosen, sums = self._chosen(choice), totals(self._instance, choice)
        peak_bytes = predicted_peak_bytes(self._timed, [own.strategy for own in chosen])
        return _Timed(
            choice,
            sums.objective(self._instance.alpha),
            sums.memory_bytes,
            peak_bytes - sum(own.saved_bytes for own in chosen),
            is_proven,
        )

    def _chosen(self, choice: Sequence[int]) -> list[_Variant]:
        return [own[number] for own, number in zip(self._variants, choice, strict=True)]


def _variants(timed: Formulation, number: int, precision: str) -> list[_Variant]:
    """Each strategy as it is and, where it keeps something, with that computed again."""
    operator = timed.graph.operators[number]
    settings, count = timed.settings, timed.times[number]
    found = []
    for place, strategy in enumerate(timed.strategies[number]):
        found.append(_Variant(place, False, 0, 0.0))
        kept = times.kept_bytes(timed, number, strategy)
        if kept and operator.kind != "input":
            again_s = times.forward_s(timed, operator, strategy, precision)
            found.append(
                _Variant(
                    place,
                    True,
                    count * settings.micro_batches_in_flight * kept,
                    count * settings.micro_batches * again_s,
                )
            )
    return found


def _instance(
    timed: Formulation,
    variants: list[list[_Variant]],
    precision: str,
    limit_bytes: int | None,
    should_stop: StopCheck,
) -> Instance:
    """Times in ns take the places of bytes."""
    plain = timed.instance(1.0, limit_bytes)
    settings = timed.settings
    ns_per_byte = NS_PER_S / settings.devices.cluster.link_bytes_per_s
    operators = []
    for number, operator in enumerate(plain.operators):
        strategies = []
        for variant in variants[number]:
            cost = operator.strategies[variant.strategy]
            strategy = timed.strategies[number][variant.strategy]
            work_s = times.operator_s(timed, timed.graph.operators[number], strategy, precision)
            busy_s = timed.times[number] * settings.micro_batches * work_s + variant.repeated_s
            strategies.append(
                StrategyCost(
                    f"{cost.name}{' again' if variant.is_repeated else ''}",
                    round(busy_s * NS_PER_S),
                    round(cost.communication_bytes * ns_per_byte),
                    cost.memory_bytes - variant.saved_bytes,
                )
            )
        operators.append(OperatorChoice(operator.name, tuple(strategies)))
    edges = tuple(
        Edge(
            edge.source,
            edge.target,
            tuple(
                tuple(
                    round(edge.resharding_bytes[a.strategy][b.strategy] * ns_per_byte)
                    for b in variants[edge.target]
                )
                for a in variants[edge.source]
            ),
        )
        for edge in watched(plain.edges, should_stop, BETWEEN_CHECKS)
    )
    return Instance(tuple(operators), edges, 1.0, limit_bytes)
