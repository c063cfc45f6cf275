"""Compression, tier and socket of offloaded activations, and what of them reaches the solver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.offload.compression import Compression, Compressor, largest_useful_share
from planner.cost.offload.screening import (
    MOST_CANDIDATES,
    always_fits,
    estimated_slowdown,
    is_never_worse,
)
from planner.cost.remedies import try_remedies
from planner.cost.resolve import Candidate, Resolved, resolve
from planner.errors import SpecError
from planner.pipeline.classic.rows import comparison_rows
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from planner.progress import never

GIB = 2**30
CLUSTER: dict[str, Any] = {"gpu": "A100-40GB", "gpus_per_node": 8}
SOCKETS: dict[str, Any] = {"numa": [[0, 1, 2, 3], [4, 5, 6, 7]], "numa_remote_factor": 0.5}
SSD: dict[str, Any] = {"ssd_bytes_per_s": 12e9, "ssd_memory_bytes": 10**12}
TRAINING: dict[str, Any] = {"micro_batches": 16, "interleaving": 1}


def resolved(cluster: dict[str, Any] | None = None, **training: Any) -> Resolved:
    return resolve("GPT-14.2B", CLUSTER | (cluster or {}), TRAINING | training)


def only(cluster: dict[str, Any] | None = None, **training: Any) -> PipelineProblem:
    (candidate,) = resolved(cluster, **training).candidates
    return candidate.problem


def names(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.placement for candidate in candidates]


def note(found: Resolved, what: str) -> dict[str, Any]:
    return next(dict(entry) for entry in found.notes if entry["what"] == what)


# Compression


def test_fp8_takes_a_byte_and_a_scale_for_each_128() -> None:
    fp8 = Compressor(Compression.FP8, 2)
    assert fp8.moved_bytes(1280) == 1280 + 10 * 4
    assert fp8.factor == pytest.approx(0.515625)
    assert fp8.compress_bytes(1280) == 2560 + 1320
    assert fp8.restore_bytes(1280) == 1320 + 2560


def test_top_k_takes_values_and_positions() -> None:
    top_k = Compressor(Compression.TOP_K, 2, 0.1)
    assert top_k.moved_bytes(1000) == 100 * (2 + 4)
    assert top_k.factor == pytest.approx(0.3)
    assert top_k.compress_bytes(1000) == 3 * 2000 + 600
    assert top_k.restore_bytes(1000) == 600 + 2000 + 200
    assert largest_useful_share(2) == pytest.approx(1 / 3)


@given(elements=st.integers(0, 10**9), share=st.floats(0.001, 1), size=st.sampled_from([2, 4]))
def test_factor_is_what_many_elements_take(elements: int, share: float, size: int) -> None:
    for kind in Compression:
        compressor = Compressor(kind, size, share)
        exact = compressor.factor * size * elements
        assert exact - 1 <= compressor.moved_bytes(elements) <= exact + 10


def test_compression_shortens_transfers_and_leaves_the_rest() -> None:
    plain, fp8 = only(), only(offload_compression="fp8")
    for stage, compressed in zip(plain.stages, fp8.stages, strict=True):
        assert compressed.offload_bytes == stage.offload_bytes
        assert compressed.forward_ns == stage.forward_ns
        # 32 of the 34 s b h bytes of a layer are not dropout masks; compression takes some time.
        factor = compressed.offload_ns[0] / stage.offload_ns[0]
        assert (2 + 32 * 0.5156) / 34 < factor < (2 + 32 * 0.5156) / 34 + 0.06
    top_k = only(offload_compression="top_k", offload_top_k=0.01)
    assert top_k.stages[0].offload_ns[0] < 0.2 * plain.stages[0].offload_ns[0]


def test_models_without_dropout_are_compressed_whole() -> None:
    training = {"micro_batches": 16, "interleaving": 1}
    plain, fp8 = (
        resolve("Llama-2-7B", "8xA100-80GB", training | own).candidates[0].problem.stages[3]
        for own in ({}, {"offload_compression": "fp8"})
    )
    assert fp8.offload_ns[0] / plain.offload_ns[0] == pytest.approx(0.5156, abs=0.06)


def test_restoring_top_k_and_compressing_it_take_different_times() -> None:
    stage = only(offload_compression="top_k", offload_top_k=0.1).stages[3]
    assert stage.offload_ns[0] > stage.reload_ns[0]


def test_a_compressed_store_holds_more() -> None:
    """Limits count what leaves the GPU, of which fp8 stores a little more than a half."""
    memory = {"host_memory_bytes": 64 * GIB}
    plain, fp8 = only(memory), only(memory, offload_compression="fp8")
    before, after = plain.hosts[0].memory_bytes, fp8.hosts[0].memory_bytes
    assert before == 64 * GIB
    assert after is not None
    # Masks and token numbers are not compressed; stage 0 has most of them.
    assert after == pytest.approx(before * 34 / (2 + 32 * 0.5156), rel=0.01)


def test_lossy_compression_is_never_used_unasked() -> None:
    found = resolved(SSD | SOCKETS | {"host_memory_numa": "auto"}, offload_tier="auto")
    assert not any("fp8" in name or "top_k" in name for name in names(found.candidates))
    assert not any("Lossy" in entry["basis"] for entry in found.notes)


def test_an_answer_says_that_compression_changes_gradients() -> None:
    found = resolved(offload_compression="fp8")
    assert names(found.candidates) == ["one_chunk, fp8"]
    assert "gradients change" in note(found, "fp8 offloads")["basis"]


def test_measured_offload_times_count_as_they_are() -> None:
    profile = {"layer": {"offload_ns": 1000, "reload_ns": 2000}}
    for own in ({}, {"offload_compression": "fp8"}, {"offload_tier": "ssd"}):
        stage = only(SSD, profile=profile, **own).stages[3]
        layers = stage.offload_ns[0] // 1000
        assert stage.reload_ns[0] == 2 * stage.offload_ns[0] == 2000 * layers


# Sockets


def test_memory_of_another_socket_is_slower() -> None:
    near = only(SOCKETS)
    all_on_0 = only(SOCKETS | {"host_memory_numa": 0})
    spread = only(SOCKETS | {"host_memory_numa": "interleave"})
    for rank in range(8):
        base = near.stages[rank].offload_ns[0]
        assert near.stages[rank] == only().stages[rank]
        factor = all_on_0.stages[rank].offload_ns[0] / base
        assert factor == (1.0 if rank < 4 else pytest.approx(2.0, rel=0.02))
        # Half of the pages take as long as local ones, half twice that.
        assert spread.stages[rank].offload_ns[0] / base == pytest.approx(1.5, rel=0.02)


def test_each_socket_has_its_part_of_the_memory() -> None:
    memory = {"host_memory_bytes": 64 * GIB}
    near = only(SOCKETS | memory)
    assert [host.memory_bytes for host in near.hosts] == [32 * GIB] * 2
    assert [device.host for device in near.devices] == [0] * 4 + [1] * 4
    spread = only(SOCKETS | memory | {"host_memory_numa": "interleave"})
    assert [host.memory_bytes for host in spread.hosts] == [64 * GIB]
    one = only(SOCKETS | memory | {"host_memory_numa": 1})
    assert [host.memory_bytes for host in one.hosts] == [32 * GIB]


def test_ranks_that_span_sockets_are_as_slow_as_their_farthest_gpu() -> None:
    training = {"micro_batches": 4, "tensor_parallel": 8}
    near, far = (
        resolve("Llama-2-7B", {"gpu": "H100", "gpus_per_node": 8} | SOCKETS | own, training)
        .candidates[0]
        .problem.stages[0]
        for own in ({}, {"host_memory_numa": 0})
    )
    assert far.offload_ns[0] / near.offload_ns[0] == pytest.approx(2.0, rel=0.1)


def test_nodes_have_sockets_of_their_own() -> None:
    cluster = {"nodes": 2, "host_memory_bytes": 64 * GIB} | SOCKETS
    found = resolve("GPT-14.2B", CLUSTER | cluster, TRAINING | {"pipeline_parallel": 16})
    problem = found.candidates[0].problem
    assert [device.host for device in problem.devices] == [r // 4 for r in range(16)]
    assert problem.hosts[3].name == "socket 1 of node 1"


# SSDs


def test_ssds_are_one_half_duplex_link_of_a_node() -> None:
    problem = only({"nodes": 2} | SSD, offload_tier="ssd", pipeline_parallel=16)
    links = [device.host_link for device in problem.devices]
    assert len(set(links[:8])) == len(set(links[8:])) == 1
    assert links[0] != links[8]
    assert all(problem.is_half_duplex(stage) for stage in range(16))
    assert [host.memory_bytes for host in problem.hosts] == [10**12] * 2
    assert read_problem(json.loads(json.dumps(problem_to_document(problem)))) == problem


def test_ssds_are_no_faster_than_the_way_to_the_host() -> None:
    slow, fast = (
        only(SSD, offload_tier="ssd"),
        only(SSD | {"ssd_bytes_per_s": 1e12}, offload_tier="ssd"),
    )
    host = only()
    assert fast.stages[3].offload_ns == host.stages[3].offload_ns
    ratio = slow.stages[3].offload_ns[0] / host.stages[3].offload_ns[0]
    assert ratio == pytest.approx(31.5 * 0.8 / 12, rel=0.02)


def test_gpus_of_a_rank_share_the_ssds() -> None:
    alone, two = (
        resolve("GPT-1.5B", CLUSTER | SSD, {"micro_batches": 4, "offload_tier": "ssd", **degrees})
        .candidates[0]
        .problem.stages[0]
        for degrees in ({"pipeline_parallel": 8}, {"pipeline_parallel": 4, "data_parallel": 2})
    )
    per_byte = alone.offload_ns[0] / alone.offload_bytes[0]
    assert two.offload_ns[0] / two.offload_bytes[0] == pytest.approx(2 * per_byte, rel=0.02)


# Which are tried


def test_all_ways_that_may_be_best_are_tried() -> None:
    cluster = SSD | SOCKETS | {"host_memory_numa": "auto", "host_memory_bytes": 8 * GIB}
    found = resolved(
        cluster,
        offload_tier="auto",
        offload_compression="auto",
        offload_top_k=0.1,
        micro_batches=32,
        sequence=1024,
    )
    tried = {candidate.offload for candidate in found.candidates}
    assert len(found.candidates) <= MOST_CANDIDATES
    assert any(not name.startswith(("fp8", "top_k")) for name in tried)
    ways = note(found, "ways to offload")
    assert "Left out" in ways["value"]


def test_few_ways_keep_every_placement() -> None:
    training = {"micro_batches": 32, "flash_attention": False, "offload_compression": "auto"}
    found = resolve("GPT-14.2B", CLUSTER, training)
    placements = ["one_chunk", "interleaved_2", "interleaved_4", "v_shape"]
    assert names(found.candidates) == placements + [f"{name}, fp8" for name in placements]


def test_only_one_way_where_everything_fits() -> None:
    training = {"micro_batches": 4, "offload_compression": "auto", "offload_tier": "auto"}
    found = resolve("GPT-1.5B", CLUSTER | SSD, training)
    assert not any("," in name for name in names(found.candidates))
    ways = note(found, "ways to offload")["value"]
    assert ways == "tried: as it is, to host memory. Left out: ssd; fp8; fp8, ssd"


def test_slower_and_smaller_is_not_tried() -> None:
    """SSDs are slower than host memory without limit, so they can't be better."""
    found = resolved(SSD, offload_tier="auto", flash_attention=False)
    assert names(found.candidates) == ["one_chunk"]
    limited = resolved(SSD | {"host_memory_bytes": GIB}, offload_tier="auto", flash_attention=False)
    assert names(limited.candidates) == ["one_chunk", "one_chunk, ssd"]


