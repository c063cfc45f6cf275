"""Result documents as the API answers with them, small and made by hand."""

from __future__ import annotations

from typing import Any

MS = 1_000_000
GIB = 2**30


def two_device_result() -> dict[str, Any]:
    """Two devices, two micro-batches, one offload on device 0."""
    ops = [
        ("F", 0, 0, 0, 10),
        ("F", 0, 1, 10, 20),
        ("O", 0, 1, 20, 30),
        ("F", 1, 0, 10, 20),
        ("B", 1, 0, 20, 30),
        ("F", 1, 1, 30, 40),
        ("B", 1, 1, 40, 50),
        ("R", 0, 1, 40, 50),
        ("B", 0, 0, 30, 40),
        ("W", 0, 0, 40, 45),
        ("B", 0, 1, 50, 60),
        ("W", 0, 1, 60, 65),
    ]
    return {
        "problem": {
            "micro_batches": 2,
            "devices": [{}, {}],
            "stages": [
                {
                    "device": 0,
                    "forward_ns": 10 * MS,
                    "backward_input_ns": 10 * MS,
                    "backward_weight_ns": 5 * MS,
                    "offload_bytes": 1,
                    "offload_ns": 10 * MS,
                    "reload_ns": 10 * MS,
                },
                {"device": 1, "forward_ns": 10 * MS, "backward_input_ns": 10 * MS},
            ],
        },
        "schedule": {
            "ops": [
                {"op": op, "stage": s, "micro_batch": m, "start_ns": a * MS, "end_ns": b * MS}
                for op, s, m, a, b in ops
            ],
            "makespan_ns": 65 * MS,
            "steady_span_ns": 65 * MS,
            "peak_memory_bytes": [2 * GIB, GIB],
            "lower_bound_ns": 60 * MS,
        },
        "comparison": [
            row("1F1B", 70, fits=True),
            row("GPipe", 66, fits=False, peak=9),
            row("ZB-V", 50, fits=True, hypothetical=True),
        ],
        "certificate": {
            "verified": True,
            "verifier": "planner.pipeline.verify",
            "proven_optimal": False,
            "objective": "makespan",
            "value_ns": 65 * MS,
            "lower_bound_ns": 60 * MS,
            "bound_name": "critical path",
            "gap": 0.076923,
            "bounds": [
                {"name": "critical path", "value_ns": 60 * MS},
                {"name": "arrival and work", "value_ns": 55 * MS},
            ],
        },
        "provenance": {"placement": "as_posted"},
    }


def row(
    name: str, makespan_ms: int, *, fits: bool, hypothetical: bool = False, peak: int = 3
) -> dict[str, Any]:
    """A comparison row."""
    return {
        "name": name,
        "placement": "as_posted",
        "hypothetical": hypothetical,
        "makespan_ns": makespan_ms * MS,
        "steady_span_ns": makespan_ms * MS,
        "bubble_ratio": 0.25,
        "peak_memory_bytes": [peak * GIB, GIB],
        "offloads": 0,
        "fits": fits,
    }


def sharding_result() -> dict[str, Any]:
    """Two operators on four devices, two baselines of which one is not applicable."""
    mib = 2**20
    return {
        "instance": {"alpha": 0.1, "device_memory_bytes": 300 * mib, "operators": [], "edges": []},
        "plan": {
            "choice": [3, 0],
            "objective": 48.5 * mib,
            "memory_bytes": 200 * mib,
            "status": "optimal",
            "lower_bound": 48.5 * mib,
            "operators": [
                operator("qkv", "linear", 2, 1, 2, memory_bytes=150 * mib),
                operator("norm", "layer_norm", 4, 1, 1, memory_bytes=50 * mib),
            ],
            "resharding": [
                {
                    "from": "qkv",
                    "to": "norm",
                    "tensor": "y",
                    "bytes": 5 * mib,
                    "counted_as": "resharding",
                }
            ],
            "redundant_bytes": 40 * mib,
            "communication_bytes": 80 * mib,
            "resharding_bytes": 5 * mib,
            "predicted_peak_bytes": 260 * mib,
            "device_memory_bytes": 400 * mib,
            "predicted_step_ns": 4_000_000,
            "relative_throughput": 1.25,
        },
        "baselines": [
            {
                "name": "Megatron-LM",
                "applicable": True,
                "reason": None,
                "memory_bytes": 390 * mib,
                "predicted_peak_bytes": 500 * mib,
                "fits": False,
                "redundant_bytes": 96 * mib,
                "communication_bytes": 64 * mib,
                "resharding_bytes": 0,
                "objective": 102.4 * mib,
                "note": None,
                "predicted_step_ns": 5_000_000,
                "relative_throughput": 1.0,
                "modelled": "its hand-made split",
                "not_modelled": "its overlap of communication",
            },
            {
                "name": "data parallel",
                "applicable": False,
                "reason": "the batch of 2 cannot be split over 4 devices",
                "modelled": "the batch alone is split",
                "not_modelled": "overlap",
            },
        ],
        "certificate": {
            "verified": True,
            "verifier": "planner.sharding.verify",
            "proven_optimal": True,
            "objective": 48.5 * mib,
            "lower_bound": 48.5 * mib,
            "gap": 0.0,
            "proof": {"ilp": "proven", "elimination": "agrees: no plan is better"},
            "scope": ["among plans that split all 24 layers alike"],
        },
        "provenance": {"planner_version": "0", "engine": "cbc", "solve_seconds": 0.04},
    }


