"""What a worker's solves may use together fits into its cores and memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.settings import Settings
from workers.capacity import Capacity, capacity, default_concurrency

GIB = 1 << 30


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def machine(root: Path, **files: str) -> Path:
    """A machine with 16 GiB, and more files."""
    for path, content in {"proc/meminfo": "MemTotal: 16777216 kB\n", **files}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


@pytest.mark.parametrize(
    ("concurrency", "threads", "most"),
    [(4, 2, (4, 2)), (8, 2, (8, 1)), (3, 4, (3, 2)), (1, 64, (1, 8)), (99, 2, (8, 1))],
)
def test_threads_never_exceed_the_cores(
    tmp_path: Path, concurrency: int, threads: int, most: tuple[int, int]
) -> None:
    found = capacity(Settings(solver_threads=threads), concurrency, machine(tmp_path))
    assert (found.concurrency, found.threads) == most
    assert found.concurrency * found.threads <= 8


@pytest.mark.parametrize(("threads", "concurrency"), [(1, 8), (2, 4), (3, 2), (16, 1)])
def test_by_default_each_solve_has_its_threads_to_itself(threads: int, concurrency: int) -> None:
    assert default_concurrency(Settings(solver_threads=threads)) == concurrency


def test_memory_is_shared_by_the_solves(tmp_path: Path) -> None:
    assert capacity(Settings(), 4, machine(tmp_path)) == Capacity(4, 2, int(16 * GIB * 0.9 / 4))


def test_a_control_group_has_less_memory_than_the_machine(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        **{
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
        },
    )
    assert capacity(Settings(), 1, root).memory_bytes == int(4 * GIB * 0.9)


def test_the_limit_of_an_older_control_group(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        **{
            "proc/self/cgroup": "5:memory:/a\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert capacity(Settings(), 1, root).memory_bytes == int(2 * GIB * 0.9)


@pytest.mark.parametrize(("setting", "limit"), [(0, None), (5 * GIB, 5 * GIB)])
def test_the_operator_says_how_much_memory(tmp_path: Path, setting: int, limit: int | None) -> None:
    found = capacity(Settings(solver_memory_bytes=setting), 4, machine(tmp_path))
    assert found.memory_bytes == limit
