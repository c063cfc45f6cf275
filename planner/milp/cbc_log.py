"""Reading CBC's log: incumbent and bound while it runs, and how the run ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_FINAL_LINE = re.compile(rf"^(Objective value|Lower bound):\s+({NUMBER})\s*$")
_RESULT = re.compile(r"^Result - (.+?)\s*$")
_ROOT_STOPPED = re.compile(r"^(?:LP relaxation|Problem is) stopped")
_NODE = re.compile(
    rf"^\s*[*★]?\s*\d\S*\s+\d\S*\s+\d\S*\s+(?:(?P<best>{NUMBER})\s+)?(?:[^\d\s]\S*\s+)*"
    rf"(?P<bound>{NUMBER})\s+\S+\s+{NUMBER}\s*$"
)
PROVEN = "Optimal solution found"


@dataclass(frozen=True)
class LogState:
    """What a solver's log has said so far, in units of the model; None where nothing yet.

    `result` is the solver's own closing word, `proven` the objective of a run that claims to have
    proven its optimum, `in_table` whether the last line belonged to the
    table of branch and bound: other tables have rows of the same look.
    """

    best: float | None = None
    bound: float | None = None
    result: str | None = None
    proven: float | None = None
    in_table: bool = False

    @property
    def gap(self) -> float | None:
        """Gap between incumbent and bound, relative to the incumbent."""
        if self.best is None or self.bound is None or self.best == 0:
            return None
        return max(0.0, (self.best - self.bound) / abs(self.best))


def read_cbc_line(state: LogState, line: str) -> LogState:
    """The state after one more line of CBC's log.

    The closing lines decide: "Optimal" counts as proven only without a "Lower bound" line, which
    follows whenever CBC stopped at a gap, a limit or a signal, whatever its other lines claim.
    """
    if match := _RESULT.match(line):
        return replace(state, result=match[1])
    if _ROOT_STOPPED.match(line):
        return replace(state, result="Stopped before the first node")
    if "infeasibility proved" in line:
        return replace(state, result="Infeasible")
    if match := _FINAL_LINE.match(line):
        value = float(match[2])
        if match[1] == "Lower bound":
            return replace(state, bound=value, proven=None)
        return replace(state, best=value, proven=value if state.result == PROVEN else None)
    if not state.in_table:
        return replace(state, in_table="BestSol" in line and "BestBound" in line)
    if not line.strip():
        return replace(state, in_table=False)
    if match := _NODE.match(line):
        best = float(match["best"]) if match["best"] else None
        if best is not None and abs(best) > 1e40:
            best = None
        return replace(state, best=best, bound=float(match["bound"]))
    return state