def operator(
    name: str, kind: str, data: int, row: int, column: int, *, memory_bytes: int
) -> dict[str, Any]:
    """An operator of a plan."""
    return {
        "name": name,
        "kind": kind,
        "strategy": f"d{data}-r{row}-c{column}",
        "data": data,
        "row": row,
        "column": column,
        "spare": 1,
        "layers": 1,
        "redundant_bytes": 20 * 2**20,
        "communication_bytes": 40 * 2**20,
        "memory_bytes": memory_bytes,
    }


def training_plan(rank: int, step_ms: int, **fields: Any) -> dict[str, Any]:
    """One of the ranked plans: two ranks, data parallel in each."""
    return {
        "rank": rank,
        "devices": 8,
        "tensor_parallel": 1,
        "pipeline_parallel": 2,
        "data_parallel": 4,
        "context_parallel": 1,
        "expert_parallel": 1,
        "micro_batch_size": 2,
        "interleaving": 1,
        "zero_stage": 1,
        "recomputation": "none",
        "offload": False,
        "step_time_ns": step_ms * MS,
        "samples_per_s": 12.5,
        "tokens_per_s": 25_600.0,
        "mfu": 0.4125,
        "peak_bytes": 30 * GIB,
        "headroom_bytes": 9 * GIB,
        "layers_per_stage": [6, 6],
        "memory_per_rank": [
            {
                "rank": number,
                "layers": 6,
                "micro_batches_in_flight": 2.0 - number,
                "parameters_bytes": 2 * GIB,
                "gathered_parameters_bytes": 0,
                "gradients_bytes": 4 * GIB,
                "optimizer_bytes": 6 * GIB,
                "activations_bytes": 16 * GIB,
                "embedding_activations_bytes": 0,
                "communication_buffers_bytes": GIB,
                "reserved_bytes": 2 * GIB,
                "offloaded_bytes": 3 * GIB * (1 - number),
                "total_bytes": (30 + number) * GIB,
                "headroom_bytes": (9 - number) * GIB,
            }
            for number in range(2)
        ],
        "schedule": None,
        "reasons": [f"Place {rank}.", "What the step is made of."],
        **fields,
    }


def training_result() -> dict[str, Any]:
    """Two plans, of which a schedule has made the second one the best."""
    schedule = {
        "makespan_ns": 98 * MS,
        "lower_bound_ns": 90 * MS,
        "gap": 0.081633,
        "found_by": "local search",
    }
    return {
        "plans": [training_plan(1, 100), training_plan(2, 101, schedule=schedule)],
        "best": {
            "rank": 2,
            "step_time_ns": 98 * MS,
            "training": {"pipeline_parallel": 2, "zero_stage": 1},
            "schedule": {**two_device_result(), "comparison": []},
            "sharding": None,
            "experts": None,
            "left_out": {"sharding": "tensor_parallel is 1: every GPU has whole layers."},
        },
        "searched": {
            "enumerated": 12_345,
            "worked_out": 67,
            "fits": 8,
            "dropped": {"states": 11_000},
            "left_out": {"batch": 1_278},
            "complete": True,
            "rules": {"states": "states do not fit", "batch": "the batch cannot be split"},
        },
        "dropped": [
            {"configuration": "pipeline 1", "rule": "states", "detail": "Rank 0 lacks 5 GiB."},
            {"configuration": "pipeline 4", "rule": "slower"},
        ],
        "certificate": {
            "verified": True,
            "verifier": "loadmaster training plan verifier 1",
            "proven_optimal": False,
            "value_ns": 98 * MS,
            "lower_bound_ns": 90 * MS,
            "bound_name": "busiest rank's work",
            "gap": 0.081633,
            "scope": ["of the configurations enumerated"],
        },
        "assumptions": [{"what": "step time", "value": "1F1B", "basis": "closed form"}],
        "warnings": ["Only 1 % is left."],
        "provenance": {"solve_seconds": 12.3},
    }
