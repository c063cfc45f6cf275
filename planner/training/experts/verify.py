"""Independent verification of a placement of experts against its problem.

Written against the rules, not against the code that places: every token's way is followed from
device to device with the frequencies themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.sharding.verify import Violation
from planner.training.experts.place import PROVEN_WITHIN, Packed, Placement
from planner.training.experts.problem import ExpertProblem

VERIFIER = "loadmaster expert placement verifier 1"
TOLERANCE = 1e-9
"""Relative, of times: sums of floating-point numbers depend on their order."""


def find_violations(placement: Placement) -> list[Violation]:
    """Every rule that the placement breaks; empty if it is valid. Where experts are missing or
    held twice only that is reported, since the times need them all."""
    problem = placement.problem
    violations = list(_held_violations(placement))
    if violations:
        return violations
    violations += _memory_violations(placement)
    known: set[object] = set()
    for number, (devices, packed) in enumerate(
        zip(placement.experts_of_device, placement.packed, strict=True)
    ):
        what = (devices, packed, problem.routing.weights[number])
        if what not in known:
            known.add(what)
            violations += _time_violations(problem, number, devices, packed)
    return violations


def _held_violations(placement: Placement) -> Iterator[Violation]:
    problem = placement.problem
    experts, devices = problem.routing.experts, problem.group.devices
    if len(placement.experts_of_device) != problem.routing.layers:
        yield Violation(
            "layers",
            f"{len(placement.experts_of_device)} are placed of {problem.routing.layers}",
        )
    for number, held in enumerate(placement.experts_of_device):
        if len(held) != devices:
            yield Violation("devices", f"layer {number} is on {len(held)} of {devices}")
        if sorted(expert for own in held for expert in own) != list(range(experts)):
            yield Violation(
                "one device per expert", f"layer {number} does not hold each of {experts} once"
            )
        if problem.equal_counts and len({len(own) for own in held}) > 1:
            yield Violation("equal counts", f"layer {number} has {[len(own) for own in held]}")


def _memory_violations(placement: Placement) -> Iterator[Violation]:
    limits = placement.problem.group.memory_bytes
    for device, limit in enumerate(limits or ()):
        held = sum(len(layer[device]) for layer in placement.experts_of_device)
        used = held * placement.problem.costs.state_bytes
        if used > limit:
            yield Violation("memory", f"{used} bytes on device {device}, which has {limit}")


def _time_violations(
    problem: ExpertProblem, number: int, held: Sequence[Sequence[int]], packed: Packed
) -> Iterator[Violation]:
    time_s = _layer_s(problem, number, held)
    room = TOLERANCE * time_s
    if not abs(time_s - packed.time_s) <= room:
        yield Violation("time", f"layer {number} takes {time_s} s, not {packed.time_s}")
    if not packed.bound_s <= time_s + room:
        yield Violation("bound", f"layer {number} is bounded by {packed.bound_s} s, takes {time_s}")
    if packed.ended_by == "proven" and time_s - packed.bound_s > PROVEN_WITHIN * time_s + room:
        yield Violation("proof", f"layer {number} takes {time_s} s, proven is {packed.bound_s}")


def _layer_s(problem: ExpertProblem, number: int, held: Sequence[Sequence[int]]) -> float:
    """Computing on the most loaded device, then each exchange on the device that needs longest."""
    group, costs = problem.group, problem.costs
    frequencies = problem.routing.frequencies(number)
    # Each device's tokens choose experts with the same frequencies.
    copies = [costs.tokens * sum(frequencies[expert] for expert in own) for own in held]
    devices = range(group.devices)
    exchange_s = 0.0
    for device in devices:
        for nearby, rate in ((True, group.link_bytes_per_s), (False, group.network_bytes_per_s)):
            others = [
                other
                for other in devices
                if other != device
                and (group.node_of_device[other] == group.node_of_device[device]) == nearby
            ]
            sent = sum(copies[other] for other in others)
            received = len(others) * copies[device]
            exchange_s = max(exchange_s, max(sent, received) * costs.token_bytes / rate)
    compute_s = max(copies) * group.devices * costs.token_compute_s
    return compute_s + costs.exchanges * exchange_s
