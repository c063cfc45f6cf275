"""Recomputation choices against a replay of what a rank holds, step by step."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.recomputation.checkpointing import (
    NOTHING,
    SELECTIVE,
    Choice,
    Method,
    Rank,
    activation_bytes,
    block_choices,
    least_memory,
    least_memory_interval,
    least_overhead,
    outcome_of,
    pareto_front,
    repeated_ns,
    sequential_choices,
    source_interval,
    uniform_choices,
)

RANK = Rank(
    rank=0,
    layers=(24,),
    held=(1,),
    layer_bytes=1_000,
    input_bytes=50,
    scores_bytes=600,
    workspace_bytes=0,
    selective_workspace_bytes=600,
    embedding_bytes=0,
    head_bytes=0,
    forward_ns=10,
    scores_ns=2,
    compute_ns=24 * 30,
    free_bytes=30_000,
    other_bytes=5_000,
)


@st.composite
def ranks(draw: st.DrawFn) -> Rank:
    input_bytes = draw(st.integers(1, 40))
    layer_bytes = draw(st.integers(input_bytes, 400))
    chunks = draw(st.integers(1, 3))
    return Rank(
        rank=0,
        layers=tuple(draw(st.integers(1, 12)) for _ in range(chunks)),
        held=tuple(draw(st.integers(1, 4)) for _ in range(chunks)),
        layer_bytes=layer_bytes,
        input_bytes=input_bytes,
        scores_bytes=draw(st.integers(0, layer_bytes - input_bytes)),
        workspace_bytes=draw(st.integers(0, 30)),
        selective_workspace_bytes=draw(st.integers(0, 60)),
        embedding_bytes=draw(st.integers(0, 50)),
        head_bytes=draw(st.integers(0, 300)),
        forward_ns=draw(st.integers(1, 50)),
        scores_ns=draw(st.integers(0, 9)),
        compute_ns=draw(st.integers(1, 5_000)),
        free_bytes=draw(st.integers(-100, 5_000)),
        other_bytes=draw(st.integers(0, 1_000)),
    )


def choices(layers: int) -> list[Choice]:
    return [
        NOTHING,
        SELECTIVE,
        *uniform_choices(layers),
        *sequential_choices(layers),
        *block_choices(layers),
    ]


def segments(layers: int, choice: Choice) -> list[int]:
    """Lengths of a chunk's recomputed segments, first to last; the layers after them are kept."""
    if choice.method in (Method.NONE, Method.SELECTIVE):
        return []
    if choice.method is Method.BLOCK:
        return [1] * min(layers, choice.count)
    if choice.method is Method.SEQUENTIAL:
        # As PyTorch cuts a list of layers.
        size = layers // min(choice.count, layers)
        return [size] * (min(choice.count, layers) - 1)
    each, left, found = choice.count, layers, []
    while left:
        found.append(min(each, left))
        left -= found[-1]
    return found


def replayed_peak(rank: Rank, choice: Choice) -> int:
    """The newest forward with the head, and the oldest micro-batch's backward of each chunk, layer
    by layer from the last one, with everything else held."""
    selective = choice.method is Method.SELECTIVE
    of_kept_layer = rank.layer_bytes - (rank.scores_bytes if selective else 0)
    workspace = rank.selective_workspace_bytes if selective else rank.workspace_bytes
    held = [rank.held[0] * rank.embedding_bytes]
    for layers, count in zip(rank.layers, rank.held, strict=True):
        recomputed = segments(layers, choice)
        kept = layers - sum(recomputed)
        held.append(count * (len(recomputed) * rank.input_bytes + kept * of_kept_layer))
    moments = [sum(held) + rank.head_bytes]
    for layers in rank.layers:
        recomputed = segments(layers, choice)
        kept = layers - sum(recomputed)
        own = len(recomputed) * rank.input_bytes + kept * of_kept_layer
        others = sum(held) - own
        for layers_left in range(kept, 0, -1):
            own_now = len(recomputed) * rank.input_bytes + layers_left * of_kept_layer
            moments.append(others + own_now + workspace)
        for number in range(len(recomputed), 0, -1):
            inputs_before = (number - 1) * rank.input_bytes
            rebuilt = recomputed[number - 1] * rank.layer_bytes
            moments.append(others + inputs_before + rebuilt + rank.workspace_bytes)
    return max(moments)


