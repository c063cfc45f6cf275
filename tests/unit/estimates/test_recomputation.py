"""The checkpoint interval: the rule of thumb, and what is best instead."""

from __future__ import annotations

import json
from math import sqrt
from typing import Any

import pytest

from planner.cost.resolve import resolve
from planner.errors import SpecError
from planner.estimates.memory.estimate import estimate_memory
from planner.estimates.recomputation.estimate import estimate_recomputation

LAYERS = [3, 4, 4, 4, 4, 4, 4, 3]
BERT = {"preset": "BERT-Large", "sequence": 1024, "max_positions": 1024}


def bert(batch: int, gpu: str = "A100-80GB", **own: Any) -> dict[str, Any]:
    training = {"micro_batch_size": batch, "micro_batches": 1, "flash_attention": False}
    body = {"model": BERT, "cluster": f"1x{gpu}", "training": training}
    return estimate_recomputation(body | own)


def pipelined(cluster: str = "8xA100-40GB", **training: Any) -> dict[str, Any]:
    given = {"micro_batches": 32, "flash_attention": False, **training}
    return estimate_recomputation({"model": "GPT-7.1B", "cluster": cluster, "training": given})


def test_interval_of_the_source_on_bert_large() -> None:
    """34 s b h + 5 a s^2 b bytes per layer (Korthikanti et al. 2022)."""
    answer = bert(8)
    source, tokens = answer["source_formula"], 8 * 1024
    layer_bytes = tokens * (34 * 1024 + 5 * 16 * 1024)
    assert source["layer_bytes"] == layer_bytes
    assert source["interval"] == pytest.approx(
        sqrt(2 * source["free_bytes"] / layer_bytes), rel=1e-4
    )
    assert source["layers_per_segment"] == 12
    # Every interval costs one forward, which is about a third of forward and backward.
    assert {row["overhead"] for row in answer["uniform"]} == {source["choice"]["overhead"]}
    assert source["choice"]["overhead"] == pytest.approx(1 / 3, abs=0.03)


def test_what_comes_closest_to_the_40_percent_for_15_reported() -> None:
    """40 % less memory for 15 % more time cannot be an interval of all layers, which costs a
    forward. Half of the layers does: two segments of 12, of which the second is kept."""
    training = {"micro_batch_size": 8, "micro_batches": 1}
    flash = bert(8, training=training)["sequential"][0]
    assert (flash["layers_per_segment"], flash["recomputed_layers"]) == (12, 12)
    assert flash["activations_saved"] == pytest.approx(0.40, abs=0.01)
    assert flash["overhead"] == pytest.approx(0.15, abs=0.01)
    stored_scores = bert(8)["sequential"][0]
    assert stored_scores["memory_saved"] == pytest.approx(0.40, abs=0.03)
    assert stored_scores["overhead"] == pytest.approx(0.15, abs=0.03)
    large = bert(32, most_overhead=0.15)["within_most_overhead"]
    assert large["method"] == "block"
    assert large["memory_saved"] == pytest.approx(0.40, abs=0.04)
    assert 0.13 < large["overhead"] <= 0.15


def test_the_best_choice_recomputes_no_more_than_it_must() -> None:
    answer = bert(32)
    assert not answer["whole_layers"][0]["fits"]
    best, source = answer["best"], answer["source_formula"]["choice"]
    assert best["fits"]
    assert source["fits"]
    assert (best["method"], best["recomputed_layers"]) == ("block", 6)
    assert best["overhead"] == pytest.approx(source["overhead"] / 4, rel=1e-2)
    one_less = next(row for row in answer["block"] if row["recomputed_layers"] == 5)
    assert not one_less["fits"]
    assert "--recompute-method block --recompute-num-layers 6" in best["how"]


def test_nothing_is_recomputed_where_everything_fits() -> None:
    answer = bert(8)
    assert answer["best"]["method"] == "none"
    assert answer["best"]["overhead"] == 0
    assert any("fits without recomputation" in r for r in answer["source_formula"]["remarks"])


def test_an_interval_longer_than_the_model_is_said_to_be_one() -> None:
    answer = bert(1)
    source = answer["source_formula"]
    assert source["interval"] > 24
    assert source["layers_per_segment"] == 24
    assert any("exceeds the 24 layers" in remark for remark in source["remarks"])
    assert source["choice"]["activations_saved"] < 0.1


