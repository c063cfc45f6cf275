"""What each solve of a worker may use, so that all of them fit into its cores and memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from planner.cores import usable_cores
from workers.memory import usable_bytes

MEMORY_SHARE = 0.9
"""Of the worker's memory, for its solves together."""


@dataclass(frozen=True)
class Capacity:
    """`concurrency` solves at once, each with so many threads and bytes (None = any number)."""

    concurrency: int
    threads: int
    memory_bytes: int | None


def default_concurrency(settings: Settings) -> int:
    """As many solves at once as have their threads to themselves."""
    return max(1, usable_cores() // settings.solver_threads)


def capacity(settings: Settings, concurrency: int, root: Path = Path("/")) -> Capacity:
    """At most one solve per core, and no more threads than cores."""
    cores = usable_cores(root)
    concurrency = max(1, min(concurrency, cores))
    threads = min(settings.solver_threads, cores // concurrency)
    return Capacity(concurrency, threads, _memory_bytes(settings, concurrency, root))


def _memory_bytes(settings: Settings, concurrency: int, root: Path) -> int | None:
    if settings.solver_memory_bytes is not None:
        return settings.solver_memory_bytes or None
    memory = usable_bytes(root)
    return None if memory is None else int(memory * MEMORY_SHARE / concurrency)
