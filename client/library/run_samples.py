"""What a trainer has measured and nobody has been told yet: a bounded queue of iterations."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

Sample = dict[str, Any]
"""One iteration as the service takes it."""
LARGEST_WHOLE = 2**53 - 1
_SIGNED, _WHOLE = "_delta_bytes", ("stage", "_ns", "_bytes")


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
) -> tuple[Sample, list[str]]:
    """The document of one iteration, and what had to be left out of it, in words.

    The mappings are copied, since trainers reuse theirs. Values that no clock and no allocator
    gives (NaN, texts, times below 0) are left out, stages of which nothing else is known too, and
    all of them where the number of the iteration is none.
    """
    wrong: list[str] = []
    if not _is_whole(iteration):
        return {"stages": []}, [f"iteration {iteration!r:.40}"]
    own = [kept for stage in stages if (kept := _stage(stage, wrong)) is not None]
    sample: Sample = {"iteration": iteration, "stages": own}
    for name, value in (("iteration_ns", iteration_ns), ("plan_version", plan_version)):
        if value is None:
            continue
        if _is_whole(value):
            sample[name] = value
        else:
            wrong.append(f"{name} {value!r:.40}")
    return sample, wrong


def _stage(stage: Mapping[str, Any], wrong: list[str]) -> Sample | None:
    """What is right of a stage; None where nothing of it is that was measured."""
    known = {name: value for name, value in stage.items() if _is_right(name, value)}
    if len(known) == len(stage):
        return known
    wrong += [f"{name} {value!r:.40}" for name, value in stage.items() if name not in known]
    return known if "stage" in known and len(known) > 1 else None


def _is_right(name: Any, value: Any) -> bool:
    if not isinstance(name, str):
        return False
    if isinstance(value, Mapping):
        return all(own is None or _is_whole(own) for own in value.values())
    if value is None or name.endswith(_SIGNED):
        return value is None or _is_whole(value, LARGEST_WHOLE)
    if name.endswith(_WHOLE):
        return _is_whole(value)
    return _is_number(value) and value >= 0


def _is_whole(value: Any, below: int = 0) -> bool:
    """Whether it is a whole number of at least -`below`."""
    return _is_number(value) and -below <= value <= LARGEST_WHOLE and value == int(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isfinite(value)
