"""Random and hand-made pipeline problems that the tests share.

`problem_documents` draws a document as a client would post it (numbers once or one per
micro-batch, defaults written out or not); `problems` draws the `PipelineProblem` of one. Times
and sizes are small whole numbers, so that brute force and a reader can follow them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem

MEMORY_KINDS = ("none", "tight", "loose", "any")
Quantity = int | list[int]


@st.composite
def problem_documents(
    draw: st.DrawFn,
    *,
    max_devices: int = 4,
    max_chunks: int = 3,
    max_micro_batches: int = 5,
    offload: bool | None = None,
    memory: str = "any",
    hosts: bool | None = None,
    objective: str | None = None,
    micro_batch_order: str | None = None,
    zero_times: bool = True,
) -> dict[str, Any]:
    """A valid problem document.

    `offload` and `hosts` of None leave it to chance whether stages can offload and whether hosts
    have limits. `memory` is "none" (no limits), "tight" (about one micro-batch at a time, a
    little too low at times), "loose" or "any" (drawn per device). Without `zero_times` every F
    and B takes at least 1 ns (transfers between stages may still take 0).
    """
    device_count = draw(st.integers(1, max_devices))
    chunks = draw(st.sampled_from([c for c in (1, 1, 1, 2, 2, 3) if c <= max_chunks]))
    count = draw(st.integers(1, max_micro_batches))
    placement = _draw_placement(draw, device_count, chunks)
    with_offload = draw(st.booleans()) if offload is None else offload
    with_hosts = with_offload and (draw(st.booleans()) if hosts is None else hosts)
    varying = draw(st.booleans())
    fused = draw(st.sampled_from(["never", "never", "always", "per stage"]))
    shortest = draw(st.sampled_from([0, 1])) if zero_times else 1

    def quantity(low: int, high: int) -> Quantity:
        if varying and draw(st.booleans()):
            return [draw(st.integers(low, high)) for _ in range(count)]
        return draw(st.integers(low, high))

    stages: list[dict[str, Any]] = []
    for device in placement:
        stage: dict[str, Any] = {
            "device": device,
            "forward_ns": quantity(shortest, 8),
            "backward_input_ns": quantity(shortest, 8),
            "activation_bytes": quantity(0, 8),
        }
        if fused == "never" or (fused == "per stage" and draw(st.booleans())):
            stage["backward_weight_ns"] = quantity(shortest, 6)
            stage["weight_grad_bytes"] = quantity(0, draw(st.sampled_from([4, 4, 10])))
        if draw(st.integers(0, 3)) == 0:
            stage["backward_workspace_bytes"] = quantity(0, 4)
        if with_offload and draw(st.integers(0, 3)) > 0:
            activation = stage["activation_bytes"]
            stage["offload_bytes"] = (
                [draw(st.integers(0, value)) for value in activation]
                if isinstance(activation, list)
                else draw(st.integers(0, activation))
            )
            stage["offload_ns"] = quantity(shortest, 9)
            stage["reload_ns"] = quantity(shortest, 9)
        stages.append(stage)

    document: dict[str, Any] = {
        "micro_batches": count,
        "devices": _draw_devices(draw, device_count, stages, count, memory),
        "stages": stages,
    }
    if draw(st.booleans()):
        document["transfers"] = [
            {"forward_ns": quantity(0, 3), "backward_ns": quantity(0, 3)} for _ in stages[1:]
        ]
    if with_hosts:
        _draw_hosts(draw, document)
    if with_offload:
        _draw_links(draw, document)
    chosen_order = micro_batch_order or draw(st.sampled_from(["fixed", "fixed", "free"]))
    chosen_objective = objective or draw(st.sampled_from(["makespan", "makespan", "steady_span"]))
    if chosen_order != "fixed" or draw(st.booleans()):
        document["micro_batch_order"] = chosen_order
    if chosen_objective != "makespan" or draw(st.booleans()):
        document["objective"] = chosen_objective
    return document


def problems(**options: Any) -> st.SearchStrategy[PipelineProblem]:
    """A valid problem; `options` are those of `problem_documents`."""
    return problem_documents(**options).map(read_problem)


def _draw_placement(draw: st.DrawFn, devices: int, chunks: int) -> list[int]:
    """The device of each stage: interleaved, V-shaped or at random; each device at least once."""
    ranks = list(range(devices))
    shape = draw(st.sampled_from(["interleaved", "v", "random"]))
    if shape == "v":
        return [d for c in range(chunks) for d in (ranks if c % 2 == 0 else ranks[::-1])]
    placement = ranks * chunks
    return draw(st.permutations(placement)) if shape == "random" else placement


def _largest(value: Quantity) -> int:
    return max(value) if isinstance(value, list) else value


def _draw_devices(
    draw: st.DrawFn,
    device_count: int,
    stages: list[dict[str, Any]],
    micro_batches: int,
    memory: str,
) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = []
    for d in range(device_count):
        device: dict[str, Any] = {}
        held = [
            max(_largest(stage["activation_bytes"]), _largest(stage.get("weight_grad_bytes", 0)))
            + _largest(stage.get("backward_workspace_bytes", 0))
            for stage in stages
            if stage["device"] == d
        ]
        kind = draw(st.sampled_from(["none", "tight", "loose"])) if memory == "any" else memory
        if kind == "tight":
            short = draw(st.integers(0, 9)) == 0
            helped = any(stage.get("offload_bytes") for stage in stages if stage["device"] == d)
            least = max(0, max(held) - 1) if short else max(held) if helped else sum(held)
            device["activation_memory_bytes"] = draw(st.integers(least, sum(held) + max(held)))
        elif kind == "loose":
            device["activation_memory_bytes"] = sum(held) * (micro_batches + 1)
        elif draw(st.booleans()):
            device["activation_memory_bytes"] = None
        if draw(st.integers(0, 2)) == 0:
            device["epilogue_ns"] = draw(st.integers(0, 12))
        devices.append(device)
    return devices


def _draw_hosts(draw: st.DrawFn, document: dict[str, Any]) -> None:
    count = draw(st.integers(1, 2))
    document["hosts"] = [
        draw(
            st.one_of(
                st.just({}),
                st.builds(lambda size: {"memory_bytes": size}, st.integers(0, 24)),
            )
        )
        for _ in range(count)
    ]
    for device in document["devices"]:
        if draw(st.integers(0, 3)) > 0:
            device["host"] = draw(st.integers(0, count - 1))


def _draw_links(draw: st.DrawFn, document: dict[str, Any]) -> None:
    for device in document["devices"]:
        if draw(st.booleans()):
            device["host_link"] = draw(st.sampled_from(["switch 0", "switch 1"]))
    if draw(st.booleans()):
        document["host_link_duplex"] = draw(st.sampled_from(["full", "half"]))
    named = sorted({d["host_link"] for d in document["devices"] if "host_link" in d})
    own = {
        name: {"duplex": draw(st.sampled_from(["full", "half"]))}
        for name in named
        if draw(st.booleans())
    }
    if own:
        document["host_links"] = own


def uniform_document(
    *,
    devices: int = 4,
    micro_batches: int = 8,
    chunks: int = 1,
    limit: int | None = None,
    transfer_ns: int = 0,
    placement: list[int] | None = None,
    hosts: list[dict[str, Any]] | None = None,
    **stage: Any,
) -> dict[str, Any]:
    """A document of equal stages, interleaved over the devices unless `placement` says otherwise.

    F = 10, B = 12 and W = 8 ns, 4 bytes of activation of which 2 stay until W's end, unless
    `stage` sets the fields of a stage otherwise. With `hosts`, all devices belong to host 0.
    """
    fields = {
        "forward_ns": 10,
        "backward_input_ns": 12,
        "backward_weight_ns": 8,
        "activation_bytes": 4,
        "weight_grad_bytes": 2,
        **stage,
    }
    stage_devices = placement or list(range(devices)) * chunks
    device: dict[str, Any] = {} if limit is None else {"activation_memory_bytes": limit}
    if hosts:
        device["host"] = 0
    document: dict[str, Any] = {
        "micro_batches": micro_batches,
        "devices": [dict(device) for _ in range(devices)],
        "stages": [{"device": d, **fields} for d in stage_devices],
    }
    if transfer_ns:
        document["transfers"] = [
            {"forward_ns": transfer_ns, "backward_ns": transfer_ns} for _ in stage_devices[1:]
        ]
    if hosts:
        document["hosts"] = hosts
    return document


def uniform_problem(**options: Any) -> PipelineProblem:
    """The problem of `uniform_document`."""
    return read_problem(uniform_document(**options))
