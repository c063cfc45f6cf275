"""How much memory there is, and how much a process and all that it started hold (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from planner.cores import own_group

KIB = 1024
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def usable_bytes(root: Path = Path("/")) -> int | None:
    """The smaller of the machine's memory and the control group's limit; None if neither is known.

    `root` is where `proc` and `sys` are looked for.
    """
    known = [_machine_bytes(root), *_group_limits_v2(root), *_group_limits_v1(root)]
    return min((limit for limit in known if limit is not None), default=None)


def held_bytes(pid: int, at_most: int) -> int:
    """What a process and its descendants hold.

    Resident memory, and where that sum exceeds `at_most`, as what is shared counts in each, the
    proportional share of each process, which takes longer to find out.
    """
    family = _family(pid)
    resident = sum(map(_resident_bytes, family))
    return resident if resident <= at_most else sum(map(_proportional_bytes, family))


def _family(pid: int) -> list[int]:
    family = [pid]
    for member in family:
        for task in _read(Path(f"/proc/{member}/task")):
            family += map(int, _text(Path(f"/proc/{member}/task/{task}/children")).split())
    return family


def _read(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _resident_bytes(pid: int) -> int:
    fields = _text(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * PAGE_BYTES if fields else 0


def _proportional_bytes(pid: int) -> int:
    for line in _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KIB
    return _resident_bytes(pid)


def _machine_bytes(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * KIB
    return None


def _group_limits_v2(root: Path) -> list[int]:
    """`memory.max` from this process's group up to the top (cgroup v2)."""
    group = own_group(root, controller="")
    if group is None:
        return []
    top = root / "sys/fs/cgroup"
    folder = top / group.lstrip("/")
    levels = [level for level in (folder, *folder.parents) if level.is_relative_to(top)]
    return _numbers(level / "memory.max" for level in levels)


def _group_limits_v1(root: Path) -> list[int]:
    """`memory.limit_in_bytes` of this process's group (cgroup v1)."""
    group = own_group(root, controller="memory")
    if group is None:
        return []
    top = root / "sys/fs/cgroup/memory"
    return _numbers(folder / "memory.limit_in_bytes" for folder in (top / group.lstrip("/"), top))


def _numbers(paths: Iterable[Path]) -> list[int]:
    """Of the files that hold one; the word `max` means no limit."""
    texts = [_text(path).strip() for path in paths]
    return [int(text) for text in texts if text.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
