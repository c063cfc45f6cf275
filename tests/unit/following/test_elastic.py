"""Changes of shape are proposed where stages are unequal, verified, and worth it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from planner.following.elastic import IMBALANCE, imbalance, propose
from planner.following.partitions import Layers
from planner.following.quick import quick_schedule
from planner.following.shape_words import Before, timed_partition_note
from planner.following.shapes import Elasticity, Kind, Proposal, Proposals
from planner.pipeline.classic.rows import schedules_named
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import Device, PipelineProblem, Stage
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import orders_of, time_orders
from planner.pipeline.verify import verify
from tests.unit.following.pipelines import ACTIVATION_BYTES, layered

FOUR = Layers((4, 4, 4, 4))
STRAGGLER = layered((4, 4, 4, 4), speeds=(2, 3, 2, 2))


def one_forward_one_backward(problem: PipelineProblem) -> Schedule:
    [classic] = schedules_named(problem, "1F1B")
    return classic.schedule


def quick_ns(problem: PipelineProblem) -> int:
    quick = quick_schedule(problem)
    assert quick is not None
    return objective_ns(problem, quick.schedule)


def by_kind(found: Proposals) -> dict[Kind, Proposal]:
    return {proposal.kind: proposal for proposal in found}


def samples(proposal: Proposal) -> int:
    assert proposal.micro_batch_size is not None
    return proposal.micro_batches * proposal.micro_batch_size


def test_the_imbalance_is_slowest_over_fastest() -> None:
    assert imbalance(STRAGGLER) == pytest.approx(1.5)
    assert imbalance(layered((3, 3))) == 1
    idle = replace(
        STRAGGLER,
        stages=tuple(
            replace(
                stage, forward_ns=(0,) * 8, backward_input_ns=(0,) * 8, backward_weight_ns=(0,) * 8
            )
            for stage in STRAGGLER.stages[:1]
        )
        + STRAGGLER.stages[1:],
    )
    assert imbalance(idle) == 3 * 4 * 1200


def test_stages_alike_enough_are_left_alone() -> None:
    problem = layered((8, 8, 7, 8))
    assert 1 < imbalance(problem) <= IMBALANCE
    found = propose(problem, layers=Layers((8, 8, 7, 8)))
    assert found.found == ()
    assert "no other shape is looked at" in found.notes[0]


def test_layers_leave_a_slow_device() -> None:
    running = one_forward_one_backward(STRAGGLER)
    found = by_kind(propose(STRAGGLER, running, FOUR))
    partition = found[Kind.PARTITION]
    assert partition.layers_per_stage is not None
    assert partition.layers_per_stage[1] == 2
    assert sum(partition.layers_per_stage) == 16
    assert partition.needs_restart
    assert "stage 1 4 -> 2" in partition.reason
    again = time_orders(STRAGGLER, orders_of(STRAGGLER, running.ops))
    assert partition.running_ns == again.makespan_ns
    assert partition.same_shape_ns is not None
    assert partition.predicted_ns < partition.same_shape_ns <= again.makespan_ns


@pytest.mark.parametrize("fixed_share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("limit", [None, 9 * ACTIVATION_BYTES])
def test_every_proposal_is_verified_keeps_the_batch_and_is_faster(
    fixed_share: float, limit: int | None
) -> None:
    problem = layered((4, 4, 4, 4), speeds=(2, 3, 2, 2), limits=(limit,) * 4)
    quick = quick_schedule(problem)
    assert quick is not None
    found = propose(problem, quick.schedule, FOUR, Elasticity(2, fixed_share)).found
    assert found
    assert [p.predicted_ns for p in found] == sorted(p.predicted_ns for p in found)
    for proposal in found:
        assert verify(proposal.problem, proposal.schedule) == []
        assert objective_ns(proposal.problem, proposal.schedule) == proposal.predicted_ns
        assert samples(proposal) == 16
        assert proposal.problem.micro_batches == proposal.micro_batches
        assert proposal.running_ns == quick.schedule.makespan_ns
        assert proposal.lower_bound_ns <= proposal.predicted_ns < quick.schedule.makespan_ns
        gain = proposal.predicted_gain
        assert gain == pytest.approx(1 - proposal.predicted_ns / quick.schedule.makespan_ns)
        assert proposal.needs_restart == (proposal.kind is not Kind.MICRO_BATCHES)
        json.dumps(proposal.to_document())
    kinds = by_kind(found)
    if Kind.BOTH in kinds:
        assert found[0].kind is Kind.BOTH


def test_operations_that_take_as_long_however_small_want_fewer_micro_batches() -> None:
    found = by_kind(propose(STRAGGLER, None, None, Elasticity(4, fixed_share=1.0)))
    assert list(found) == [Kind.MICRO_BATCHES]
    assert found[Kind.MICRO_BATCHES].micro_batches < 8
    assert "fewer and larger" in found[Kind.MICRO_BATCHES].reason


def test_free_of_fixed_work_smaller_is_faster_and_the_note_says_why_that_flatters() -> None:
    found = by_kind(propose(STRAGGLER, None, None, Elasticity(4)))
    proposal = found[Kind.MICRO_BATCHES]
    assert (proposal.micro_batches, proposal.micro_batch_size) == (32, 1)
    assert any("fixed_share" in note for note in proposal.notes)
    measured = propose(STRAGGLER, None, None, Elasticity(4, 0.01))
    assert not any("fixed_share" in note for own in measured for note in own.notes)


def test_the_rule_of_thumb_stands_beside() -> None:
    """ceil(1.5) = 2: twice as many, which the batch allows or not."""
    proposal = by_kind(propose(STRAGGLER, None, None, Elasticity(4)))[Kind.MICRO_BATCHES]
    rule = proposal.baseline
    assert rule is not None
    assert (rule.micro_batches, rule.micro_batch_size, rule.reason) == (16, 2, None)
    assert rule.predicted_ns is not None
    assert proposal.predicted_ns <= rule.predicted_ns
    odd = by_kind(propose(STRAGGLER, None, None, Elasticity(3, 0.9)))[Kind.MICRO_BATCHES].baseline
    assert odd is not None
    assert (odd.micro_batches, odd.micro_batch_size, odd.predicted_ns) == (16, None, None)
    assert odd.reason == "24 samples do not divide into 16 micro-batches."


def test_smaller_micro_batches_fit_where_the_running_order_no_longer_does() -> None:
    limits = (4 * ACTIVATION_BYTES,) * 4
    problem = layered((4, 4, 4, 4), speeds=(2, 3, 2, 2), limits=limits)
    running = one_forward_one_backward(STRAGGLER)
    assert quick_schedule(problem) is None
    found = propose(problem, running, None, Elasticity(4)).found
    assert found[0].micro_batch_size is not None
    assert found[0].micro_batch_size < 4
    assert (found[0].running_ns, found[0].same_shape_ns) == (None, None)
    assert found[0].predicted_gain is None
    assert "no longer fits" in found[0].reason
    assert verify(found[0].problem, found[0].schedule) == []


def test_of_a_posted_problem_it_says_what_is_not_known_and_proposes_the_rest() -> None:
    found = propose(STRAGGLER, one_forward_one_backward(STRAGGLER))
    proposal = by_kind(found)[Kind.MICRO_BATCHES]
    assert proposal.micro_batches == 32
    assert proposal.micro_batch_size is None
    assert "32 micro-batches of 1/4 times the size instead of 8" in proposal.reason
    assert any("taken to be divisible" in note for note in proposal.notes)
    assert not any("workspaces are taken to stay" in note for note in proposal.notes)
    assert proposal.baseline is not None
    assert proposal.baseline.micro_batches == 16
    assert proposal.baseline.predicted_ns is not None
    assert len(found.notes) == 1
    assert "post `model` and `cluster`" in found.notes[0]
    assert found.to_document()["notes"] == list(found.notes)


def test_where_no_other_number_is_better_the_rule_of_thumb_is_told_with_its_time() -> None:
    room = (Device(16 * ACTIVATION_BYTES),) * 4  # Larger micro-batches do not fit.
    full = replace(STRAGGLER, devices=room)
    [note] = propose(full, None, FOUR, Elasticity(2, 1.0, may_change_partition=False)).notes
    assert "ceil(slowest stage / median stage): 16, predicted " in note
    assert " ms with 8: not proposed" in note
    [note] = propose(STRAGGLER, None, FOUR, Elasticity(1)).notes
    assert "8 samples do not divide into 16 micro-batches." in note


def test_where_no_layer_is_moved_a_note_says_why() -> None:
    only_layers = Elasticity(1, may_change_micro_batches=False)
    # One micro-batch passes all layers one after the other, wherever they are.
    single = layered((4, 5, 3, 4), micro_batches=1)
    [note] = propose(single, None, Layers((4, 5, 3, 4)), only_layers).notes
    now_ns = quick_ns(single)
    assert "with [4, 4, 4, 4], the best balanced, an iteration takes at least" in note
    assert note.count(f"{now_ns / 1e6:.3f} ms") == 2
    full = replace(STRAGGLER, devices=(Device(4 * ACTIVATION_BYTES),) * 4)
    [note] = propose(full, None, FOUR, only_layers).notes
    assert "in no other partition the slowest device takes less time" in note
    [note] = propose(STRAGGLER, None, FOUR, only_layers, lambda: True).notes
    assert "the time for proposals was used up" in note


def test_a_partition_that_was_timed_and_is_no_faster_is_told_with_its_time() -> None:
    before = Before((3, 2), 3, 8, None, 0.0, (2, 1), True, 9_000_000, 8_000_000)
    note = timed_partition_note(before, (1, 2), 8_500_000)
    assert "with [1, 2], the best balanced, an iteration is predicted to take 8.500 ms" in note
    assert note.endswith(", 8.000 ms as it is.")
    assert "no quick schedule fits into memory" in timed_partition_note(before, (1, 2), None)


def test_nothing_moves_that_may_not() -> None:
    found = propose(STRAGGLER, None, FOUR, Elasticity(4, may_change_partition=False))
    assert {proposal.kind for proposal in found} == {Kind.MICRO_BATCHES}
    found = propose(STRAGGLER, None, FOUR, Elasticity(4, may_change_micro_batches=False))
    assert {proposal.kind for proposal in found} == {Kind.PARTITION}
    nothing = Elasticity(may_change_micro_batches=False, may_change_partition=False)
    assert propose(STRAGGLER, None, FOUR, nothing) == Proposals((), ())


def test_a_new_order_alone_is_not_counted_for_the_change() -> None:
    """A running order that is far from the best would make any change look good. Here no
    partition has a faster slowest stage."""
    problem = layered((4, 1, 4, 4), speeds=(1, 2, 1, 1))
    room = (Device(4 * ACTIVATION_BYTES + 7),) * 4
    one_by_one = quick_schedule(replace(problem, devices=room))
    assert one_by_one is not None
    layers = Layers((4, 1, 4, 4))
    assert imbalance(problem) > IMBALANCE
    alone = propose(problem, one_by_one.schedule, layers, Elasticity(1))
    assert alone.found == ()
    assert "No layers are moved: in no other partition" in alone.notes[0]
    assert alone.notes[1].endswith(": 8, as now.")
    sized = propose(problem, one_by_one.schedule, layers, Elasticity(2)).found
    assert sized
    assert all("a new order alone would give" in proposal.reason for proposal in sized)
    assert sized[0].same_shape_ns is not None
    assert sized[0].predicted_ns < sized[0].same_shape_ns < one_by_one.schedule.makespan_ns


def test_micro_batches_that_differ_are_judged_by_their_means() -> None:
    def uneven(stage: Stage) -> Stage:
        return replace(stage, forward_ns=tuple(t + m for m, t in enumerate(stage.forward_ns)))

    problem = replace(STRAGGLER, stages=tuple(map(uneven, STRAGGLER.stages)))
    found = propose(problem, one_forward_one_backward(problem), FOUR).found
    assert found
    assert all(any("differ" in note for note in proposal.notes) for proposal in found)


def test_told_to_stop_it_proposes_nothing_more() -> None:
    assert propose(STRAGGLER, None, FOUR, Elasticity(4), lambda: True).found == ()


@pytest.mark.parametrize(
    ("layers", "elasticity"),
    [
        (Layers((4, 4, 4)), Elasticity()),
        (Layers((4, 4, 4, 0)), Elasticity()),
        (None, Elasticity(0)),
        (None, Elasticity(1, 1.5)),
    ],
)
def test_what_does_not_suit_the_problem_is_refused(
    layers: Layers | None, elasticity: Elasticity
) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        propose(STRAGGLER, None, layers, elasticity)
