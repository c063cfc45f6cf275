"""What a format is: a part of an answer, written as a file that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """A way to write answers. `part` is what of an answer is written, None where it lacks that.

    Names are for addresses and file names: small letters, digits and dashes.
    """

    name: str
    title: str
    media_type: str
    extension: str
    part: Callable[[Document], Document | None]
    write: Callable[[Document], str]
