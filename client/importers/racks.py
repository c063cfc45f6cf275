"""Nodes behind switches, as a request says it: equal racks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def racks_of(sizes: Sequence[int], notes: list[str]) -> dict[str, Any]:
    """`nodes` and, where there are several, `nodes_per_rack` of racks with so many nodes each.

    A request knows equal racks only: of larger ones the rest is left out, which is noted.
    """
    smallest = min(sizes)
    rest = sum(sizes) - smallest * len(sizes)
    if rest:
        notes.append(
            f"Racks have {smallest} to {max(sizes)} nodes: {smallest} of each are counted, and "
            f"{rest} nodes left out. Write other racks yourself if few are that small."
        )
    if len(sizes) == 1:
        return {"nodes": smallest}
    return {"nodes": smallest * len(sizes), "nodes_per_rack": smallest}
