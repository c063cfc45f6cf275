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
            "resharding": [{"from": "qkv", "to": "norm", "tensor": "y", "bytes": 5 * mib}],
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