def test_states_that_leave_no_room_leave_no_interval() -> None:
    answer = estimate_recomputation(
        {"model": "Llama-2-7B", "cluster": "1xA100-40GB", "training": {"micro_batches": 1}}
    )
    source = answer["source_formula"]
    assert source["interval"] is None
    assert any("no recomputation helps" in remark for remark in source["remarks"])
    assert answer["best"] is None
    assert "Nothing fits" in answer["warnings"][0]


def test_ranks_hold_what_memory_estimates_say() -> None:
    """Without recomputation, and with every layer recomputed from its input."""
    training = {"micro_batches": 32, "flash_attention": False}
    for recomputation in ("none", "full"):
        body = {
            "model": "GPT-7.1B",
            "cluster": "8xA100-40GB",
            "training": training | {"recomputation": recomputation, "layers_per_stage": LAYERS},
        }
        memory = estimate_memory(body)
        answer = estimate_recomputation(body)
        key = {"none": answer["whole_layers"][0], "full": answer["uniform"][0]}[recomputation]
        assert key["peak_bytes"] == max(row["peak_allocated_bytes"] for row in memory["per_rank"])
        assert key["headroom_bytes"] == memory["headroom_bytes"]


def test_full_recomputation_takes_as_long_as_that_of_a_schedule() -> None:
    training = {"micro_batches": 32, "flash_attention": False, "layers_per_stage": LAYERS}
    full = resolve("GPT-7.1B", "8xA100-40GB", training | {"recomputation": "full"})
    plain = resolve("GPT-7.1B", "8xA100-40GB", training)
    before, after = (
        max(stage.compute_ns(0) for stage in found.candidates[0].problem.stages)
        for found in (plain, full)
    )
    answer = pipelined(layers_per_stage=LAYERS)
    assert max(row["compute_ns"] for row in answer["per_rank"]) == before
    assert answer["uniform"][0]["overhead_ns"] == after - before


def test_selective_is_a_choice_where_scores_are_stored() -> None:
    methods = [row["method"] for row in bert(8)["whole_layers"]]
    assert methods == ["none", "selective"]
    assert [row["method"] for row in pipelined(flash_attention=True)["whole_layers"]] == ["none"]


def test_the_posted_recomputation_does_not_matter() -> None:
    assert pipelined(recomputation="full") == pipelined() | {
        "assumptions": pipelined(recomputation="full")["assumptions"]
    }


def test_interleaved_chunks_keep_more() -> None:
    """Korthikanti et al. 2022, section 4.2.3: 1 + (p - 1)/(p v) of all layers on the first rank."""
    plain = pipelined(cluster="4xA100-80GB")["per_rank"][0]
    chunked = pipelined(cluster="4xA100-80GB", interleaving=2)["per_rank"][0]
    assert plain["in_flight"] == [4]
    assert sum(chunked["in_flight"]) == 2 * 3 + 4 + 1
    assert sum(chunked["in_flight"]) / 8 == 1 + 3 / (4 * 2)


def test_answer_is_json_and_says_its_assumptions() -> None:
    answer = bert(8)
    assert json.loads(json.dumps(answer)) == answer
    assert {"what is recomputed", "overhead", "matrix products"} <= {
        note["what"] for note in answer["assumptions"]
    }
    assert "number without unit" in answer["source_formula"]["remarks"][0]


def test_pareto_front_leads_from_no_time_to_least_memory() -> None:
    front = bert(32)["pareto"]
    assert front[0]["method"] == "none"
    assert front[-1]["headroom_bytes"] == bert(32)["least_memory"]["headroom_bytes"]
    overheads = [row["overhead"] for row in front]
    assert overheads == sorted(overheads)


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ({"most_overhead": 1.5}, ("most_overhead",)),
        ({"overhead": 0.1}, ("overhead",)),
        ({"training": {"micro_batches": 0}}, ("training", "micro_batches")),
        ({"model": 3}, ("model",)),
    ],
)
def test_errors_name_the_field(own: dict[str, Any], path: tuple[str, ...]) -> None:
    body = {"model": BERT, "cluster": "1xA100-80GB", "training": {"micro_batches": 1}} | own
    with pytest.raises(SpecError) as raised:
        estimate_recomputation(body)
    assert raised.value.path == path
    assert raised.value.remedy


def test_learned_positions_limit_the_sequence() -> None:
    body = {
        "model": "BERT-Large",
        "cluster": "1xA100-80GB",
        "training": {"sequence": 1024, "micro_batches": 1},
    }
    with pytest.raises(SpecError) as raised:
        estimate_recomputation(body)
    assert raised.value.path == ("training", "sequence")
