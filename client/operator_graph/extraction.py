"""What an extraction gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Extraction:
    """`graph`: the field of that name of a request for a sharding plan. `report`: FLOPs and bytes
    kept for the backward per operator, the sums, and notes on what was recognised."""

    graph: dict[str, Any]
    report: dict[str, Any]

    def request(self, **fields: Any) -> dict[str, Any]:
        """A body of POST /v1/sharding-plans: the graph and whatever else is given, `devices`
        above all."""
        return {"graph": self.graph, **fields}
