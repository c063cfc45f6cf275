"""The control groups that this process is in (Linux), and what their files say."""

from __future__ import annotations

from pathlib import Path

VERSION_2 = ""
"""In place of a controller's name: all controllers of version 2 have one hierarchy."""


def levels(root: Path, controller: str) -> list[Path]:
    """The folders of this process's group for a controller and of those above it, its own first.

    `root` is where `proc` and `sys` are looked for. In a container the own one may not be there.
    """
    group = _own_group(root, controller)
    if group is None:
        return []
    top = root / "sys/fs/cgroup" / controller
    folder = top / group.lstrip("/")
    return [level for level in (folder, *folder.parents) if level.is_relative_to(top)]


def text(path: Path) -> str:
    """What a file says; nothing if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _own_group(root: Path, controller: str) -> str | None:
    for line in text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and ".." not in path:
            return path
    return None
