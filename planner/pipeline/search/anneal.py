"""Simulated annealing over token sequences, compiled.

Kirkpatrick, Gelatt and Vecchi, "Optimization by Simulated Annealing" (1983), with the moves of
`search.proposals`.
"""

from __future__ import annotations

from math import log

from planner.compiled import inner
from planner.pipeline.kernel.simulate import NEVER
from planner.pipeline.kernel.tables import Integers, Tables
from planner.pipeline.search.critical_path import find_critical
from planner.pipeline.search.estimate import estimate, find_tails
from planner.pipeline.search.evaluate import (
    cost_of,
    drop_trial,
    evaluate,
    find_unchanged,
    keep_trial,
)
from planner.pipeline.search.moves import all_hold_memory, random_below
from planner.pipeline.search.proposals import NOTHING, WHOLE, WINDOW, propose, restore
from planner.pipeline.search.state import Scratch, State, copy_sequences, index_rows

SPREAD_KEPT = 0.99
"""Share of the mean end's part of the cost that a move is expected to leave."""
ACCEPTED_PER_TAILS = 4
"""Accepted moves after which the tails are found anew; until then the estimate is a bit off."""


@inner
def begin(tables: Tables, state: State, scratch: Scratch, offloads: bool) -> int:
    """Time the state's sequences in full; their objective, negative if they cannot be run."""
    index_rows(tables, state)
    if not offloads and not all_hold_memory(tables, state):
        return -1
    for d in range(len(tables.devices)):
        scratch.first[d] = 0
    objective = evaluate(tables, state, scratch, offloads, NEVER)
    if objective >= 0:
        keep_trial(tables, state, scratch, offloads)
    return objective


@inner
def anneal(
    tables: Tables,
    state: State,
    best: State,
    scratch: Scratch,
    offloads: bool,
    iterations: int,
    warm: float,
    cold: float,
    random: Integers,
    best_ns: int,
    good_ns: int,
    refresh: int,
    stop: Integers,
) -> tuple[int, int]:
    """Try `iterations` moves from the state, cooling from `warm` to `cold` (both ns).

    Sequences that beat `best_ns` are copied to `best`. Every `refresh` moves the critical path is
    looked up again, and the annealing ends if `good_ns` is reached or `stop[0]` is set. Returns
    the best objective and how many moves were tried.
    """
    objective = begin(tables, state, scratch, offloads)
    if objective < 0:
        return best_ns, 0
    cost = cost_of(tables, state, objective)
    spread = cost - objective
    best_cost = cost if objective == best_ns else 0.0
    critical = accepted_since = 0
    find_tails(tables, state, scratch)
    temperature = warm
    factor = (cold / warm) ** (1.0 / max(1, iterations // refresh))
    for tried in range(iterations):
        if tried % refresh == 0:
            if stop[0] or best_ns <= good_ns:
                return best_ns, tried
            critical = find_critical(tables, state, scratch)
            if tried:
                temperature *= factor
        found = propose(tables, state, scratch, offloads, random, critical)
        if found == NOTHING:
            continue
        threshold = cost - temperature * log((random_below(random, 1 << 30) + 1) / (1 << 30))
        # A move changes the mean end of the devices little.
        cutoff = NEVER if tables.steady else int(threshold - SPREAD_KEPT * spread)
        if found == WINDOW:
            d, low, high = scratch.window[0], scratch.window[1], scratch.window[2]
            if estimate(tables, state, scratch, d, low, high) > cutoff:
                restore(tables, state, scratch, offloads, found)
                continue
            if not offloads:
                find_unchanged(tables, state, scratch, scratch.window[3])
                scratch.first[d] = low
        objective = evaluate(tables, state, scratch, offloads, cutoff)
        accepted = objective >= 0
        if accepted:
            trial_cost = cost_of(tables, state, objective)
            accepted = trial_cost <= threshold
        if not accepted:
            restore(tables, state, scratch, offloads, found)
            drop_trial(tables, state, scratch, offloads)
            continue
        keep_trial(tables, state, scratch, offloads)
        cost, spread = trial_cost, trial_cost - objective
        accepted_since += 1
        if found == WHOLE or accepted_since >= ACCEPTED_PER_TAILS:
            find_tails(tables, state, scratch)
            accepted_since = 0
        if objective < best_ns or (objective == best_ns and cost < best_cost):
            best_ns, best_cost = objective, cost
            copy_sequences(state, best)
    return best_ns, iterations
