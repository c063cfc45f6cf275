"""What a request's graph would be on other numbers of devices: a transformer's vocabulary is padded
so that all of them divide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.sharding.graph import Graph
from planner.sharding.spec import ShardingSpec
from planner.sharding.stages import StageGraph, part_of
from planner.sharding.transformer.request import read_transformer


class GraphsByDevices:
    """The graphs of one stage of a request, for the batch that it has now."""

    def __init__(self, spec: ShardingSpec, stage: StageGraph) -> None:
        self._spec = spec
        self._stage = stage
        self._raw = _with_its_batch(spec)

    def on(self, devices: int) -> Graph:
        """The stage's graph where each stage has so many devices; the same one wherever the number
        makes no difference."""
        spec, stage = self._spec, self._stage
        if self._raw is None:
            return stage.graph
        graph = read_transformer(self._raw, spec.training, devices * spec.stages).graph
        if spec.stages > 1:
            first, last = stage.number == 0, stage.number == spec.stages - 1
            graph = part_of(graph, stage.layers, first=first, last=last)
        return stage.graph if graph == stage.graph else graph


def _with_its_batch(spec: ShardingSpec) -> Mapping[str, Any] | None:
    """The transformer that was posted, where its graph depends on the devices."""
    raw = None if spec.source is None else spec.source["transformer"]
    if not isinstance(raw, Mapping) or not raw.get("embeddings"):
        # A preset by its name alone has no vocabulary around its layers.
        return None
    return {**raw, "batch": read_transformer(raw, spec.training, spec.devices.count).batch}
