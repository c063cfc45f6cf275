"""What a trainer has measured and nobody has been told yet: a bounded queue of iterations."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

Sample = dict[str, Any]
"""One iteration as the service takes it."""


class Samples:
    """Iterations that wait to be sent; of more than `most` the oldest are dropped.

    The trainer adds and one thread takes: no call waits for another.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: deque[Sample] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, sample: Sample) -> None:
        """Queue one."""
        self._entries.append(sample)
        while len(self._entries) > self._most:
            self._drop_oldest()

    def take(self, most: int) -> list[Sample]:
        """The oldest ones, which are no longer queued."""
        taken: list[Sample] = []
        with contextlib.suppress(IndexError):
            while len(taken) < most:
                taken.append(self._entries.popleft())
        return taken

    def put_back(self, samples: list[Sample]) -> None:
        """Queue those again that were taken last, as far as there is room."""
        room = self._most - len(self._entries)
        if room > 0:
            self._entries.extendleft(reversed(samples[-room:]))

    def clear(self) -> None:
        """Drop all."""
        self._entries.clear()

    def _drop_oldest(self) -> None:
        # Somebody else may have taken it meanwhile.
        with contextlib.suppress(IndexError):
            self._entries.popleft()


def sample_of(
    iteration: int,
    stages: Iterable[Mapping[str, Any]],
    iteration_ns: int | None,
    plan_version: int | None,
) -> Sample:
    """The document of one iteration; the mappings are copied, since trainers reuse theirs."""
    sample: Sample = {"iteration": iteration, "stages": [dict(stage) for stage in stages]}
    if iteration_ns is not None:
        sample["iteration_ns"] = iteration_ns
    if plan_version is not None:
        sample["plan_version"] = plan_version
    return sample
