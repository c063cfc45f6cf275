"""How much memory there is, and how much a process and all that it started hold (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from planner.control_groups import VERSION_2, levels, text

KIB = 1024
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def usable_bytes(root: Path = Path("/")) -> int | None:
    """The smaller of the machine's memory and the control group's limit; None if neither is known.

    `root` is where `proc` and `sys` are looked for.
    """
    known = [_machine_bytes(root), *_group_limits(root)]
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
        for task in _entries(Path(f"/proc/{member}/task")):
            family += map(int, text(Path(f"/proc/{member}/task/{task}/children")).split())
    return family


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _resident_bytes(pid: int) -> int:
    fields = text(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * PAGE_BYTES if fields else 0


def _proportional_bytes(pid: int) -> int:
    for line in text(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KIB
    return _resident_bytes(pid)


def _machine_bytes(root: Path) -> int | None:
    for line in text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * KIB
    return None


def _group_limits(root: Path) -> list[int]:
    """Of this process's group and those above it, whichever version of control groups there is."""
    return [
        *_numbers(level / "memory.max" for level in levels(root, VERSION_2)),
        *_numbers(level / "memory.limit_in_bytes" for level in levels(root, "memory")),
    ]


def _numbers(paths: Iterable[Path]) -> list[int]:
    """Of the files that hold one; the word `max` means no limit."""
    said = [text(path).strip() for path in paths]
    return [int(number) for number in said if number.isdigit()]
