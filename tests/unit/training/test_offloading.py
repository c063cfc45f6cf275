"""Offloads that make a configuration fit, and what links and hosts make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.blocks import Block, Blocks
from planner.cost.footprint import CommunicationBuffers, RankFootprint
from planner.pipeline.problem import Device, Duplex, Host, PipelineProblem, Stage, Transfer
from planner.training.evaluate import Plan, Shortage
from planner.training.offloading import OffloadShortage, OffloadUse, needed_offloads
from tests.unit.training.posted import body, evaluator_of, outcomes, spec_of

ACTIVATION, LIMIT, STATES = 100, 1_000, 300
WORK = Block(forward_ns=10, backward_input_ns=20, activation_bytes=ACTIVATION)
NOTHING = Block()


def rank(number: int, in_flight: int) -> RankFootprint:
    """Room for seven activations beside the states."""
    return RankFootprint(
        rank=number,
        layers=1,
        parameters=0,
        parameters_bytes=STATES,
        gradients_bytes=0,
        optimizer_bytes=0,
        gathered_parameters_bytes=0,
        held=(in_flight,),
        activations_bytes=in_flight * ACTIVATION,
        embedding_activations_bytes=0,
        logits_bytes=0,
        workspace_bytes=0,
        communication=CommunicationBuffers(0, 0, 0, 0, 0),
        reserved_bytes=0,
        limit_bytes=LIMIT,
    )


def stage(device: int, transfer_ns: int) -> Stage:
    return Stage(
        device=device,
        forward_ns=(10,),
        backward_input_ns=(20,),
        backward_weight_ns=(0,),
        activation_bytes=(ACTIVATION,),
        weight_grad_bytes=(0,),
        backward_workspace_bytes=(0,),
        offload_bytes=(ACTIVATION,),
        offload_ns=(transfer_ns,),
        reload_ns=(transfer_ns,),
    )


def use_of(
    in_flight: tuple[int, ...],
    transfer_ns: int,
    *,
    shared: bool = False,
    host_bytes: int | None = None,
    duplex: Duplex = Duplex.FULL,
) -> OffloadUse | OffloadShortage:
    """Of as many ranks, for 10 micro-batches that take 30 ns each."""
    problem = PipelineProblem(
        micro_batches=1,
        devices=tuple(Device(host_link="shared" if shared else None, host=0) for _ in in_flight),
        stages=tuple(stage(device, transfer_ns) for device in range(len(in_flight))),
        transfers=(Transfer((0,), (0,)),) * (len(in_flight) - 1),
        hosts=(Host(host_bytes),),
        host_link_duplex=duplex,
    )
    ranks = [rank(number, count) for number, count in enumerate(in_flight)]
    return needed_offloads(problem, ranks, Blocks(NOTHING, WORK, NOTHING), 10)


def test_only_as_much_as_is_needed_goes() -> None:
    use = use_of((11, 7, 3), 0)
    assert isinstance(use, OffloadUse)
    # Of eleven in flight seven may stay; three are in memory in any case.
    assert use.saved_bytes == (400, 0, 0)
    assert use.shares == (4 / 8, 0.0, 0.0)
    assert use.wait_ns == 0


@pytest.mark.parametrize(
    ("more", "busiest"),
    [
        ({}, 0.5),
        ({"duplex": Duplex.HALF}, 1.0),
        ({"shared": True}, 1.0),
        ({"shared": True, "duplex": Duplex.HALF}, 2.0),
    ],
)
def test_a_link_has_as_long_as_the_busiest_rank_works(more: dict[str, Any], busiest: float) -> None:
    use = use_of((11, 11), 30, **more)
    assert isinstance(use, OffloadUse)
    assert use.busiest_link == busiest
    # 10 micro-batches of 30 ns: what a link needs beyond them lengthens the step.
    assert use.wait_ns == 10 * 30 * max(0.0, busiest - 1)


def test_three_activations_stay_whatever_goes() -> None:
    short = needed_offloads_of_a_small_rank()
    assert isinstance(short, OffloadShortage)
    assert (short.where, short.number) == ("gpu", 0)
    assert short.peak_bytes == short.needed_bytes == 900 + 3 * ACTIVATION


def needed_offloads_of_a_small_rank() -> OffloadUse | OffloadShortage:
    problem = PipelineProblem(1, (Device(host=0),), (stage(0, 1),), (), hosts=(Host(None),))
    own = replace(rank(0, 11), parameters_bytes=900)
    return needed_offloads(problem, [own], Blocks(NOTHING, WORK, NOTHING), 10)


def test_the_host_has_to_hold_what_is_away() -> None:
    assert isinstance(use_of((11, 9), 1, host_bytes=600), OffloadUse)
    short = use_of((11, 9), 1, host_bytes=599)
    assert isinstance(short, OffloadShortage)
    assert (short.where, short.needed_bytes, short.limit_bytes) == ("host", 600, 599)


def test_slow_links_lengthen_the_step() -> None:
    steps = {}
    for rate in (1e9, 1e12):
        request = body(
            gpu={"memory_bytes": 3 * 2**29, "pcie_bytes_per_s": rate},
            training={"offload": True, "recomputation": "none", "zero_stage": 0},
            search={"tensor_parallel": [1], "pipeline_parallel": [8], "micro_batch_size": [1]},
        )
        plans = [own for own in outcomes(spec_of(request)) if isinstance(own, Plan)]
        assert all(plan.offload is not None for plan in plans)
        steps[rate] = [plan.total_ns - plan.step.total_ns for plan in plans]
    assert max(steps[1e12]) == 0 < min(steps[1e9])


def test_without_offload_the_same_does_not_fit() -> None:
    request = body(
        gpu={"memory_bytes": 3 * 2**29},
        training={"recomputation": "none", "zero_stage": 0},
        search={"tensor_parallel": [1], "pipeline_parallel": [8], "micro_batch_size": [1]},
    )
    spec = spec_of(request)
    evaluator = evaluator_of(spec)
    plans = [own for own in outcomes(spec) if isinstance(own, Plan)]
    assert plans
    for plan in plans:
        without = replace(plan.training, offload=False)
        assert isinstance(evaluator.evaluate(without), Shortage)
