"""How often to checkpoint, what failures cost, and how to restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.build import CostModel
from planner.cost.note import Note, note
from planner.cost.notes import notes_of
from planner.cost.step import step_of
from planner.estimates.checkpoints.failures import Failures, failures_of
from planner.estimates.checkpoints.plans import Planner, one_level
from planner.estimates.checkpoints.preemption import preemption_document
from planner.estimates.checkpoints.request import CheckpointsRequest, check_one_rate
from planner.estimates.checkpoints.restart_order import restart_document
from planner.estimates.checkpoints.sizes import (
    DEFAULT_NODE_BYTES_PER_S,
    Written,
    checkpoint_sizes,
    fast_checkpoint,
    full_checkpoint,
    host_gpu_rate,
    node_bytes,
    nodes_in_use,
)
from planner.estimates.checkpoints.two_levels import Levels
from planner.estimates.ranks import estimated_placement
from planner.estimates.request import read_costs, read_request
from planner.sizes import gib

WORTH_SAYING = 0.005
"""A difference of useful shares from which on a warning names it."""


def estimate_checkpoints(body: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults (fast: every 5 minutes; full: hourly) beside Young's, Daly's and the exact
    optimum for one level of checkpoints and for two, what a preemption notice allows, and the
    order of a rolling restart.

    Raises `SpecError` that names the field at fault.
    """
    request = read_request(CheckpointsRequest, body)
    check_one_rate(request)
    costs = read_costs(request)
    sizes, failures = checkpoint_sizes(costs, request), failures_of(costs, request)
    fast = fast_checkpoint(costs, request, sizes[request.fast_contents])
    full = full_checkpoint(costs, request, sizes["state"])
    iteration_s = _iteration_s(costs, request)
    levels = _levels(request, failures, fast, full)
    gpus = costs.training.degrees.gpus
    planners = {
        "one_level": Planner(one_level(levels), iteration_s, 0.0, full.lag_s, gpus),
        "two_levels": Planner(levels, iteration_s, fast.lag_s, full.lag_s, gpus),
    }
    plans = {name: planner.plans() for name, planner in planners.items()}
    recommended = max(plans, key=lambda name: float(plans[name][-1]["useful_share"]))
    best = plans[recommended][-1]
    return {
        "recommended": {"levels": recommended, **best},
        "failures": {
            "per_day": failures.per_day,
            "mtbf_ns": round(failures.mtbf_s * 1e9),
            "gpus": gpus,
            "nodes": nodes_in_use(costs),
            "basis": failures.basis,
        },
        "iteration_ns": round(iteration_s * 1e9),
        "fast": _written_document(fast, request.fast_share),
        "full": {
            **_written_document(full, 1.0),
            "snapshot_ns": round(sizes["state"].gpu_bytes / host_gpu_rate(costs) * 1e9),
        },
        **plans,
        "preemption": None
        if request.preemption_notice_s is None
        else preemption_document(
            request.preemption_notice_s,
            iteration_s,
            fast,
            full,
            sizes["parameters"],
            best["full_every_ns"] / 1e9,
        ),
        "rolling_restart": restart_document(costs),
        "assumptions": [*_notes(costs, request, fast, full), *notes_of(costs, ())],
        "warnings": _warnings(costs, fast, full, plans, best),
    }


def _iteration_s(costs: CostModel, request: CheckpointsRequest) -> float:
    if request.iteration_ns is not None:
        return request.iteration_ns / 1e9
    placement = estimated_placement(costs)
    step = step_of(costs, placement.chunks, costs.layers_per_stage(placement))
    return step.time.total_ns / 1e9


def _levels(
    request: CheckpointsRequest, failures: Failures, fast: Written, full: Written
) -> Levels:
    """A failure while a checkpoint is being written in the background falls back on the one
    before: in the mean as much work is repeated as training did meanwhile."""
    return Levels(
        mtbf_s=failures.mtbf_s,
        fast_cost_s=fast.blocking_s,
        full_cost_s=full.blocking_s,
        fast_restart_s=fast.restart_s + fast.lag_s,
        full_restart_s=full.restart_s + full.lag_s,
        fast_share=request.fast_share,
    )