def test_interleaving_pages_is_tried_only_where_a_socket_may_be_full() -> None:
    auto = SOCKETS | {"host_memory_numa": "auto"}
    plenty = resolved(auto | {"host_memory_bytes": 10**13}, flash_attention=False)
    assert names(plenty.candidates) == ["one_chunk"]
    little = resolved(auto | {"host_memory_bytes": 40 * GIB}, flash_attention=False)
    assert names(little.candidates) == ["one_chunk", "one_chunk, numa interleave"]


def test_more_accurate_compression_is_never_dropped_for_a_smaller_one() -> None:
    found = resolved(offload_compression="auto", offload_top_k=0.05, flash_attention=False)
    assert names(found.candidates) == ["one_chunk", "one_chunk, fp8", "one_chunk, top_k"]
    wasteful = resolved(offload_compression="auto", offload_top_k=0.3, flash_attention=False)
    assert names(wasteful.candidates) == ["one_chunk", "one_chunk, fp8"]


def test_a_schedule_of_the_worse_problem_fits_the_one_that_replaces_it() -> None:
    """What `is_never_worse` promises, on a schedule that offloads."""
    small = {"flash_attention": False, "micro_batches": 8}
    slow = only(SSD | {"host_memory_bytes": 10**12}, offload_tier="ssd", **small)
    fast = only({"host_memory_bytes": 10**12}, **small)
    assert is_never_worse(fast, slow)
    assert not is_never_worse(slow, fast)
    rows = [row for row in comparison_rows(slow, never) if row.fits and not row.hypothetical]
    schedule = max((r.schedule for r in rows if r.schedule), key=lambda s: s.offloads)
    assert schedule.offloads
    assert not verify(slow, schedule)

    def shortened(op: TimedOp) -> TimedOp:
        durations = {"O": fast.stages[op.stage].offload_ns, "R": fast.stages[op.stage].reload_ns}
        if op.op not in durations:
            return op
        return op._replace(end_ns=op.start_ns + durations[op.op][op.micro_batch])

    assert not verify(fast, schedule_from_ops(fast, map(shortened, schedule.ops)))