@given(rank=ranks(), data=st.data())
def test_peak_is_that_of_a_replay(rank: Rank, data: st.DataObject) -> None:
    choice = data.draw(st.sampled_from(choices(max(rank.layers) + 2)))
    assert activation_bytes(rank, choice) == replayed_peak(rank, choice)
    expected = rank.forward_ns * sum(sum(segments(layers, choice)) for layers in rank.layers)
    if choice.method is Method.SELECTIVE:
        expected = rank.scores_ns * sum(rank.layers)
    assert repeated_ns(rank, choice) == expected


def test_uniform_keeps_inputs_and_rebuilds_a_segment() -> None:
    for each in (1, 2, 3, 4, 6, 8, 12, 24):
        expected = 24 // each * 50 + each * 1_000 - 50
        assert activation_bytes(RANK, Choice(Method.UNIFORM, each)) == expected


def test_every_micro_batch_in_flight_keeps_its_inputs() -> None:
    deep = replace(RANK, held=(4,))
    one = activation_bytes(RANK, Choice(Method.UNIFORM, 6))
    assert activation_bytes(deep, Choice(Method.UNIFORM, 6)) == one + 3 * 4 * 50


def test_the_last_segment_may_stay() -> None:
    """Two segments of 12: half of the layers run twice, and the first half is rebuilt when the
    second is gone, so that half of the memory does (the other segment's input beside it)."""
    halves = Choice(Method.SEQUENTIAL, 2)
    assert halves.recomputed_layers(24) == 12
    assert activation_bytes(RANK, halves) == 12 * 1_000 + 50
    assert activation_bytes(RANK, NOTHING) == 24 * 1_000


@given(rank=ranks())
def test_least_memory_interval_is_next_to_the_best_divisor(rank: Rank) -> None:
    """The formula minimises n (L/K) I + K A over the reals, which is convex."""
    best = least_memory_interval(rank)
    layers, held = max(zip(rank.layers, rank.held, strict=True))

    def cost(interval: float) -> float:
        inputs = held * layers / interval * rank.input_bytes
        return inputs + interval * rank.layer_bytes

    assert cost(best) <= min(cost(best * 1.01), cost(best * 0.99)) * (1 + 1e-12)


def test_square_root_of_the_layers_where_a_layer_keeps_as_much_as_its_input() -> None:
    """Chen et al. 2016."""
    rank = replace(RANK, layers=(36,), layer_bytes=50)
    assert least_memory_interval(rank) == 6.0
    best = least_memory([outcome_of([rank], choice) for choice in uniform_choices(36)])
    assert best.activation_bytes == activation_bytes(rank, Choice(Method.UNIFORM, 6)) == 11 * 50


@given(rank=ranks())
def test_best_choice_is_the_fastest_that_fits(rank: Rank) -> None:
    outcomes = [outcome_of([rank], choice) for choice in choices(max(rank.layers))]
    best = least_overhead(outcomes)
    fitting = [o for o in outcomes if activation_bytes(rank, o.choice) <= rank.free_bytes]
    assert (best is None) == (not fitting)
    if best is not None:
        assert best.fits
        assert best.overhead == min(o.overhead for o in fitting)


@given(rank=ranks())
def test_front_leaves_out_what_another_choice_beats(rank: Rank) -> None:
    outcomes = [outcome_of([rank], choice) for choice in choices(max(rank.layers))]
    front = list(pareto_front(outcomes))
    assert front[0].choice == NOTHING or front[0].overhead == 0
    assert max(o.headroom_bytes for o in front) == max(o.headroom_bytes for o in outcomes)
    for outcome in outcomes:
        assert any(
            f.overhead <= outcome.overhead and f.headroom_bytes >= outcome.headroom_bytes
            for f in front
        )


def test_the_tightest_rank_decides_what_fits_and_the_slowest_what_it_costs() -> None:
    first = replace(RANK, held=(4,), layers=(6,), compute_ns=180, free_bytes=20_000)
    last = replace(RANK, rank=3, layers=(4,), head_bytes=9_000, compute_ns=200, free_bytes=12_000)
    nothing = outcome_of([first, last], NOTHING)
    assert (nothing.tightest.rank, nothing.headroom_bytes, nothing.fits) == (0, -4_000, False)
    full = outcome_of([first, last], Choice(Method.UNIFORM, 1))
    assert full.fits
    assert full.tightest.rank == 3
    assert full.overhead == (max(180 + 6 * 10, 200 + 4 * 10) - 200) / 200


def test_interval_of_the_source_grows_with_memory_and_ignores_the_layers() -> None:
    assert source_interval(RANK) == sqrt(2 * 30_000 / 1_000)
    assert source_interval(replace(RANK, layers=(2,))) == source_interval(RANK)
    assert source_interval(replace(RANK, free_bytes=0)) is None
