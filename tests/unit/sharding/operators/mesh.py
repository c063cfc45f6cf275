"""Simulated devices that run a program each in lock-step and exchange what they ask for."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sharding.operators.rule import Degrees, Roles, Rule, Split

Array = NDArray[Any]
ROLES = ("data", "row", "column")


class Request(NamedTuple):
    """A collective that a device takes part in. `array`: what it contributes; for all-to-all a
    list with one entry per device of the group."""

    kind: str
    role: str
    array: Any
    dimension: int = 0
    largest: bool = False


Program = Generator[Request, Any, Any]


@dataclass(frozen=True)
class Device:
    """One place of the mesh, with the collectives that its program may ask for."""

    rule: Rule
    degrees: Degrees
    place: tuple[int, int, int]

    def index(self, role: str) -> int:
        """Which device of the role it is."""
        return self.place[ROLES.index(role)]

    def degree(self, role: str) -> int:
        """How many devices the role has."""
        return self.degrees[ROLES.index(role)]

    @property
    def is_first_of_row(self) -> bool:
        """Whether it adds what is to count once in a sum over row."""
        return self.index("row") == 0

    @property
    def sequence_parallel(self) -> bool:
        """Whether the rule is the second one of its operator."""
        return self.rule.suffix == "sp"

    def block(self, array: Array, split: Split) -> Array:
        """Its block of a whole array."""
        return block(array, split, self.degrees, self.place)

    def all_reduce(self, role: str, array: Array, *, largest: bool = False) -> Program:
        """The sum, or the largest, over the devices of a role."""
        return (yield Request("all_reduce", role, array, largest=largest))

    def all_gather(self, role: str, array: Array, dimension: int) -> Program:
        """The arrays of the devices of a role behind each other."""
        return (yield Request("all_gather", role, array, dimension))

    def reduce_scatter(self, role: str, array: Array, dimension: int) -> Program:
        """This device's part of the sum over the devices of a role."""
        return (yield Request("reduce_scatter", role, array, dimension))

    def all_to_all(self, role: str, arrays: list[Array]) -> Program:
        """What every device of a role has for this one."""
        return (yield Request("all_to_all", role, arrays))

    def uncounted_all_to_all(self, role: str, arrays: list[Array]) -> Program:
        """The same for labels of something that is counted."""
        return (yield Request("uncounted", role, arrays))


def block(array: Array, split: Split, degrees: Degrees, place: tuple[int, ...]) -> Array:
    """What the device at a place holds of an array; earlier roles make the larger blocks."""
    for dimension, degree, index in zip(split, degrees, place, strict=True):
        if dimension is not None:
            size, rest = divmod(array.shape[dimension], degree)
            assert rest == 0, f"{degree} devices cannot split {array.shape} along {dimension}"
            cut = [slice(None)] * array.ndim
            cut[dimension] = slice(index * size, (index + 1) * size)
            array = array[tuple(cut)]
    return array


def places(degrees: Degrees) -> Iterator[tuple[int, ...]]:
    """The places of a mesh, column innermost."""
    return itertools.product(*(range(degree) for degree in degrees))


def count_of(degrees: Degrees, roles: Sequence[bool]) -> int:
    """How many blocks the roles make."""
    return math.prod(degree for degree, own in zip(degrees, roles, strict=True) if own)


class Mesh:
    """The devices of one strategy, and a record of what they sent: how often which collective of
    how many elements took place."""

    def __init__(self, rule: Rule, degrees: Degrees) -> None:
        self.rule, self.degrees = rule, degrees
        self.devices = [Device(rule, degrees, place) for place in places(degrees)]
        self.sent: Counter[tuple[str, str, str, float]] = Counter()

    def run(self, phase: str, start: Callable[[Device], Program]) -> list[Any]:
        """The results of all devices' programs, which run in lock-step."""
        programs = {device.place: start(device) for device in self.devices}
        answers: dict[tuple[int, ...], Any] = dict.fromkeys(programs)
        results: dict[tuple[int, ...], Any] = {}
        while len(results) < len(programs):
            asked = {}
            for place, program in programs.items():
                try:
                    asked[place] = program.send(answers[place])
                except StopIteration as end:
                    results[place] = end.value
            if asked:
                assert not results, "some devices wait for others that have finished"
                answers = self._collective(phase, asked)
        return [results[device.place] for device in self.devices]

    def reduced(self, arrays: list[Array], partial: Roles) -> list[Array]:
        """Every device's array after sums over the devices of the roles."""
        for role, summed in zip(ROLES, partial, strict=True):
            if summed:
                by_place = dict(zip((d.place for d in self.devices), arrays, strict=True))
                arrays = [
                    sum((by_place[peer] for peer in self._group(d.place, role)), np.float64(0))
                    for d in self.devices
                ]
        return arrays

    def _group(self, place: tuple[int, ...], role: str) -> list[tuple[int, ...]]:
        at = ROLES.index(role)
        return [(*place[:at], index, *place[at + 1 :]) for index in range(self.degrees[at])]

    def _collective(
        self, phase: str, asked: dict[tuple[int, ...], Request]
    ) -> dict[tuple[int, ...], Any]:
        kind, role = next(iter(asked.values()))[:2]
        assert all(request[:2] == (kind, role) for request in asked.values())
        answers = {}
        groups = {tuple(self._group(place, role)) for place in asked}
        elements = 0
        for group in groups:
            at = [asked[place] for place in group]
            size, results = _exchange(kind, at)
            elements += size
            answers.update(zip(group, results, strict=True))
        # Groups of an all-to-all may differ; the rule says how much it is if all are alike.
        if kind != "uncounted":
            self.sent[phase, kind, role, elements / len(groups)] += 1
        return answers


def _exchange(kind: str, asked: list[Request]) -> tuple[int, list[Any]]:
    """How many elements the group's array has, and every device's result."""
    arrays = [request.array for request in asked]
    dimension = asked[0].dimension
    if kind in ("all_to_all", "uncounted"):
        return (
            sum(part.size for parts in arrays for part in parts),
            [[parts[at] for parts in arrays] for at in range(len(arrays))],
        )
    if kind == "all_gather":
        gathered = np.concatenate(arrays, axis=dimension)
        return gathered.size, [gathered] * len(arrays)
    total = np.max(arrays, axis=0) if asked[0].largest else np.sum(arrays, axis=0)
    if kind == "reduce_scatter":
        return total.size, np.split(total, len(arrays), axis=dimension)
    return total.size, [total] * len(arrays)