def test_stores_count_in_never_worse() -> None:
    problem = only({"host_memory_bytes": GIB}, flash_attention=False)
    larger = replace(problem, hosts=(replace(problem.hosts[0], memory_bytes=2 * GIB),))
    unlimited = only(flash_attention=False)
    assert is_never_worse(larger, problem)
    assert not is_never_worse(problem, larger)
    assert is_never_worse(unlimited, problem)
    assert not is_never_worse(problem, unlimited)


def test_always_fits_counts_all_micro_batches() -> None:
    problem = only(flash_attention=False)
    assert not always_fits(problem)
    roomy = replace(
        problem,
        devices=tuple(replace(d, activation_memory_bytes=10**13) for d in problem.devices),
    )
    assert always_fits(roomy)


def test_estimated_slowdown_orders_by_links_and_stores() -> None:
    small = {"flash_attention": False}
    plenty = only(**small)
    assert (
        1 <= estimated_slowdown(plenty) < estimated_slowdown(only(SSD, offload_tier="ssd", **small))
    )
    none = estimated_slowdown(only(offload=False, **small))
    tiny = estimated_slowdown(only({"host_memory_bytes": GIB}, **small))
    assert estimated_slowdown(plenty) < tiny <= none


def test_ssds_are_a_way_out_of_a_full_host() -> None:
    cluster = CLUSTER | SSD | {"host_memory_bytes": 1}
    found = {
        remedy.remedy: remedy
        for remedy in try_remedies("GPT-14.2B", cluster, TRAINING, lambda c: "ssd" in c[0].offload)
    }
    training = found["offload"].training
    assert training is not None
    assert training["offload_tier"] == "ssd"


