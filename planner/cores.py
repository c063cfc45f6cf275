"""How many cores this process may use, and how many threads a solve: CPU affinity, the control
group's quota, and what the process was told."""

from __future__ import annotations

import os
from pathlib import Path

_told: int | None = None


def limit_threads(threads: int) -> None:
    """From now on no solve in this process may use more threads than these."""
    global _told
    _told = threads


def allowed_threads(wanted: int) -> int:
    """As many of the threads that a request wants as this process may use, at least 1."""
    allowed = len(os.sched_getaffinity(0)) if _told is None else _told
    return max(1, min(wanted, allowed))


def usable_cores(root: Path = Path("/")) -> int:
    """The smaller of affinity and quota, at least 1; the quota is rounded down.

    `root` is where `proc` and `sys` are looked for.
    """
    cores = len(os.sched_getaffinity(0))
    quota = _quota_v2(root)
    if quota is None:
        quota = _quota_v1(root)
    if quota is not None:
        cores = min(cores, int(quota))
    return max(1, cores)


def _quota_v2(root: Path) -> float | None:
    """The smallest `cpu.max` from this process's group up to the top (cgroup v2)."""
    group = own_group(root, controller="")
    if group is None:
        return None
    top = root / "sys/fs/cgroup"
    folder = top / group.lstrip("/")
    if not folder.is_relative_to(top):
        folder = top
    quotas = []
    for level in (folder, *folder.parents):
        words = _read(level / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
        if level == top:
            break
    return min(quotas, default=None)


def _quota_v1(root: Path) -> float | None:
    """`cpu.cfs_quota_us` over `cpu.cfs_period_us` of this process's group (cgroup v1)."""
    group = own_group(root, controller="cpu")
    if group is None:
        return None
    for folder in (
        root / "sys/fs/cgroup/cpu" / group.lstrip("/"),
        root / "sys/fs/cgroup/cpu",
    ):
        quota = _read(folder / "cpu.cfs_quota_us").strip()
        period = _read(folder / "cpu.cfs_period_us").strip()
        if quota and period:
            return int(quota) / int(period) if int(quota) > 0 else None
    return None


def own_group(root: Path, controller: str) -> str | None:
    """The path of this process's control group for a controller; "" = cgroup v2."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and ".." not in path:
            return path
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