def _written_document(written: Written, recovers: float) -> dict[str, Any]:
    return {
        "contents": written.contents,
        "stored_in": written.stored_in,
        "bytes": written.sizes.whole_bytes,
        "bytes_per_gpu": written.sizes.gpu_bytes,
        "bytes_per_s": written.bytes_per_s,
        "write_ns": round(written.write_s * 1e9),
        "blocking_ns": round(written.blocking_s * 1e9),
        "load_ns": round(written.load_s * 1e9),
        "restart_ns": round(written.restart_s * 1e9),
        "recovers_share": recovers,
    }


def _notes(
    costs: CostModel, request: CheckpointsRequest, fast: Written, full: Written
) -> list[Note]:
    assumed = "Assumed; give your own."
    given = "Given with the request."
    each = request.storage_bytes_per_s_per_node
    rates = (each, request.storage_bytes_per_s)
    return [
        note(
            "failures",
            "at random and independent, also during checkpoints and restarts",
            "Young 1974, Daly 2006, Vaidya 1995: exponential times between them. Failures that "
            "come in bursts lose less work each.",
        ),
        note(
            "full checkpoint",
            f"{gib(full.sizes.whole_bytes)}: parameters and optimizer states, each once",
            "Gradients are not kept. Every node writes an equal part, whichever replica holds it "
            "(a sharded, fully parallel save)."
            + (" Its size is given." * (request.state_bytes is not None)),
        ),
        note(
            "fast checkpoint",
            f"{fast.contents}, {gib(fast.sizes.gpu_bytes)} of the fullest GPU, kept in "
            f"{fast.stored_in.replace('_', ' ')} of its own node",
            "All GPUs of a node copy at once over their PCIe paths; a full checkpoint leaves one "
            "as well.",
        ),
        note(
            "storage",
            f"{full.bytes_per_s / 1e9:,.2f} GB/s for all nodes together",
            given
            if any(rates)
            else f"{DEFAULT_NODE_BYTES_PER_S / 1e9:g} GB/s for each node. {assumed}",
        ),
        note(
            "failures that fast checkpoints survive",
            f"{request.fast_share:.0%}",
            given
            if "fast_share" in request.model_fields_set
            else f"A node that is lost takes them with it, a process that ends does not. {assumed}",
        ),
        note(
            "restart",
            f"{request.detection_s:g} s to notice, {request.reschedule_s:g} s to start the ranks, "
            f"{fast.load_s:,.1f} s (fast) or {full.load_s:,.1f} s (full) to load",
            "A rank that hangs is noticed by NCCL's timeout, 10 minutes in PyTorch by default; one "
            "that ends at once. Starting is assumed. Loading: all ranks read what they hold.",
        ),
        note(
            "iteration",
            "given" if request.iteration_ns is not None else "estimated",
            given
            if request.iteration_ns is not None
            else "POST /v1/step-time-estimates. Checkpoints are written between iterations.",
        ),
    ]


def _warnings(
    costs: CostModel,
    fast: Written,
    full: Written,
    plans: Mapping[str, list[dict[str, Any]]],
    best: Mapping[str, Any],
) -> list[str]:
    warnings = []
    if fast.contents == "parameters":
        warnings.append(
            "A fast checkpoint of parameters alone has no optimizer states: training goes on from "
            "it with fresh ones, which is another run than without the failure. With "
            "fast_contents state it goes on exactly; see what that takes."
        )
    default = plans["two_levels"][0]
    if best["useful_share"] - default["useful_share"] > WORTH_SAYING:
        warnings.append(
            f"A fast checkpoint every 5 minutes and a full one hourly leave "
            f"{default['useful_share']:.1%} of the time useful, the best plan "
            f"{best['useful_share']:.1%}."
        )
    if best["useful_share"] < 0.5:
        warnings.append(
            "Less than half of the time is useful whatever the interval: write less or faster, or "
            "restart faster."
        )
    memory = costs.cluster.host_memory_bytes
    needed = 2 * node_bytes(costs, fast.sizes)
    if fast.stored_in == "host_memory" and memory is not None and needed > memory:
        warnings.append(
            f"Two fast checkpoints, the last whole one and the next, take {gib(needed)} of host "
            f"memory per node, which has {gib(memory)}."
        )
    return warnings
