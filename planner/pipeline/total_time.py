"""No instant of a schedule may be too large for a JSON number to hold exactly."""

from __future__ import annotations

from planner.documents import LARGEST_VALUE
from planner.errors import SpecError
from planner.pipeline.problem import PipelineProblem


def check_total_time(problem: PipelineProblem, path: tuple[str | int, ...] = ()) -> None:
    """Raise `SpecError`, naming the field that adds most, if all times together exceed 2^53 - 1.

    One operation after the other takes no longer than that, whatever waits for whatever.
    """
    times_ns: dict[tuple[str | int, ...], int] = {}
    for s, stage in enumerate(problem.stages):
        for name in ("forward_ns", "backward_input_ns", "backward_weight_ns"):
            times_ns["stages", s, name] = sum(getattr(stage, name))
        if any(stage.offload_bytes):
            times_ns["stages", s, "offload_ns"] = sum(stage.offload_ns)
            times_ns["stages", s, "reload_ns"] = sum(stage.reload_ns)
    for i, transfer in enumerate(problem.transfers):
        times_ns["transfers", i, "forward_ns"] = sum(transfer.forward_ns)
        times_ns["transfers", i, "backward_ns"] = sum(transfer.backward_ns)
    for d, device in enumerate(problem.devices):
        times_ns["devices", d, "epilogue_ns"] = device.epilogue_ns
    total_ns = sum(times_ns.values())
    if total_ns > LARGEST_VALUE:
        most = max(times_ns, key=times_ns.__getitem__)
        raise SpecError(
            path + most,
            f"all times together are {total_ns} ns, more than a JSON number can hold exactly.",
            f"Give times whose sum over all stages and micro-batches is at most {LARGEST_VALUE}.",
        )
