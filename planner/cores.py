"""How many cores this process may use, and how many threads a solve: CPU affinity, the control
group's quota, and what the process was told."""

from __future__ import annotations

import os
from pathlib import Path

from planner.control_groups import VERSION_2, levels, text

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
    quotas = []
    for level in levels(root, VERSION_2):
        words = text(level / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _quota_v1(root: Path) -> float | None:
    """`cpu.cfs_quota_us` over `cpu.cfs_period_us` of this process's group (cgroup v1)."""
    for level in levels(root, "cpu"):
        quota = text(level / "cpu.cfs_quota_us").strip()
        period = text(level / "cpu.cfs_period_us").strip()
        if quota and period:
            return int(quota) / int(period) if int(quota) > 0 else None
    return None
