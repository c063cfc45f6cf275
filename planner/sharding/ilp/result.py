"""What solving an instance came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.sharding.instance import Plan

IlpStatus = Literal["optimal", "feasible", "infeasible", "no_plan"]
End = Literal["proven", "compared", "gap", "time_limit", "stopped"]


@dataclass(frozen=True, slots=True)
class IlpResult:
    """What a solve came to.

    `optimal`: `plan` is proven to be best; `feasible`: there is a plan, perhaps not the best;
    `infeasible`: proven that none keeps the limits; `no_plan`: none was found in time.
    `lower_bound` holds for the objective of every plan within the limits; None if infeasible.
    `ended_by` says why the solve did not go on; `compared` that there was no ILP, since so many
    plans (else 0) are all there are. `columns` and `rows` are the model's, `rounds` how often an
    engine ran. Seconds of wall clock: `formulate_s` for arrays, quick plan and rows, `engine_s` for
    the engines, building and writing the python-mip model included.
    """

    plan: Plan | None
    status: IlpStatus
    lower_bound: float | None
    ended_by: End
    columns: int
    rows: int
    rounds: int
    formulate_s: float
    engine_s: float
    log_tail: list[str]
    compared: int = 0

    @property
    def method(self) -> Literal["ILP", "comparison"]:
        """What plan and bound come from."""
        return "comparison" if self.compared else "ILP"
