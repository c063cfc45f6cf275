"""Stop checks that turn true after so many questions, and a clock that the test sets."""

from __future__ import annotations

from planner.progress import SilentReporter


class StopAfter:
    """Says to stop from question `count` + 1 on; `asked` counts the questions."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > self.count


class Clock:
    """Stands in for the module `time`: `now` is what `monotonic` answers, which each question
    moves on by `tick`."""

    def __init__(self, now: float = 0.0, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now


class Lines(SilentReporter):
    """Keeps the log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)
