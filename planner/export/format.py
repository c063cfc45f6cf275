"""What a format is: a part of an answer, written as a file that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from planner.errors import CannotExport

Document = Mapping[str, Any]
T = TypeVar("T")


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
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, what: str, make: Callable[[], T]) -> T:
        """What `make` returns, worked out once however many formats ask for it."""
        if what not in self._known:
            self._known[what] = make()
        known: T = self._known[what]
        return known


def no_hindrance(_part: Document, _source: Source) -> None:
    """Of formats that can carry every plan."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way to write answers.

    `part` is what of an answer is written, None where it lacks that. `hindrance` says why that
    part cannot be written all the same, and what to do instead; None where it can. A format
    without one is tried: its `write` raises `CannotExport` with the reason. Names are for addresses
    and file names: small letters, digits and dashes. `written_for` is the program, with its
    version, whose names the file uses; `has_address` whether the file has the service's address.
    """

    name: str
    title: str
    media_type: str
    extension: str
    carries: str
    leaves_out: str
    written_for: str | None = None
    has_address: bool = False
    part: Callable[[Document], Document | None]
    hindrance: Callable[[Document, Source], str | None] | None = no_hindrance
    write: Callable[[Document, Source], str]

    def why_not(self, part: Document, source: Source) -> str | None:
        """Why the part cannot be written, and what to do instead; None where it can."""
        if self.hindrance is not None:
            return self.hindrance(part, source)
        return self._tried(part, source)[1]

    def file(self, part: Document, source: Source) -> str:
        """The part, which `why_not` has nothing against, as a file."""
        if self.hindrance is not None:
            return self.write(part, source)
        text, reason = self._tried(part, source)
        if text is None:
            raise CannotExport(reason)
        return text

    def _tried(self, part: Document, source: Source) -> tuple[str | None, str | None]:
        """The file, or why there is none."""

        def attempt() -> tuple[str | None, str | None]:
            try:
                return self.write(part, source), None
            except CannotExport as reason:
                return None, str(reason)

        return source.once(f"file {self.name}", attempt)
