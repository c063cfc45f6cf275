"""What this service accepts at most; checked before and after a request is resolved."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from app.errors import LimitExceeded
from app.services.resolutions import Resolved
from app.settings import Settings
from planner.cost.hardware import read_cluster

ResolvedT = TypeVar("ResolvedT", contravariant=True)
Paths = tuple[tuple[str, ...], ...]


class Limits(Protocol[ResolvedT]):
    """The limits of one kind of request. Both checks raise `LimitExceeded`."""

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Refuse what would already be too large to resolve.

        Ill-typed fields are left to resolving.
        """

    def check_resolved(self, resolved: ResolvedT) -> None:
        """Refuse a resolved request that is too large or may take too long."""


class ResolvedPipeline(Resolved, Protocol):
    """A resolved request for a pipeline schedule."""

    @property
    def stages(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...


class ResolvedSharding(Resolved, Protocol):
    """A resolved request for a sharding plan; its `operations` are the graph's operators."""

    @property
    def devices(self) -> int: ...


class ResolvedTraining(Resolved, Protocol):
    """A resolved request for a training plan."""

    @property
    def gpus(self) -> int: ...


class PipelineLimits:
    """Stages, micro-batches, operations and time of a pipeline schedule."""

    # Where a raw body says how large a problem is; a problem's lists are counted.
    _MICRO_BATCHES = (("problem", "micro_batches"), ("training", "micro_batches"))
    _STAGES = (("problem", "stages"), ("problem", "devices"), ("training", "pipeline_parallel"))

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Count micro-batches, stages and devices where the body names them."""
        for path in self._MICRO_BATCHES:
            _check(path, _size(body, path), self._settings.max_micro_batches, "micro-batches")
        for path in self._STAGES:
            unit = path[-1].replace("_", " ")
            _check(path, _size(body, path), self._settings.max_stages, unit)

    def check_resolved(self, resolved: ResolvedPipeline) -> None:
        """Count them and the operations in the resolved problem."""
        limits = self._settings
        _check(("problem", "stages"), resolved.stages, limits.max_stages, "stages")
        _check(
            ("problem", "micro_batches"),
            resolved.micro_batches,
            limits.max_micro_batches,
            "micro-batches",
        )
        _check(
            ("problem",),
            resolved.operations,
            limits.max_operations,
            "operations (3 x stages x micro-batches)",
        )
        if resolved.is_reproducible and resolved.time_limit_s > limits.max_time_limit_s:
            raise LimitExceeded.of(
                "solver.search_iterations",
                f"may take {resolved.time_limit_s:g} seconds, and a solve here may take "
                f"{limits.max_time_limit_s:g}.",
                "Give `time_limit_s` instead.",
            )
        _check_time_limit(resolved, limits)


class ShardingLimits:
    """Operators, devices and time of a sharding plan."""

    # Each layer of a transformer has at least one operator.
    _OPERATORS: Paths = (("graph", "operators"), ("transformer", "layers"))
    _DEVICES: Paths = (("devices",), ("devices", "count"))

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Count operators and devices where the body names them."""
        for path in self._OPERATORS:
            _check(path, _size(body, path), self._settings.max_operators, path[-1])
        for path in self._DEVICES:
            _check(path, _size(body, path), self._settings.max_devices, "devices")

    def check_resolved(self, resolved: ResolvedSharding) -> None:
        """Count the operators of the resolved graph, and the devices of the cluster."""
        limits = self._settings
        _check(("devices",), resolved.devices, limits.max_devices, "devices")
        _check(("graph",), resolved.operations, limits.max_operators, "operators")
        _check_time_limit(resolved, limits)


class TrainingLimits:
    """Stages, GPUs and time of a training plan."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Count the stages where the body names them."""
        _check_stages(body, self._settings)

    def check_resolved(self, resolved: ResolvedTraining) -> None:
        """Count the GPUs of the cluster."""
        _check(("cluster",), resolved.gpus, self._settings.max_gpus, "GPUs")
        _check_time_limit(resolved, self._settings)


class EstimateLimits:
    """Stages, micro-batches and GPUs of an estimate, all of them told by its body."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check_body(self, body: Mapping[str, Any]) -> None:
        """Count them; raises `LimitExceeded`, and `SpecError` for what is no cluster."""
        limits, path = self._settings, ("training", "micro_batches")
        _check_stages(body, limits)
        _check(path, _size(body, path), limits.max_micro_batches, "micro-batches")
        cluster = body.get("cluster")
        if cluster is not None:
            _check(("cluster",), read_cluster(cluster).gpus, limits.max_gpus, "GPUs")


def _check_stages(body: Mapping[str, Any], settings: Settings) -> None:
    path = ("training", "pipeline_parallel")
    _check(path, _size(body, path), settings.max_stages, "pipeline parallel")


def _size(body: Mapping[str, Any], path: tuple[str, ...]) -> float:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, (int, float)) else 0


def _check_time_limit(resolved: Resolved, settings: Settings) -> None:
    _check(("solver", "time_limit_s"), resolved.time_limit_s, settings.max_time_limit_s, "seconds")


def _check(path: tuple[str, ...], value: float, limit: float, unit: str) -> None:
    if value > limit:
        raise LimitExceeded.of(
            ".".join(path),
            # A whole number may be beyond what can be written as a float.
            f"{min(value, sys.float_info.max):g} {unit} are too many.",
            f"Give at most {limit:g}.",
        )
