"""Whether another order of ranks would put the busiest traffic on faster links."""

from __future__ import annotations

from typing import Any

from planner.estimates.communication.groups import DATA_LAST
from planner.estimates.communication.layout import Layout, whole_ns

WORTH_CHANGING = 0.02
"""What share of the communication another order has to save before it is recommended."""

SMALLEST_SHOWN = 0.0005

FLAG = "--use-tp-pp-dp-mapping"
ARGUMENTS = "Megatron-LM, megatron/training/arguments.py"


def rank_order_alternatives(layout: Layout) -> list[dict[str, Any]]:
    """The order of `layout` and, where it makes a difference, the one with data ranks last, with
    all communication of a step in each; exactly one is recommended."""
    other = _data_last(layout)
    is_better = bool(other and other["recommended"])
    own = {
        "order": layout.order.name,
        "megatron_flag": None,
        "usable": True,
        "communication_ns": whole_ns(layout.total_s),
        "by_kind_ns": layout.by_kind_ns(),
        "recommended": not is_better,
        "reason": "Megatron-LM's default, which all other estimates assume.",
        "rules": {kind.value: groups.rule() for kind, groups in layout.groups.items()},
    }
    return [own] if other is None else [own, other]


def _data_last(layout: Layout) -> dict[str, Any] | None:
    """None where both orders number the ranks alike."""
    degrees = layout.costs.training.degrees
    if degrees.pipeline == 1 or degrees.data == 1:
        return None
    document: dict[str, Any] = {"order": DATA_LAST, "megatron_flag": FLAG}
    if degrees.expert > 1:
        return document | {
            "usable": False,
            "communication_ns": None,
            "recommended": False,
            "reason": f"Not compared: expert groups lie among data ranks, and {FLAG} is not to be "
            f"used with expert parallelism ({ARGUMENTS}).",
        }
    other = Layout.of(layout.costs, DATA_LAST)
    saved = 1 - other.total_s / layout.total_s
    obstacle = _obstacle(layout)
    words = "As much communication time"
    if abs(saved) >= SMALLEST_SHOWN:
        words = f"{abs(saved):.1%} {'less' if saved > 0 else 'more'} communication time"
    return document | {
        "usable": obstacle is None,
        "communication_ns": whole_ns(other.total_s),
        "by_kind_ns": other.by_kind_ns(),
        "recommended": obstacle is None and saved > WORTH_CHANGING,
        "reason": f"{words}: stages are nearer to each other, replicas farther apart."
        + (f" {obstacle}" if obstacle else ""),
        "rules": {kind.value: groups.rule() for kind, groups in other.groups.items()},
    }


def _obstacle(layout: Layout) -> str | None:
    """Why Megatron-LM cannot number ranks so."""
    training = layout.costs.training
    if training.degrees.context > 1:
        return f"{FLAG} is not to be used with context parallelism ({ARGUMENTS})."
    if training.zero_stage >= 2:
        return f"Megatron FSDP, which shards gradients and parameters, does not go with {FLAG}."
    return None


def order_warnings(alternatives: list[dict[str, Any]]) -> list[str]:
    """That another order than the listed one is recommended."""
    return [
        f"{each['order']} takes {each['reason'].rstrip('.')}; what computation hides is counted "
        f"too. With {each['megatron_flag']} Megatron-LM numbers ranks so; the groups listed here "
        f"and all other estimates are those of {alternatives[0]['order']}."
        for each in alternatives[1:]
        if each["recommended"]
    ]
