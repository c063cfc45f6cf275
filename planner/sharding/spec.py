"""The canonical spec of a sharding solve: what is solved, how, and the hashes that identify it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from planner.documents import canonical_hash
from planner.sharding.costs import Communication, Redundancy, Terms
from planner.sharding.devices import DeviceGroup, group_to_document, read_group
from planner.sharding.documents import graph_to_document, read_graph
from planner.sharding.graph import Graph
from planner.sharding.options import SolveOptions, read_options
from planner.sharding.training import ShardingTraining

KIND = "sharding"


@dataclass(frozen=True, slots=True)
class Question:
    """Why not `strategy` for `operator`?"""

    operator: str
    strategy: str


@dataclass(frozen=True)
class ShardingSpec:
    """Everything that a worker needs to solve a request.

    `alphas` are the weights of communication, in the order asked for. `memory_limits` has one
    entry per stage, in bytes of one device (None = no limit). `pinned` and `forbidden` map
    operators to names of strategies.
    """

    graph: Graph
    devices: DeviceGroup
    training: ShardingTraining
    memory_limits: tuple[int | None, ...]
    alphas: tuple[float, ...]
    pareto: bool
    communication: Communication
    redundancy: Redundancy
    terms: Terms
    pinned: Mapping[str, str]
    forbidden: Mapping[str, tuple[str, ...]]
    questions: tuple[Question, ...]
    options: SolveOptions
    source: Mapping[str, Any] | None = None
    assumptions: tuple[Mapping[str, Any], ...] = ()

    @property
    def stages(self) -> int:
        """Pipeline stages that the layers are divided among."""
        return len(self.memory_limits)

    def to_document(self) -> dict[str, Any]:
        """The spec as JSON, from which `read_spec` makes it again."""
        return {
            **self._problem(),
            "kind": KIND,
            "options": self.options.to_document(),
            "source": None if self.source is None else dict(self.source),
            "assumptions": [dict(assumption) for assumption in self.assumptions],
        }

    def hash(self) -> str:
        """SHA-256 over what decides the answer; the engine is kept apart, since a request that
        names none may be answered by either's result."""
        options = self.options.to_document()
        del options["engine"]
        return canonical_hash({**self._identity(), "options": options})

    def problem_hash(self) -> str:
        """SHA-256 over what is to be solved, whatever the time limit, threads and the like."""
        return canonical_hash({**self._identity(), "exact": self.options.exact})

    def _identity(self) -> dict[str, Any]:
        """The problem as it is solved: what devices have is in `memory_limits`."""
        problem = self._problem()
        problem["devices"] = {**problem["devices"], "memory_bytes": None}
        return {**problem, "kind": KIND}

    def _problem(self) -> dict[str, Any]:
        return {
            "graph": graph_to_document(self.graph),
            "devices": group_to_document(self.devices),
            "training": asdict(self.training),
            "memory_limits": list(self.memory_limits),
            "alphas": list(self.alphas),
            "pareto": self.pareto,
            "communication": self.communication,
            "redundancy": self.redundancy,
            "terms": asdict(self.terms),
            "pinned": dict(self.pinned),
            "forbidden": {name: list(names) for name, names in self.forbidden.items()},
            "questions": [asdict(question) for question in self.questions],
        }


def read_spec(document: Mapping[str, Any]) -> ShardingSpec:
    """The spec that `ShardingSpec.to_document` wrote."""
    return ShardingSpec(
        graph=read_graph(document["graph"]),
        devices=read_group(document["devices"]),
        training=ShardingTraining(**document["training"]),
        memory_limits=tuple(document["memory_limits"]),
        alphas=tuple(document["alphas"]),
        pareto=document["pareto"],
        communication=document["communication"],
        redundancy=document["redundancy"],
        terms=Terms(**document["terms"]),
        pinned=document["pinned"],
        forbidden={name: tuple(names) for name, names in document["forbidden"].items()},
        questions=tuple(Question(**question) for question in document["questions"]),
        options=read_options(document["options"]),
        source=document["source"],
        assumptions=tuple(document["assumptions"]),
    )
