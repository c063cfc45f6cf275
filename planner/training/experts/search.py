"""Local search that does not end at the first local optimum."""

from __future__ import annotations

import random
from collections.abc import Callable

from planner.training.experts.greedy import improve
from planner.training.experts.layer import Layer, Packing

MOST_ROUNDS = 500
EXCHANGED = 3
"""Pairs of experts exchanged at random per round."""


def search(
    layer: Layer, start: Packing, target_s: float, seed: int, should_end: Callable[[], bool]
) -> Packing:
    """Shake the best packing and improve it again (iterated local search, Lourenço, Martin and
    Stützle 2003), until it takes no longer than the target, for at most `MOST_ROUNDS`."""
    numbers = random.Random(seed)
    best, best_s = start, layer.time_s(layer.loads(start))
    for _ in range(MOST_ROUNDS):
        if best_s <= target_s or should_end():
            break
        found = improve(layer, _shaken(best, numbers), target_s, should_end)
        found_s = layer.time_s(layer.loads(found))
        if found_s <= best_s:
            best, best_s = found, found_s
    return best


def _shaken(packing: Packing, numbers: random.Random) -> Packing:
    experts = [list(own) for own in packing]
    holding = [own for own in experts if own]
    for _ in range(EXCHANGED if len(holding) > 1 else 0):
        one, other = numbers.sample(holding, 2)
        here, there = numbers.randrange(len(one)), numbers.randrange(len(other))
        one[here], other[there] = other[there], one[here]
    return tuple(map(tuple, experts))
