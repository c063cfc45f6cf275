"""Placing the experts of some layers on the devices of a group: quickly, or as well as can be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from planner.milp.engine import EngineLimits, EngineName
from planner.progress import never
from planner.training.experts.bounds import least_time_s
from planner.training.experts.greedy import improve, pack_largest_first
from planner.training.experts.layer import Layer, Packing
from planner.training.experts.problem import ExpertProblem
from planner.training.experts.search import search

PROVEN_WITHIN = 1e-5
"""Relative distance of time and bound that counts as none. Engines calculate with six digits, and
routing is never known to as many."""
SEARCH_SHARE = 0.3
"""Of a layer's time, for local search before the engine."""
LEAST_ENGINE_S = 0.05

FoundBy = Literal["largest first", "exchanges", "local search", "cbc", "highs"]
End = Literal["proven", "gap", "time_limit", "stopped", "not_solved"]


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """How to solve: the engine, seconds in all, when to stop, and where log lines go.

    `mip_gap` is the relative distance from the bound at which a layer is good enough.
    """

    engine: EngineName
    time_limit_s: float
    mip_gap: float
    threads: int
    seed: int
    should_stop: Callable[[], bool]
    on_log: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Packed:
    """The best packing of one layer and the bound of all; `proven_by` is the engine that proved
    the bound, None where it follows from the weights. `not_solved`: no engine was asked."""

    packing: Packing
    time_s: float
    bound_s: float
    found_by: FoundBy
    proven_by: EngineName | None
    ended_by: End

    @property
    def gap(self) -> float:
        """Relative distance of time and bound."""
        return max(0.0, self.time_s - self.bound_s) / self.time_s if self.time_s else 0.0

    @property
    def is_optimal(self) -> bool:
        """Whether no packing is better, as far as engines can tell."""
        return self.gap <= PROVEN_WITHIN


@dataclass(frozen=True, slots=True)
class Placement:
    """Per layer of the problem the experts of each device, and how its packing was found."""

    problem: ExpertProblem
    experts_of_device: tuple[tuple[tuple[int, ...], ...], ...]
    packed: tuple[Packed, ...]


def place_quickly(problem: ExpertProblem, should_stop: Callable[[], bool] = never) -> Placement:
    """Greedy packings improved by exchanges, without engines: milliseconds for hundreds of experts.

    Raises `SpecError` where the experts cannot be divided or do not fit.
    """
    layers = problem.layers()
    packed = {
        layer: _pack_quickly(layer, PROVEN_WITHIN, should_stop) for layer in dict.fromkeys(layers)
    }
    return _placement(problem, layers, packed)


def place_experts(problem: ExpertProblem, options: PlacementOptions) -> Placement:
    """The placement that takes least time, proven where time suffices.

    Layers of equal frequencies, in whatever order, are solved once. Those where most is to be
    gained come first, each with an equal part of the time that is left. A stop or the end of the
    time keeps the best found so far. Raises `SpecError` where the experts cannot be divided or do
    not fit, and `SolverCrash` if an engine dies by itself.
    """
    deadline = time.monotonic() + options.time_limit_s
    within = max(PROVEN_WITHIN, options.mip_gap)

    def is_over() -> bool:
        return time.monotonic() >= deadline or options.should_stop()

    layers = problem.layers()
    times = Counter(layers)
    packed = {layer: _pack_quickly(layer, within, is_over) for layer in times}
    still_open = [layer for layer in times if packed[layer].gap > within]
    still_open.sort(key=lambda layer: (packed[layer].bound_s - packed[layer].time_s) * times[layer])
    for number, layer in enumerate(still_open):
        now = time.monotonic()
        share_s = max(0.0, deadline - now) / (len(still_open) - number)
        packed[layer] = _pack_well(layer, packed[layer], within, now + share_s, options)
    return _placement(problem, layers, packed)


def _pack_quickly(layer: Layer, within: float, should_end: Callable[[], bool]) -> Packed:
    bound_s = least_time_s(layer)
    target_s = bound_s * (1 + within)
    first = pack_largest_first(layer)
    first_s = layer.time_s(layer.loads(first))
    best = improve(layer, first, target_s, should_end)
    best_s = layer.time_s(layer.loads(best))
    found_by: FoundBy = "exchanges" if best_s < first_s else "largest first"
    packed = Packed(best, best_s, min(bound_s, best_s), found_by, None, "not_solved")
    return _ended(packed, within, "not_solved")


def _pack_well(
    layer: Layer, packed: Packed, within: float, deadline: float, options: PlacementOptions
) -> Packed:
    """Local search for some of the time, then the engine."""
    # Only solver processes have the libraries loaded.
    from planner.training.experts.milp import look_for_better

    search_until = time.monotonic() + SEARCH_SHARE * max(0.0, deadline - time.monotonic())
    packed = _with_better(
        layer,
        packed,
        search(
            layer,
            packed.packing,
            packed.bound_s * (1 + within),
            options.seed,
            lambda: time.monotonic() >= search_until or options.should_stop(),
        ),
        "local search",
    )
    left_s = deadline - time.monotonic()
    if packed.gap <= within or options.should_stop() or left_s < LEAST_ENGINE_S:
        return _ended(packed, within, "stopped" if options.should_stop() else "time_limit")
    limits = EngineLimits(left_s, options.mip_gap, options.threads)
    result = look_for_better(
        layer, packed.time_s, options.engine, limits, options.should_stop, options.on_log
    )
    if result.packing is not None:
        packed = _with_better(layer, packed, result.packing, options.engine)
    if result.bound_s > packed.bound_s:
        bound_s = min(result.bound_s, packed.time_s)
        packed = replace(packed, bound_s=bound_s, proven_by=options.engine)
    # What an engine proves of rounded weights may be a gap of the true ones.
    return _ended(packed, within, "gap" if result.ended_by == "proven" else result.ended_by)


def _with_better(layer: Layer, packed: Packed, found: Packing, found_by: FoundBy) -> Packed:
    time_s = layer.time_s(layer.loads(found))
    if time_s >= packed.time_s:
        return packed
    bound_s = min(packed.bound_s, time_s)
    return replace(packed, packing=found, time_s=time_s, bound_s=bound_s, found_by=found_by)


def _ended(packed: Packed, within: float, otherwise: End) -> Packed:
    if packed.is_optimal:
        return replace(packed, ended_by="proven")
    return replace(packed, ended_by="gap" if packed.gap <= within else otherwise)


def _placement(
    problem: ExpertProblem, layers: list[Layer], packed: dict[Layer, Packed]
) -> Placement:
    """Packings number the experts by weight; each layer has its own order of them."""
    placed = []
    for weights, layer in zip(problem.routing.whole_weights, layers, strict=True):
        order = sorted(range(len(weights)), key=lambda expert: (-weights[expert], expert))
        placed.append(
            tuple(tuple(sorted(order[place] for place in own)) for own in packed[layer].packing)
        )
    return Placement(problem, tuple(placed), tuple(packed[layer] for layer in layers))
