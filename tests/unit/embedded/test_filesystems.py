"""Data directories on network file systems are told from a mount table."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.errors import StartError
from embedded.filesystems import NETWORK_FILE_SYSTEMS, is_network, mount_of, refuse_network

TABLE = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:31 / /home/local rw - xfs /dev/vdb rw
32 22 0:32 / /scratch\040space rw - lustre mds@tcp:/scratch rw
33 22 0:33 / /mnt/remote rw - fuse.sshfs user@host: rw
34 22 0:34 / /stacked rw - nfs server:/a rw
35 34 0:35 / /stacked rw - tmpfs tmpfs rw
36 22 0:36 / /home2 rw - btrfs /dev/vdc rw
broken line
"""

NETWORK_FUSE_KINDS = ["fuse.sshfs", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.s3fs", "fuse.gpfs"]
LOCAL_KINDS = ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "9p", "virtiofs", "unknown"]
LOCAL_KINDS += ["fuseblk", "fuse.fuse-overlayfs"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib", ("/", "ext4")),
        ("/home", ("/home", "nfs4")),
        ("/home/me/data", ("/home", "nfs4")),
        ("/home/local/data", ("/home/local", "xfs")),
        ("/home2/data", ("/home2", "btrfs")),
        ("/scratch space/run", ("/scratch space", "lustre")),
        ("/mnt/remote/x", ("/mnt/remote", "fuse.sshfs")),
        ("/stacked/x", ("/stacked", "tmpfs")),
    ],
)
def test_longest_mount_point_counts(path: str, expected: tuple[str, str]) -> None:
    assert mount_of(Path(path), TABLE) == expected


def test_empty_table_refuses_nothing() -> None:
    assert mount_of(Path("/data"), "") == ("/", "unknown")
    refuse_network(Path("/data"), "")


@pytest.mark.parametrize("kind", [*sorted(NETWORK_FILE_SYSTEMS), *NETWORK_FUSE_KINDS])
def test_network_kinds(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", LOCAL_KINDS)
def test_local_kinds(kind: str) -> None:
    assert not is_network(kind)


def test_refusal_is_one_line_with_a_way_out() -> None:
    with pytest.raises(StartError) as caught:
        refuse_network(Path("/home/me/data"), TABLE)
    message = str(caught.value)
    assert "\n" not in message
    assert "nfs4 at /home" in message
    assert "--data-dir" in message


def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    table = f"22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:3 / {tmp_path}/net rw - nfs s:/ rw\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "net")
    with pytest.raises(StartError):
        refuse_network(tmp_path / "link", table)
