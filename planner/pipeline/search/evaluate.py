"""Evaluation of a local search's trial sequences: their objective and cost."""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.longest_path import POSITION, latest_starts, time_from
from planner.pipeline.kernel.simulate import simulate
from planner.pipeline.kernel.tables import DURATION, EPILOGUE, Integers, Tables
from planner.pipeline.search.state import Scratch, State

SPREAD = 0.02
"""Weight of the devices' mean end in the cost: it gives plateaus of the objective a slope."""


@inner
def find_unchanged(tables: Tables, state: State, scratch: Scratch, since_ns: int) -> None:
    """Set `scratch.first[d]` to the device's first token that starts at `since_ns` or later."""
    for d in range(len(tables.devices)):
        low, high = 0, state.lengths[d]
        while low < high:
            middle = (low + high) // 2
            token = state.rows[d, middle]
            if state.end_ns[token] - tables.ops[token, DURATION] < since_ns:
                low = middle + 1
            else:
                high = middle
        scratch.first[d] = low


@inner
def evaluate(tables: Tables, state: State, scratch: Scratch, offloads: bool, cutoff_ns: int) -> int:
    """The objective of the trial sequences, or a negative number if they are out of the question.

    Without offloads, tokens before `scratch.first[d]` keep their times. Fills `trial_ns`. The
    cutoff is one of the makespan, which the steady span never exceeds.
    """
    if offloads:
        latest = simulate(
            tables,
            state.rows,
            state.lengths,
            state.offloaded,
            state.trial_ns,
            cutoff_ns,
            scratch.simulation,
        )
    else:
        for d in range(len(tables.devices)):
            scratch.timing[d, POSITION] = scratch.first[d]
        latest = time_from(
            tables,
            state.rows,
            state.lengths,
            state.trial_ns,
            cutoff_ns,
            scratch.timing,
        )
    if latest < 0 or not tables.steady:
        return latest
    return _longest_span(tables, state, scratch, offloads)


@inner
def _longest_span(tables: Tables, state: State, scratch: Scratch, offloads: bool) -> int:
    """The steady span; without offloads, devices start as late as keeps their ends."""
    starts = state.trial_ns
    if not offloads:
        starts = scratch.span_starts_ns
        for d in range(len(tables.devices)):
            if state.lengths[d]:
                scratch.span_due_ns[d] = last_compute_end(tables, state, d)
        latest_starts(
            tables, state.rows, state.lengths, scratch.span_due_ns, starts, scratch.timing
        )
    longest = 0
    for d in range(len(tables.devices)):
        if state.lengths[d] == 0:
            continue
        first = state.rows[d, 0]
        start = starts[first]
        if offloads:
            start -= tables.ops[first, DURATION]
        end = last_compute_end(tables, state, d) + tables.devices[d, EPILOGUE]
        longest = max(longest, end - start)
    return longest


@inner
def last_compute_end(tables: Tables, state: State, d: int) -> int:
    """The trial's end of the device's last token; an R is never last."""
    end: int = state.trial_ns[state.rows[d, state.lengths[d] - 1]]
    return end


@inner
def cost_of(tables: Tables, state: State, objective_ns: int) -> float:
    """The objective with a small share of the mean end of the devices."""
    total = 0
    for d in range(len(tables.devices)):
        if state.lengths[d]:
            total += last_compute_end(tables, state, d)
    return objective_ns + SPREAD * total / len(tables.devices)


@inner
def keep_trial(tables: Tables, state: State, scratch: Scratch, offloads: bool) -> None:
    """The trial's times become the accepted ones."""
    _copy_times(tables, state, scratch, offloads, state.trial_ns, state.end_ns)


@inner
def drop_trial(tables: Tables, state: State, scratch: Scratch, offloads: bool) -> None:
    """The accepted times replace the trial's, for the accepted sequences."""
    if not offloads:
        _copy_times(tables, state, scratch, offloads, state.end_ns, state.trial_ns)


@inner
def _copy_times(
    tables: Tables,
    state: State,
    scratch: Scratch,
    offloads: bool,
    source: Integers,
    target: Integers,
) -> None:
    if offloads:
        for operation in range(len(source)):
            target[operation] = source[operation]
        return
    for d in range(len(tables.devices)):
        for k in range(scratch.first[d], state.lengths[d]):
            token = state.rows[d, k]
            target[token] = source[token]
