"""What the two MILP engines have in common: what they are given and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from planner.cores import allowed_threads
from planner.milp.cbc_log import LogState

EngineName = Literal["cbc", "highs"]
Status = Literal["optimal", "time_limit", "stopped", "gap"]
RunStatus = Literal["optimal", "time_limit", "stopped", "gap", "infeasible"]


@dataclass(frozen=True)
class EngineLimits:
    """When an engine has to end. `time_limit_s` counts from the call."""

    time_limit_s: float
    mip_gap: float
    threads: int

    def threads_here(self) -> int:
        """`threads`, but no more than this process may use."""
        return allowed_threads(self.threads)


@dataclass(frozen=True)
class EngineRun:
    """Outcome of one run, in units of the model.

    `values` has one value per column, None if the run found no solution or had no time to write
    it. `bound` is None if nothing was proven, and has that many significant digits.
    """

    status: RunStatus
    values: list[float] | None
    bound: float | None
    bound_digits: int
    log_tail: list[str]


class Engine(Protocol):
    """Solves a written model in a child process.

    Raises `SolverCrash` if the child ends without a usable answer and was not told to.
    """

    def __call__(
        self,
        model_file: Path,
        start: list[float] | None,
        limits: EngineLimits,
        columns: int,
        on_line: Callable[[str, LogState], None],
        should_stop: Callable[[], bool],
    ) -> EngineRun: ...


def number_of_column(name: str) -> int | None:
    """Columns are named x0, x1, ... in the written model."""
    return int(name[1:]) if name.startswith("x") and name[1:].isdigit() else None
