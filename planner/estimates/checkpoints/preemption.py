"""What can still be saved between a provider's notice and the loss of a node."""

from __future__ import annotations

from typing import Any

from planner.estimates.checkpoints.sizes import Sizes, Written

STORED_IN = {"host_memory": "host memory", "ssd": "the node's SSDs", "storage": "the storage"}


def preemption_document(
    notice_s: float,
    iteration_s: float,
    fast: Written,
    full: Written,
    parameters: Sizes,
    full_every_s: float,
) -> dict[str, Any]:
    """Each way to save something, and what to do.

    Whatever is saved has to be consistent: the iteration that runs when the notice comes is waited
    for, at most all of it. `full_every_s` is how often a full checkpoint is written otherwise.
    """
    options = [
        _option("full", full, full.write_s, iteration_s, notice_s),
        _option(
            "parameters",
            full,
            parameters.whole_bytes / full.bytes_per_s,
            iteration_s,
            notice_s,
        ),
        _option("fast", fast, fast.write_s, iteration_s, notice_s),
    ]
    left_s = notice_s - iteration_s
    fitting = [option["what"] for option in options if option["fits"] and option["survives"]]
    action = f"write_{fitting[0]}" if fitting else "fall_back"
    return {
        "notice_ns": round(notice_s * 1e9),
        "options": options,
        "action": action,
        "needed_bytes_per_s": full.sizes.whole_bytes / left_s if left_s > 0 else None,
        "lost_otherwise_ns": round(full_every_s / 2 * 1e9),
        "advice": _advice(action, fast, full, notice_s, iteration_s),
    }


def _option(
    what: str, written: Written, write_s: float, iteration_s: float, notice_s: float
) -> dict[str, Any]:
    needed_s = iteration_s + write_s
    survives = written.stored_in == "storage"
    where = STORED_IN[written.stored_in]
    return {
        "what": what,
        "stored_in": written.stored_in,
        "needed_ns": round(needed_s * 1e9),
        "fits": needed_s <= notice_s,
        "survives": survives,
        "reason": f"At most one iteration, then {write_s:,.1f} s to {where}"
        + ("." if survives else ", which goes with the node."),
    }


def _advice(
    action: str, fast: Written, full: Written, notice_s: float, iteration_s: float
) -> list[str]:
    advice = {
        "write_full": "On the notice let the iteration end, write a full checkpoint, and start "
        "again from it on the nodes that are left or come: no work is lost.",
        "write_parameters": "On the notice let the iteration end and write the parameters: they "
        "are enough to evaluate or to go on with fresh optimizer states. To go on as if nothing "
        "had happened, the last full checkpoint has to do.",
        "fall_back": "Nothing that outlives the node fits into the notice: training goes on from "
        "the last full checkpoint.",
    }
    steps = [advice[action]]
    if action != "write_full":
        if notice_s > iteration_s:
            rate = full.sizes.whole_bytes / (notice_s - iteration_s) / 1e9
            steps.append(
                f"A full checkpoint would fit if the storage took {rate:,.1f} GB/s instead of "
                f"{full.bytes_per_s / 1e9:,.1f}."
            )
        else:
            steps.append("The notice is shorter than an iteration: no rate of storage helps.")
        steps.append(
            "Otherwise write full checkpoints more often, in the background (a lower "
            "blocking_share), so that less is lost."
        )
        if fast.contents == "state" and iteration_s + fast.write_s <= notice_s:
            steps.append(
                "A fast checkpoint fits: kept in the memory of another node than its own it would "
                "survive."
            )
    return steps