# Errors


@pytest.mark.parametrize(
    ("cluster", "training", "path"),
    [
        ({}, {"offload_tier": "ssd"}, ("training", "offload_tier")),
        ({}, {"offload_compression": "top_k"}, ("training", "offload_top_k")),
        ({}, {"offload_top_k": 0.1}, ("training", "offload_top_k")),
        (
            {},
            {"offload_compression": "top_k", "offload_top_k": 0.4},
            ("training", "offload_top_k"),
        ),
        ({"ssd_bytes_per_s": 1e9}, {}, ("cluster", "ssd_memory_bytes")),
        ({"ssd_memory_bytes": 10**12}, {}, ("cluster", "ssd_bytes_per_s")),
        ({"numa_remote_factor": 0.5}, {}, ("cluster", "numa_remote_factor")),
        ({"host_memory_numa": "auto"}, {}, ("cluster", "host_memory_numa")),
        ({"host_memory_numa": "far"}, {}, ("cluster", "host_memory_numa")),
        (SOCKETS | {"host_memory_numa": 2}, {}, ("cluster", "host_memory_numa")),
        (
            {"numa": SOCKETS["numa"], "host_memory_numa": "interleave"},
            {},
            ("cluster", "numa_remote_factor"),
        ),
        ({"numa": [[0, 1, 2, 3]]}, {}, ("cluster", "numa")),
        ({"numa": [[0, 1, 2, 3], [3, 4, 5, 6, 7]]}, {}, ("cluster", "numa", 1, 0)),
        ({"numa": [[0, 8]]}, {}, ("cluster", "numa", 0, 1)),
    ],
)
def test_errors_name_field_and_remedy(
    cluster: dict[str, Any], training: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    with pytest.raises(SpecError) as raised:
        resolved(cluster, **training)
    assert raised.value.path == path
    assert raised.value.remedy
