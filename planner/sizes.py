"""Sizes in words, for texts that people read; machines get whole bytes beside them."""

from __future__ import annotations

KIB, MIB, GIB = 2**10, 2**20, 2**30


def gib(size_bytes: float) -> str:
    """A size in GiB with two decimals; what that would show as next to nothing in MiB, KiB or
    whole bytes."""
    for unit, unit_bytes in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size_bytes) >= unit_bytes / 10:
            return f"{size_bytes / unit_bytes:,.2f} {unit}"
    return "1 byte" if size_bytes == 1 else f"{size_bytes:g} bytes"
