"""The optimisation problem that the graph comes down to: strategies, their costs, and edges.

This is the format in which an answer can be checked without knowing anything about operators:
choose one strategy per operator so that the sum of redundant bytes plus `alpha` times the bytes
communicated (the strategies' own and those of resharding) is least and the devices' memory
suffices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

PlanStatus = Literal["optimal", "feasible"]


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """One way to split one operator, in whole bytes.

    `redundant_bytes` as the paper counts them, `communication_bytes` sent by one device in the
    strategy's own collectives, `memory_bytes` held by one device.
    """

    name: str
    redundant_bytes: int
    communication_bytes: int
    memory_bytes: int

    def cost(self, alpha: float) -> float:
        """What choosing it adds to the objective."""
        return self.redundant_bytes + alpha * self.communication_bytes


@dataclass(frozen=True, slots=True)
class OperatorChoice:
    """An operator and all its strategies, at least one."""

    name: str
    strategies: tuple[StrategyCost, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor on its way: `resharding_bytes[i][j]` from strategy i of operator `source` to
    strategy j of operator `target`. The two operators differ."""

    source: int
    target: int
    resharding_bytes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """The whole problem. `device_memory_bytes` None = no limit."""

    operators: tuple[OperatorChoice, ...]
    edges: tuple[Edge, ...]
    alpha: float
    device_memory_bytes: int | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON, in the format that outside checkers read."""
        return {
            "operators": [
                {
                    "name": operator.name,
                    "strategies": [
                        {
                            "name": strategy.name,
                            "redundant_bytes": strategy.redundant_bytes,
                            "communication_bytes": strategy.communication_bytes,
                            "memory_bytes": strategy.memory_bytes,
                        }
                        for strategy in operator.strategies
                    ],
                }
                for operator in self.operators
            ],
            "edges": [
                {
                    "from": edge.source,
                    "to": edge.target,
                    "resharding_bytes": [list(row) for row in edge.resharding_bytes],
                }
                for edge in self.edges
            ],
            "alpha": self.alpha,
            "device_memory_bytes": self.device_memory_bytes,
        }


@dataclass(frozen=True, slots=True)
class Totals:
    """What a choice of strategies adds up to."""

    redundant_bytes: int
    communication_bytes: int
    resharding_bytes: int
    memory_bytes: int

    def objective(self, alpha: float) -> float:
        """Redundancy plus alpha times everything that is sent."""
        return self.redundant_bytes + alpha * (self.communication_bytes + self.resharding_bytes)


def totals(instance: Instance, choice: Sequence[int]) -> Totals:
    """Sum up the choice of one strategy number per operator."""
    chosen = [
        operator.strategies[number]
        for operator, number in zip(instance.operators, choice, strict=True)
    ]
    return Totals(
        redundant_bytes=sum(strategy.redundant_bytes for strategy in chosen),
        communication_bytes=sum(strategy.communication_bytes for strategy in chosen),
        resharding_bytes=sum(
            edge.resharding_bytes[choice[edge.source]][choice[edge.target]]
            for edge in instance.edges
        ),
        memory_bytes=sum(strategy.memory_bytes for strategy in chosen),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice of one strategy number per operator; `lower_bound` proven, of the objective."""

    choice: tuple[int, ...]
    objective: float
    memory_bytes: int
    status: PlanStatus
    lower_bound: float | None

    def to_document(self) -> dict[str, Any]:
        """As JSON, in the format that outside checkers read."""
        return {
            "choice": list(self.choice),
            "objective": self.objective,
            "memory_bytes": self.memory_bytes,
            "status": self.status,
            "lower_bound": self.lower_bound,
        }


def read_instance(document: Mapping[str, Any]) -> Instance:
    """The instance that `Instance.to_document` wrote."""
    return Instance(
        operators=tuple(
            OperatorChoice(
                operator["name"],
                tuple(StrategyCost(**strategy) for strategy in operator["strategies"]),
            )
            for operator in document["operators"]
        ),
        edges=tuple(
            Edge(
                edge["from"],
                edge["to"],
                tuple(tuple(row) for row in edge["resharding_bytes"]),
            )
            for edge in document["edges"]
        ),
        alpha=document["alpha"],
        device_memory_bytes=document["device_memory_bytes"],
    )
