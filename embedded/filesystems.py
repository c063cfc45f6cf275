"""Which file system a directory lies on, so that SQLite is not put where its locks do not hold.

SQLite's write-ahead log needs shared memory and byte-range locks that network file systems do
not give reliably between machines (SQLite documentation, "Write-Ahead Logging").
"""

from __future__ import annotations

import re
from pathlib import Path

from embedded.errors import StartError

MOUNT_TABLE = Path("/proc/self/mountinfo")

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb3",
        "smbfs",
        "wekafs",
    }
)
NETWORK_FUSE = (
    "ceph",
    "gcsfuse",
    "gluster",
    "goofys",
    "juicefs",
    "rclone",
    "s3fs",
    "sshfs",
)


def mount_of(path: Path, table: str) -> tuple[str, str]:
    """(mount point, file system type) of an absolute, resolved path.

    `table` has the format of /proc/self/mountinfo (proc(5)). The longest mount point above the
    path counts, and of several on one point the last, which hides the others.
    """
    best = ("/", "unknown")
    for line in table.splitlines():
        mount, separator, rest = line.partition(" - ")
        fields = mount.split()
        if not separator or len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, rest.split()[0])
    return best


def is_network(file_system: str) -> bool:
    """Whether a file system type of the mount table is shared between machines."""
    kind = file_system.lower()
    if kind.startswith("fuse."):
        name = kind.removeprefix("fuse.")
        return name in NETWORK_FILE_SYSTEMS or any(known in name for known in NETWORK_FUSE)
    return kind in NETWORK_FILE_SYSTEMS


def refuse_network(path: Path, table: str | None = None) -> None:
    """Raise `StartError` if `path` lies on a network file system."""
    if table is None:
        table = MOUNT_TABLE.read_text(errors="surrogateescape") if MOUNT_TABLE.exists() else ""
    point, kind = mount_of(path.resolve(), table)
    if is_network(kind):
        raise StartError(
            f"data directory {path} lies on a network file system ({kind} at {point}), where "
            "SQLite can lose data; give --data-dir a directory on a local disk, or set "
            "LOADMASTER_DATABASE_URL to a postgresql:// address and --data-dir to a local directory"
        )
