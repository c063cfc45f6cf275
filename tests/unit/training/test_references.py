"""What searches come to where the best configuration is published or measured."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.degrees import Degrees
from planner.cost.training import Recomputation
from planner.training.evaluate import Plan
from planner.training.infeasible import explain
from planner.training.trainings import document_of
from tests.unit.training.posted import evaluator_of, search_for

A100, H100 = "A100-80GB", "H100-80GB"
AS_IN_2021 = {"flash_attention": False, "sequence_parallel": False, "offload": False}


def cluster(nodes: int, gpu: str) -> dict[str, Any]:
    return {"gpu": gpu, "nodes": nodes, "gpus_per_node": 8}


def order(plans: list[Plan]) -> list[tuple[int, int, int, int]]:
    """Tensor, pipeline and data degree, and the micro-batch size, best first."""
    found = []
    for plan in plans:
        training, degrees = plan.training, plan.training.degrees
        own = (degrees.tensor, degrees.pipeline, degrees.data, training.micro_batch_size)
        found.append(own)
    return found


def test_measured_configurations_are_ranked_as_measured() -> None:
    """vTrain's ground truth: 3.6 billion parameters on 64 A100s, full recomputation (3566.5,
    3975.2, 4634.4 and 6228.3 ms with tensor parallelism alone, 4034.9 ms with two stages)."""
    _, found = search_for(
        {
            "model": {"preset": "GPT-3.6B", "sequence": 2048},
            "cluster": cluster(8, A100),
            "training": {**AS_IN_2021, "global_batch_size": 512, "recomputation": "full"},
            "search": {
                "tensor_parallel": [1, 2, 4],
                "pipeline_parallel": [1, 2],
                "context_parallel": [1],
                "micro_batch_size": [2, 8],
                "interleaving": [1],
                "top": 50,
            },
        }
    )
    ranked = order(found.ranked)
    assert ranked[0] == (1, 1, 64, 8)
    measured = [(1, 1, 64, 8), (2, 1, 32, 8), (4, 1, 16, 8), (4, 1, 16, 2)]
    places = [ranked.index(own) for own in measured]
    assert places == sorted(places)
    assert places[0] < ranked.index((1, 2, 32, 2)) < places[2]


@pytest.mark.parametrize("batch", [32, 128])
def test_tensor_parallelism_fills_the_node(batch: int) -> None:
    """Narayanan et al. 2021, figure 13: 162.2 billion parameters on 64 A100s without data
    parallelism are fastest with 8-way tensor and 8-way pipeline parallelism."""
    _, found = search_for(
        {
            "model": {
                "layers": 32,
                "hidden_size": 20480,
                "heads": 128,
                "vocabulary": 51200,
                "sequence": 2048,
            },
            "cluster": cluster(8, A100),
            "training": {
                **AS_IN_2021,
                "global_batch_size": batch,
                "data_parallel": 1,
                "micro_batch_size": 1,
                "interleaving": 1,
                "recomputation": "full",
            },
        }
    )
    assert order(found.ranked)[:2] == [(8, 8, 1, 1), (4, 16, 1, 1)]


def test_a_large_model_has_tensor_groups_in_nodes_and_a_pipeline() -> None:
    """GPT-3 on 128 A100s with the batch of Narayanan et al. 2021."""
    _, found = search_for(
        {
            "model": "GPT-3-175B",
            "cluster": cluster(16, A100),
            "training": {**AS_IN_2021, "global_batch_size": 1536},
        }
    )
    for plan in found.ranked:
        assert 1 < plan.training.degrees.tensor <= 8
        assert plan.training.degrees.pipeline > 1


def test_a_small_model_needs_no_tensor_parallelism() -> None:
    _, found = search_for(
        {
            "model": "Llama-3-8B",
            "cluster": "8xH100",
            "training": {"global_batch_size": 128},
        }
    )
    assert found.ranked[0].training.degrees.tensor == 1
    assert found.ranked[0].training.recomputation is Recomputation.NONE


def test_a_mixture_of_experts_shares_them() -> None:
    """Mixtral's states, 18 bytes for each of 46.7 billion parameters, fill 8 H200s to two thirds
    and do not fit on 8 H100s."""
    request: dict[str, Any] = {
        "model": "Mixtral-8x7B",
        "cluster": "8xH200",
        "training": {"global_batch_size": 128, "sequence": 4096},
    }
    _, found = search_for(request)
    assert found.ranked[0].training.degrees.expert > 1
    _, none = search_for(request | {"cluster": "8xH100"})
    assert not none.ranked
    assert set(none.outcomes) == {"states", "slower"}


def test_llama_3_70b_on_512_gpus_is_searched_by_bounds() -> None:
    _, found = search_for(
        {
            "model": "Llama-3-70B",
            "cluster": cluster(64, H100),
            "training": {"global_batch_size": 1024},
        }
    )
    assert found.complete
    assert found.enumerated > 15_000
    assert found.worked_out < 100


class TestTheKnownCase:
    """175 billion parameters on 32 nodes of 8 A100s: data parallelism alone with micro-batches of
    4 samples, against 8-way tensor parallelism with layer-wise checkpointing in bf16."""

    @staticmethod
    def request(**training: Any) -> dict[str, Any]:
        fixed = {"global_batch_size": 1024, "pipeline_parallel": 1, "context_parallel": 1}
        return {
            "model": "GPT-3-175B",
            "cluster": cluster(32, A100),
            "training": {**fixed, "recomputation": "full", **training},
            "memory_headroom": 0,
        }

    def test_data_parallelism_alone_does_not_fit(self) -> None:
        alone = {"tensor_parallel": 1, "data_parallel": 256, "micro_batch_size": 4}
        spec, found = search_for(self.request(zero_stage=0, **alone))
        assert not found.ranked
        assert found.outcomes["states"] == found.enumerated == 1
        why = explain(spec, evaluator_of(spec), {}, lambda: False)
        assert why["limited_by"] == "parameters, gradients and optimizer states"
        # 18 bytes for each parameter.
        assert why["parts"][0]["bytes"] == pytest.approx(18 * 174.6e9, rel=1e-3)
        remedies = {remedy["remedy"]: remedy for remedy in why["remedies"]}
        assert remedies["zero_stage"]["training"]["zero_stage"] == 3
        assert not remedies["micro_batch_size"]["fits"]

    def test_zero_stage_3_makes_it_fit(self) -> None:
        alone = {"tensor_parallel": 1, "data_parallel": 256, "micro_batch_size": 4}
        spec, found = search_for(self.request(zero_stage=3, **alone))
        (plan,) = found.ranked
        assert plan.training.degrees == Degrees(1, 1, 256)
        assert document_of(spec, plan.training)["zero_stage"] == 3

    def test_tensor_parallelism_with_checkpointing_needs_less_zero(self) -> None:
        _, found = search_for(self.request(tensor_parallel=8, data_parallel=32))
        assert {plan.training.degrees for plan in found.ranked} == {Degrees(1, 8, 32)}
        assert {plan.training.zero_stage for plan in found.ranked} == {2}

    def test_a_pipeline_is_faster_than_both(self) -> None:
        """Nothing of this size is trained without one: ZeRO stages 2 and 3 talk in every
        micro-batch."""
        request = self.request()
        del request["training"]["pipeline_parallel"]
        _, found = search_for(request)
        for plan in found.ranked:
            assert plan.training.degrees.pipeline > 1
            assert plan.training.zero_stage <= 1
