"""What a format is: a part of an answer, written as a file that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """Where a part of an answer comes from, for formats that have to say more than it does.

    `request` is the body that was posted for the job, None where it was not kept, and `service`
    the address of the service that has the job, None where there is none.
    """

    kind: str
    answer: Document
    request: Document | None = None
    job_id: str = ""
    service: str | None = None


def no_hindrance(_part: Document, _source: Source) -> None:
    """Of formats that can carry every plan."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way to write answers.

    `part` is what of an answer is written, None where it lacks that. `hindrance` says why that
    part cannot be written all the same, and what to do instead; None where it can. Names are for
    addresses and file names: small letters, digits and dashes. `written_for` is the program, with
    its version, whose names the file uses.
    """

    name: str
    title: str
    media_type: str
    extension: str
    carries: str
    leaves_out: str
    written_for: str | None = None
    part: Callable[[Document], Document | None]
    hindrance: Callable[[Document, Source], str | None] = no_hindrance
    write: Callable[[Document, Source], str]
