"""What the sharding benchmark keeps of answers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.sharding.baselines import checkpointing, least_communication


@dataclass(frozen=True)
class Held:
    """What a choice takes on one device; `throughput` relative to Megatron-LM's, None where that
    does not apply."""

    memory_bytes: int
    peak_bytes: int
    redundant_bytes: int
    sent_bytes: int
    throughput: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Held:
        """From a plan or a baseline of an answer."""
        return cls(
            row["memory_bytes"],
            row["predicted_peak_bytes"],
            row["redundant_bytes"],
            row["communication_bytes"] + row["resharding_bytes"],
            row["relative_throughput"],
        )


@dataclass(frozen=True)
class MemoryRow:
    """A model with a weight of communication: the plan, each baseline by a short name, and what no
    plan can keep less than."""

    model: str
    alpha: float
    plan: Held
    baselines: Mapping[str, Held]
    least_bytes: int

    @classmethod
    def of(cls, model: str, alpha: float, answer: Mapping[str, Any]) -> MemoryRow:
        """From an answer."""
        applicable = [row for row in answer["baselines"] if row["applicable"]]
        baselines = {_short(row["name"]): Held.of(row) for row in applicable}
        least_bytes = sum(
            min(strategy["memory_bytes"] for strategy in operator["strategies"])
            for operator in answer["instance"]["operators"]
        )
        return cls(model, alpha, Held.of(answer["plan"]), baselines, least_bytes)

    @property
    def megatron(self) -> Held:
        """What everything is compared with."""
        return self.baselines["Megatron-LM"]

    @property
    def memory_ratio(self) -> float:
        """Ours over Megatron-LM's."""
        return self.plan.memory_bytes / self.megatron.memory_bytes

    @property
    def least_ratio(self) -> float:
        """What no plan can go below, over Megatron-LM's."""
        return self.least_bytes / self.megatron.memory_bytes


@dataclass(frozen=True)
class TimesRow:
    """Solves of one size with one engine and setting, in seconds; `size` as the provenance has
    it."""

    layers: int
    devices: int
    engine: str
    reductions: bool
    seconds: Sequence[float]
    size: Mapping[str, int]

    @classmethod
    def of(
        cls,
        layers: int,
        devices: int,
        engine: str,
        reductions: bool,
        answers: Sequence[Mapping[str, Any]],
    ) -> TimesRow:
        """From the answers of the same request."""
        seconds = sorted(answer["provenance"]["solve_seconds"] for answer in answers)
        size = answers[0]["provenance"]["model"][0]
        return cls(layers, devices, engine, reductions, seconds, size)

    @property
    def median_s(self) -> float:
        """Of all solves."""
        return statistics.median(self.seconds)


def _short(name: str) -> str:
    """A baseline without what it is in this case."""
    known = {least_communication.NAME: "Alpa", checkpointing.NAME: "Colossal-Auto"}
    return known.get(name, name.partition(" (")[0])
