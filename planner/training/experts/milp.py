"""The MILP of one layer: experts to devices, in less time than the best packing known.

Whole columns y[c, d] say how many experts of weight class c (experts of equal weight are one class)
device d holds; M is the most loaded device's weight and Z the exchange's time:

    minimise   compute M + Z
    each c     sum_d y[c, d] = experts of c
    each d     sum_c y[c, d] = capacity (at most, unless counts are equal)
               M >= sum_c weight_c y[c, d]  and  Z >= arrival_d sum_c weight_c y[c, d]
    each node  Z >= departure (all weight - weight of the node), where nodes are unequal

Devices that nothing distinguishes are ordered by their largest expert (symmetry breaking, Margot
2010), so the j-th of them holds none of the j largest experts. Z is not needed where all devices
take equally long for what they get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal

import mip

from planner.errors import SolverCrash
from planner.milp.cbc_log import LogState
from planner.milp.engine import EngineLimits, EngineName
from planner.milp.engine_library import solve_with_library
from planner.training.experts.layer import Layer, Packing

LARGEST_COEFFICIENT = 1_000_000
CUT_OFF = 5e-6
"""A packing has to be better by this share to be looked for."""
DUAL_TOLERANCE = 1e-7
"""Reduced costs of that size pass for zero in the engines."""

EngineEnd = Literal["proven", "gap", "time_limit", "stopped"]


@dataclass(frozen=True, slots=True)
class EngineResult:
    """A packing that is better than the one known, if one was found, and the bound proven for the
    time of all packings; `ended_by` says why the engine ended."""

    packing: Packing | None
    bound_s: float
    ended_by: EngineEnd


def look_for_better(
    layer: Layer,
    best_s: float,
    engine: EngineName,
    limits: EngineLimits,
    should_stop: Callable[[], bool],
    on_log: Callable[[str], None],
) -> EngineResult:
    """Have an engine find a packing that takes less than `best_s`, or prove that there is none.

    Weights of many digits are rounded down to a millionth of the largest, which at most lowers the
    bound. Raises `SolverCrash` if the engine dies by itself.
    """
    model = _Model(layer, best_s)

    def follow(line: str, state: LogState) -> None:
        on_log(line)

    run = solve_with_library(model.build, engine, limits, follow, should_stop)
    if run.status == "infeasible":
        return EngineResult(None, (1 - CUT_OFF) * best_s, "proven")
    packing = None if run.values is None else model.packing(run.values)
    bound_s = 0.0 if run.bound is None else model.bound_s(run.bound, run.bound_digits)
    if run.status == "optimal":
        if packing is None:
            raise SolverCrash("the engine's solution is no packing", run.log_tail)
        return EngineResult(packing, bound_s, "proven")
    return EngineResult(packing, bound_s, run.status)


class _Model:
    """Columns and rows of one layer; loads are in units of `unit` weights, and so is Z, of what
    takes longest to arrive."""

    def __init__(self, layer: Layer, best_s: float) -> None:
        self._layer = layer
        self._unit = max(1, -(-layer.weights[0] // LARGEST_COEFFICIENT))
        self._classes = [
            (weight // self._unit, list(experts))
            for weight, experts in groupby(range(len(layer.weights)), layer.weights.__getitem__)
        ]
        self._slowest_s = max(layer.arrival_s)
        self._alike = not layer.departure_s and len(set(layer.arrival_s)) == 1
        self._unit_s = (layer.compute_s + self._slowest_s) * self._unit
        self._computing = layer.compute_s / (layer.compute_s + self._slowest_s)
        self._cut_off = (1 - CUT_OFF) * best_s / self._unit_s

    def bound_s(self, units: float, printed_digits: int) -> float:
        """An engine's bound in seconds, less what its arithmetic and its log may be off."""
        tolerance = DUAL_TOLERANCE * (abs(units) + len(self._layer.weights))
        tolerance += abs(units) * 0.5 * 10.0 ** (1 - printed_digits)
        return max(0.0, units - tolerance) * self._unit_s

    def packing(self, values: Sequence[float]) -> Packing | None:
        """The packing that a solution stands for; None if its numbers are none."""
        experts: list[list[int]] = [[] for _ in self._layer.capacity]
        place = 0
        for _, members in self._classes:
            left = iter(members)
            for device in experts:
                device += islice(left, round(values[place]))
                place += 1
        fits = all(
            len(own) == capacity if self._layer.equal else len(own) <= capacity
            for own, capacity in zip(experts, self._layer.capacity, strict=True)
        )
        if not fits or sum(map(len, experts)) != len(self._layer.weights):
            return None
        return tuple(map(tuple, experts))

    def build(self, solver_name: str) -> mip.Model:
        """The model for a solver of python-mip."""
        layer = self._layer
        model = mip.Model(sense=mip.MINIMIZE, solver_name=solver_name)
        held = self._add_held(model)
        load = [
            mip.xsum(
                weight * own[device] for (weight, _), own in zip(self._classes, held, strict=True)
            )
            for device in range(layer.devices)
        ]
        largest = model.add_var()
        exchange = largest if self._alike else model.add_var()
        for (_, members), own in zip(self._classes, held, strict=True):
            model.add_constr(mip.xsum(own) == len(members))
        for device, capacity in enumerate(layer.capacity):
            count = mip.xsum(own[device] for own in held)
            model.add_constr(count == capacity if layer.equal else count <= capacity)
            model.add_constr(largest >= load[device])
            if not self._alike:
                speed = self._slowest_s / layer.arrival_s[device]
                model.add_constr(speed * exchange >= load[device])
        if layer.departure_s:
            total = sum(weight * len(members) for weight, members in self._classes)
            for devices in layer.devices_of_node().values():
                inside = mip.xsum(load[device] for device in devices)
                speed = self._slowest_s / layer.departure_s
                model.add_constr(speed * exchange >= total - inside)
        objective = self._computing * largest + (1 - self._computing) * exchange
        model.objective = mip.minimize(objective)
        model.add_constr(objective <= self._cut_off)
        return model

    def _add_held(self, model: mip.Model) -> list[list[mip.Var]]:
        """The columns y, by class and device."""
        layer, ranks = self._layer, self._ranks()
        columns = []
        for _, members in self._classes:
            allowed = [sum(expert >= rank for expert in members) for rank in ranks]
            columns.append(
                [
                    model.add_var(ub=min(most, capacity), var_type=mip.INTEGER)
                    for most, capacity in zip(allowed, layer.capacity, strict=True)
                ]
            )
        return columns

    def _ranks(self) -> list[int]:
        """The place of each device among those that nothing distinguishes from it."""
        layer = self._layer
        seen: dict[tuple[int, float, int | None], int] = {}
        ranks = []
        for device, node in enumerate(layer.node_of_device):
            kind = (
                layer.capacity[device],
                layer.arrival_s[device],
                node if layer.departure_s else None,
            )
            ranks.append(seen.get(kind, 0))
            seen[kind] = ranks[-1] + 1
        return ranks
