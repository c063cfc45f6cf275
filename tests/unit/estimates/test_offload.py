"""Offload estimates against the problems of schedules and published ratios."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.cost.resolve import resolve
from planner.errors import SpecError
from planner.estimates.offload.estimate import estimate_offload

GIB = 2**30
CLUSTER: dict[str, Any] = {"gpu": "A100-40GB", "gpus_per_node": 8}
TRAINING: dict[str, Any] = {"micro_batches": 32, "flash_attention": False, "interleaving": 1}
SOCKETS: dict[str, Any] = {"numa": [[0, 1, 2, 3], [4, 5, 6, 7]], "numa_remote_factor": 0.5}
SSD: dict[str, Any] = {"ssd_bytes_per_s": 12e9, "ssd_memory_bytes": 10**12}


def estimate(
    cluster: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    model: str = "GPT-14.2B",
    **own: Any,
) -> dict[str, Any]:
    body = {
        "model": model,
        "cluster": CLUSTER | (cluster or {}),
        "training": TRAINING | (training or {}),
    }
    return estimate_offload(body | own)


@pytest.mark.parametrize(
    ("cluster", "training"),
    [
        ({}, {}),
        (SOCKETS | {"host_memory_numa": 0}, {}),
        (SSD, {"offload_tier": "ssd"}),
        ({}, {"offload_compression": "fp8"}),
        ({}, {"offload": False}),
    ],
)
def test_ranks_offload_as_the_problem_of_a_schedule_does(
    cluster: dict[str, Any], training: dict[str, Any]
) -> None:
    answer = estimate(cluster, training)
    offloading = TRAINING | training | {"offload": True}
    problem = resolve("GPT-14.2B", CLUSTER | cluster, offloading).candidates[0].problem
    for row, stage in zip(answer["per_rank"], problem.stages, strict=True):
        assert row["offload_bytes"] == stage.offload_bytes[0]
        assert row["offload_ns"] == stage.offload_ns[0]
        assert row["reload_ns"] == stage.reload_ns[0]
        assert row["compute_ns"] == stage.compute_ns(0)
    for link in answer["links"]:
        stages = {problem.link_of_stage[rank] for rank in link["ranks"]}
        assert len(stages) == 1
        assert (link["duplex"] == "half") == problem.is_half_duplex(link["ranks"][0])


def test_links_take_turns_and_half_duplex_both_ways() -> None:
    full, half = estimate(), estimate({"host_link_duplex": "half"})
    rows = full["per_rank"]
    for link, halved in zip(full["links"], half["links"], strict=True):
        offloads = sum(rows[rank]["offload_ns"] for rank in link["ranks"])
        assert link["busy_ns"] == offloads
        assert halved["busy_ns"] == 2 * offloads
        assert link["hidden_share"] == pytest.approx(link["available_ns"] / offloads, abs=1e-4)
        assert link["exposed_ns"] == offloads - link["available_ns"]
    assert "slow the pipeline down" in full["warnings"][0]


def test_round_trip_over_compute_falls_with_the_hidden_size() -> None:
    """PipeOffload (arXiv 2503.01328), section 3: k = 10 / (3 (6 h + s)) x compute / link rate."""

    def ratio(hidden: int, sequence: int) -> float:
        answer = estimate_offload(
            {
                "model": {
                    "layers": 16,
                    "hidden_size": hidden,
                    "heads": hidden // 128,
                    "vocabulary": 128,
                    "sequence": sequence,
                },
                "cluster": {"gpu": "A100-80GB", "gpus_per_node": 4, "pcie_topology": "full_mesh"},
                "training": {"micro_batches": 8},
            }
        )
        value: float = answer["per_rank"][1]["round_trip_of_compute"]
        return value

    assert ratio(4096, 4096) / ratio(8192, 4096) == pytest.approx(
        (6 * 8192 + 4096) / (6 * 4096 + 4096), rel=0.12
    )
    assert ratio(4096, 32768) < ratio(4096, 4096)


def test_chunks_move_what_the_slowest_rank_sends() -> None:
    answer = estimate(SOCKETS | {"host_memory_numa": 0}, chunk_bytes=10**8)
    rank, chunk = answer["rank"], answer["chunk"]
    assert rank == 4
    assert chunk["bytes_to_move"] == answer["per_rank"][4]["host_bytes"]
    rate, latency_s = answer["per_rank"][4]["bytes_per_s"], 6e-6
    expected = (chunk["bytes_to_move"] * rate * latency_s) ** 0.5
    assert chunk["formula_bytes"] == pytest.approx(expected, rel=1e-6)
    assert chunk["best"]["chunk_bytes"] == pytest.approx(expected, rel=0.02)
    assert all(row["lost_ns"] >= chunk["best"]["lost_ns"] for row in chunk["compare"])
    assert chunk["compare"][-1]["chunk_bytes"] == pytest.approx(10**8, rel=0.05)


def test_the_published_formula_is_said_not_to_be_in_bytes() -> None:
    source = estimate(overlap=0.5)["chunk"]["source_formula"]
    assert source["overlap"] == 0.5
    assert "not bytes" in source["unit"]
    assert source["value"] / source["value_in_milliseconds"] == pytest.approx(1000**0.5, rel=1e-3)
    none = estimate(overlap=1)["chunk"]
    assert none["source_formula"]["value"] is None
    assert any("no value" in remark for remark in none["source_formula"]["remarks"])
    assert len(none["compare"]) == 2


def test_compressions_are_compared_and_marked() -> None:
    answer = estimate(training={"offload_compression": "auto", "offload_top_k": 0.05})
    plain, fp8, top_k = answer["compression"]
    assert [row["changes_numerics"] for row in answer["compression"]] == [False, True, True]
    assert fp8["element_factor"] == pytest.approx(0.515625)
    assert top_k["element_factor"] == pytest.approx(0.15)
    # Dropout masks, 2 + 1 a s/h of 34 + 5 a s/h parts, travel as they are.
    scores = 46 * 1024 / 5520
    exact = (2 + scores) / (34 + 5 * scores)
    assert fp8["host_bytes"] / plain["host_bytes"] == pytest.approx(
        exact + (1 - exact) * 0.5156, rel=1e-3
    )
    assert plain["hidden_share"] < fp8["hidden_share"] < top_k["hidden_share"]
    assert [row["compression"] for row in estimate()["compression"]] == ["none", "fp8"]


def test_faster_tiers_are_filled_first_and_nothing_is_lost() -> None:
    answer = estimate(SSD | {"host_memory_bytes": 10 * GIB})
    problem = resolve("GPT-14.2B", CLUSTER, TRAINING).candidates[0].problem
    stored = {"dram": 0, "ssd": 0}
    for own, stage in zip(answer["tiers"], problem.stages, strict=True):
        in_flight = 8 - own["rank"]
        head = own["rank"] == 7
        held = {tier["tier"]: tier for tier in own["tiers"]}
        total = sum(tier["held_bytes"] for tier in own["tiers"]) + own["missing_bytes"]
        assert total == in_flight * (stage.offload_bytes[0] if head else stage.activation_bytes[0])
        for tier in stored:
            stored[tier] += held[tier]["stored_bytes"]
        if held["dram"]["held_bytes"]:
            part = held["dram"]["held_bytes"] / (in_flight * stage.offload_bytes[0])
            assert held["dram"]["transfer_ns"] == pytest.approx(part * stage.offload_ns[0], abs=2)
        if held["ssd"]["held_bytes"]:
            of_one = held["ssd"]["held_bytes"] / in_flight
            assert held["ssd"]["transfer_ns"] == pytest.approx(of_one / 12, rel=0.01)
        assert not own["missing_bytes"]
    assert stored["dram"] == pytest.approx(10 * GIB, rel=1e-6)
    assert stored["ssd"] > 0


def test_what_no_tier_holds_is_said() -> None:
    answer = estimate({"host_memory_bytes": GIB})
    missing = [own["missing_bytes"] for own in answer["tiers"]]
    assert max(missing) > 0
    assert any("lacks" in warning for warning in answer["warnings"])
    assert not any("lacks" in warning for warning in estimate()["warnings"])


def test_a_compressed_store_holds_more() -> None:
    memory = {"host_memory_bytes": GIB}
    plain = estimate(memory)["tiers"][0]
    fp8 = estimate(memory, {"offload_compression": "fp8"})["tiers"][0]
    assert fp8["missing_bytes"] < plain["missing_bytes"]
    dram = next(tier for tier in fp8["tiers"] if tier["tier"] == "dram")
    assert dram["stored_bytes"] < dram["held_bytes"]


def test_sockets_slow_the_far_ranks_down() -> None:
    near, far = estimate(SOCKETS), estimate(SOCKETS | {"host_memory_numa": 0})
    ratios = [
        b["offload_ns"] / a["offload_ns"]
        for a, b in zip(near["per_rank"], far["per_rank"], strict=True)
    ]
    assert ratios[:4] == [1.0] * 4
    assert ratios[4:] == pytest.approx([2.0] * 4, rel=0.01)


def test_answer_is_json_and_says_its_assumptions() -> None:
    answer = estimate(SSD)
    assert json.loads(json.dumps(answer)) == answer
    assert {"chunks", "hidden transfers", "tiers", "between GPU and host"} <= {
        entry["what"] for entry in answer["assumptions"]
    }


def test_one_gpu_without_a_pipeline() -> None:
    answer = estimate_offload(
        {"model": "GPT-2", "cluster": "1xH100", "training": {"micro_batches": 1}}
    )
    assert len(answer["per_rank"]) == 1
    assert answer["links"][0]["ranks"] == [0]


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ({"overlap": 1.5}, ("overlap",)),
        ({"bytes_to_move": 0}, ("bytes_to_move",)),
        ({"chunk_bytes": "many"}, ("chunk_bytes",)),
        ({"chunks": 3}, ("chunks",)),
    ],
)
def test_errors_name_the_field(own: dict[str, Any], path: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as raised:
        estimate(**own)
    assert raised.value.path == path
    assert raised.value.remedy
