"""What the service keeps of a resolved request, and the memory of the last ones."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.database import milliseconds
from app.services.starts import Sought

MEMORY_BYTES = 32 * 2**20
"""Of each kind of plan: about as much text of resolved requests is remembered."""


class Resolved(Sought, Protocol):
    """A request as the planner resolved it."""

    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def spec_hash(self) -> str: ...
    @property
    def mip_gap(self) -> float: ...
    @property
    def is_reproducible(self) -> bool: ...
    @property
    def engine(self) -> str: ...
    @property
    def engine_named(self) -> bool: ...
    @property
    def time_limit_s(self) -> float: ...
    @property
    def operations(self) -> int: ...
    def preview(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Resolution:
    """What decides which solve answers a request, and the columns of one that is made for it."""

    spec_hash: str
    problem_hash: str
    shape_hash: str | None
    profile: dict[str, Any] | None
    engine: str
    engine_named: bool
    mip_gap: float
    is_reproducible: bool
    time_limit_s: float
    operations: int
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, resolved: Resolved) -> Resolution:
        """Everything that has to be computed of it, once."""
        spec, profile = resolved.spec, resolved.profile
        return cls(
            spec_hash=resolved.spec_hash,
            problem_hash=resolved.problem_hash,
            shape_hash=resolved.shape_hash,
            profile=profile,
            engine=resolved.engine,
            engine_named=resolved.engine_named,
            mip_gap=resolved.mip_gap,
            is_reproducible=resolved.is_reproducible,
            time_limit_s=resolved.time_limit_s,
            operations=resolved.operations,
            columns={
                "kind": spec["kind"],
                "spec_hash": resolved.spec_hash,
                "problem_hash": resolved.problem_hash,
                "shape_hash": resolved.shape_hash,
                "profile": None if profile is None else json_text(profile),
                "engine": resolved.engine,
                "spec": json_text(spec),
                "operations": resolved.operations,
                "time_limit_ms": milliseconds(resolved.time_limit_s),
            },
        )

    @property
    def bytes(self) -> int:
        """About how large it is."""
        return len(self.columns["spec"]) + 2 * len(self.columns["profile"] or "")


class Resolutions:
    """The last requests that were resolved, by their text: resolving depends on nothing else, and
    takes several times as long as answering from a stored result."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._known: OrderedDict[bytes, Resolution] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Resolution | None:
        """What this request was resolved to."""
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: bytes, resolution: Resolution) -> None:
        """Remember it, and forget what was not asked for longest."""
        with self._lock:
            if key in self._known:
                return
            self._known[key] = resolution
            self._bytes += resolution.bytes
            while self._bytes > self._memory_bytes:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= oldest.bytes


def key_of(text: str) -> bytes:
    """Of a body's JSON text: equal for the same fields in the same order and the same values."""
    return hashlib.sha256(text.encode()).digest()


def json_text(document: Mapping[str, Any]) -> str:
    """The document as JSON without blanks."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
