"""What a keeper remembers of runs between two looks, so that it reads only what is new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from app.repositories.run_rows import RunRow
from planner.following.state import RunState
from planner.following.telemetry import Sample

MOST_SAMPLES = 100_000
"""Of all runs together; what was not looked at for longest is read again the next time."""
Samples = dict[tuple[int, int], Sample]


@dataclass(frozen=True)
class Remembered:
    """A run as of the look that wrote this revision after having seen these news."""

    revision: int
    looked: int
    state: RunState
    samples: Samples

    def is_of(self, row: RunRow, keeper: str) -> bool:
        """Whether nobody else has looked at the run or changed it since."""
        return (row.keeper, row.revision, row.looked) == (keeper, self.revision, self.looked)


class Memory:
    """The runs that were looked at last."""

    def __init__(self, most_samples: int = MOST_SAMPLES) -> None:
        self._most = most_samples
        self._known: OrderedDict[str, Remembered] = OrderedDict()
        self._samples = 0

    def get(self, row: RunRow, keeper: str) -> Remembered | None:
        """What is known of the run, if that still holds."""
        known = self._known.get(row.id)
        return known if known is not None and known.is_of(row, keeper) else None

    def put(self, run_id: str, remembered: Remembered) -> None:
        """Remember this instead of what was known."""
        self.forget(run_id)
        self._known[run_id] = remembered
        self._samples += len(remembered.samples)
        while self._samples > self._most and len(self._known) > 1:
            self.forget(next(iter(self._known)))

    def forget(self, run_id: str) -> None:
        """Read it again the next time."""
        known = self._known.pop(run_id, None)
        if known is not None:
            self._samples -= len(known.samples)


def window_of(
    known: Samples, rows: Iterable[tuple[int, int, str]], newest: int | None, window: int
) -> Samples:
    """The samples of the iterations up to the newest, with these rows of an iteration, a stage and
    what it measured. What is newer came while it was read, and belongs to the next look."""
    if newest is None:
        return {}
    first = newest - window + 1
    samples = {key: sample for key, sample in known.items() if sample.iteration >= first}
    for iteration, stage, measures in rows:
        if (iteration, stage) not in samples and first <= iteration <= newest:
            samples[iteration, stage] = Sample.from_text(iteration, stage, measures)
    return samples
