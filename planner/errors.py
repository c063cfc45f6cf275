"""What the planner raises when it is given something it cannot plan."""

from __future__ import annotations


class PlannerError(Exception):
    """Base of every error the planner raises on purpose."""


class SpecError(PlannerError):
    """A request or problem is malformed.

    `path` names the field (``("problem", "stages", 3, "forward_ns")``), `message` says what is
    wrong with it and `remedy` what would be accepted instead.
    """

    def __init__(self, path: tuple[str | int, ...], message: str, remedy: str) -> None:
        self.path = path
        self.message = message
        self.remedy = remedy
        where = ".".join(str(part) for part in path)
        super().__init__(f"{where}: {message} {remedy}")


class OrderError(PlannerError):
    """The given order of operations cannot be executed: it deadlocks or runs out of memory."""


class Undecided(OrderError):
    """An exact search was given up after a bounded number of steps."""


class Refuted(PlannerError):
    """No schedule satisfies what was assumed: nobody but who looks for this may catch it, since it
    is taken for a proof."""


class Interrupted(OrderError):
    """A schedule was not finished because the solve was told to stop or its time is up."""


class CannotExport(PlannerError):
    """An answer cannot be written in a format; the message says why and what can be had."""


class WrongSchedule(CannotExport):
    """A schedule that would run wrongly or not at all.

    `rank` and `cell` say where (None where it is about no single one), `remedy` what to change.
    """

    def __init__(self, rank: int | None, cell: str | None, message: str, remedy: str) -> None:
        self.rank = rank
        self.cell = cell
        self.message = message
        self.remedy = remedy
        where = "" if rank is None else f"rank {rank}"
        if cell is not None:
            where = f"{where}, cell {cell!r}" if where else f"cell {cell!r}"
        super().__init__(f"{where}: {message} {remedy}" if where else f"{message} {remedy}")


class SolverCrash(PlannerError):
    """A solver process ended without a usable answer. Carries its last log lines."""

    def __init__(self, message: str, log_tail: list[str]) -> None:
        super().__init__(message)
        self.log_tail = log_tail
