"""How measured figures become the stage of a problem."""

from __future__ import annotations

from client.torch_profile.measured import Levels, MeasuredOp, MeasuredStage, Spread
from client.torch_profile.splits import Split
from planner.pipeline.documents import read_problem


def op(time_ns: int, before: int, after: int, peak: int) -> MeasuredOp:
    return MeasuredOp(Spread((time_ns,)), Levels(before, after, peak))


def stage(
    forward: MeasuredOp, backward: MeasuredOp, weight: MeasuredOp | None, offloadable: int = 0
) -> MeasuredStage:
    return MeasuredStage(
        split=Split.FUSED if weight is None else Split.NATIVE,
        forward=forward,
        backward=backward,
        weight=weight,
        offloadable_bytes=offloadable,
        offload=Spread((30,)),
        reload=Spread((40,)),
        border_bytes=0,
        parameter_bytes=0,
    )


def test_a_backward_may_add_to_memory() -> None:
    grows = stage(op(5, 10, 110, 110), op(6, 110, 170, 200), op(7, 170, 10, 175))
    written = grows.problem_stage(3)
    assert (written["activation_bytes"], written["weight_grad_bytes"]) == (100, 160)
    assert written["backward_workspace_bytes"] == 30
    assert (grows.hidden_workspace_bytes, grows.residue_bytes, written["device"]) == (5, 0, 3)
    # As the planner counts: at B's start all that B adds and takes in passing.
    (read,) = read_problem(_problem(written | {"device": 0})).stages
    assert read.backward_allocation_bytes(0) == 90
    assert read.late_bytes(0) == 160


def test_a_backward_that_frees_leaves_the_rest_for_w() -> None:
    written = stage(op(5, 0, 100, 120), op(6, 100, 40, 130), op(7, 40, 0, 40)).problem_stage(0)
    assert (written["activation_bytes"], written["weight_grad_bytes"]) == (100, 40)
    assert written["backward_workspace_bytes"] == 30
    (read,) = read_problem(_problem(written)).stages
    assert read.backward_free_bytes(0) == 90


def test_w_of_no_time_is_still_an_operation() -> None:
    """0 would say that the backward is fused; a first stage's I may take no time at all."""
    written = stage(op(5, 0, 8, 8), op(0, 8, 8, 8), op(0, 8, 0, 8)).problem_stage(0)
    assert (written["backward_input_ns"], written["backward_weight_ns"]) == (0, 1)


def test_a_fused_backward_has_no_w() -> None:
    written = stage(op(5, 0, 8, 8), op(9, 8, 0, 12), None, offloadable=20).problem_stage(0)
    assert (written["backward_weight_ns"], written["weight_grad_bytes"]) == (0, 0)
    # No more than there is can be offloaded.
    assert (written["offload_bytes"], written["offload_ns"], written["reload_ns"]) == (8, 30, 40)


def test_what_stays_is_said() -> None:
    keeps = stage(op(5, 0, 8, 8), op(9, 8, 3, 8), None)
    assert keeps.residue_bytes == 3


def test_the_spread_is_that_of_the_samples() -> None:
    spread = Spread((9, 1, 2, 3, 100))
    assert (spread.median_ns, spread.quartiles_ns) == (3, (2, 9))
    assert Spread((4,)).quartiles_ns == (4, 4)


def _problem(stage: dict[str, int]) -> dict[str, object]:
    return {"micro_batches": 1, "devices": [{}], "stages": [stage]}
