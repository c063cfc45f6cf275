"""CBC: the executable that python-mip bundles, on a model that python-mip wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cbcbox

from planner.errors import SolverCrash
from planner.milp.cbc_log import LogState, read_cbc_line
from planner.milp.engine import EngineLimits, EngineRun, RunStatus, number_of_column
from planner.milp.process import ProcessEnd, run_supervised

LOG_DIGITS = 6
"""Significant digits of the numbers in CBC's log."""
FILE_DIGITS = 12
MARGIN_S = 0.3
"""CBC's own limit is this much shorter than the supervisor's, so that it ends by itself."""


def cbc_path() -> Path:
    """The bundled executable."""
    return Path(cbcbox.cbc_bin_path())


def solve_with_cbc(
    model_file: Path,
    start: list[float] | None,
    limits: EngineLimits,
    columns: int,
    on_line: Callable[[str, LogState], None],
    should_stop: Callable[[], bool],
) -> EngineRun:
    """Run CBC; see `Engine`."""
    solution_file = model_file.with_suffix(".sol")
    arguments: list[str | Path] = [cbc_path(), model_file]
    if start is not None:
        start_file = model_file.with_suffix(".start")
        write_start_file(start_file, start)
        arguments += ["-mipstart", start_file]
    own_limit_s = max(0.1, limits.time_limit_s - MARGIN_S)
    arguments += ["-timeMode", "elapsed", "-sec", f"{own_limit_s:.2f}"]
    arguments += ["-ratio", f"{limits.mip_gap:.9f}", "-threads", str(limits.threads_here())]
    arguments += ["-printi", "all", "-solve", "-solu", solution_file]
    state = LogState()

    def follow(line: str) -> None:
        nonlocal state
        state = read_cbc_line(state, line)
        on_line(line, state)

    end = run_supervised(
        arguments, time_limit_s=limits.time_limit_s, should_stop=should_stop, on_line=follow
    )
    return _judge(end, own_limit_s, limits.mip_gap, state, solution_file, columns)


def write_start_file(path: Path, values: list[float]) -> None:
    """Write values as CBC's `-mipstart` file: a status line, then index, name, value and 0."""
    lines = ["Feasible - objective value 0.0"]
    lines += [f"{i} x{i} {value!r} 0" for i, value in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")


def _judge(
    end: ProcessEnd,
    own_limit_s: float,
    mip_gap: float,
    state: LogState,
    solution_file: Path,
    columns: int,
) -> EngineRun:
    was_ending = end.interrupted is not None or end.elapsed_s >= own_limit_s
    if end.returncode != 0:
        # CBC aborts in its postprocessing when a limit or a signal falls into its preprocessing.
        # The bound it had printed holds; its incumbent is lost.
        if not was_ending:
            raise SolverCrash(f"CBC ended with exit status {end.returncode}", end.log_tail)
        cut_short: RunStatus = "stopped" if end.interrupted == "stop" else "time_limit"
        return EngineRun(cut_short, None, state.bound, LOG_DIGITS, end.log_tail)
    result = state.result or ""
    if not result and not was_ending:
        raise SolverCrash("CBC ended without a result", end.log_tail)
    if "infeasible" in result.lower():
        return EngineRun("infeasible", None, None, LOG_DIGITS, end.log_tail)
    if end.interrupted is not None:
        status: RunStatus = "stopped" if end.interrupted == "stop" else "time_limit"
    elif state.proven is not None or (mip_gap == 0 and not was_ending and is_without_gap(state)):
        status = "optimal"
    else:
        status = "gap" if "gap" in result else "time_limit"
    # A run that ended in the root relaxation writes that relaxation's point, which is no solution.
    values = None if state.best is None else read_cbc_solution(solution_file, columns)
    if status == "optimal":
        proven = _objective_of(solution_file)
        return EngineRun(status, values, proven, FILE_DIGITS, end.log_tail)
    return EngineRun(status, values, state.bound, LOG_DIGITS, end.log_tail)


def is_without_gap(state: LogState) -> bool:
    """Whether a run ended at its gap with a bound that its log prints like the objective.

    If it was given no gap, it has proven its optimum: bound and objective differ by rounding.
    """
    if "gap" not in (state.result or "") or state.gap is None:
        return False
    return state.gap <= 10.0 ** (1 - LOG_DIGITS)


def _objective_of(solution_file: Path) -> float:
    """The objective in a solution file's first line, which has more digits than the log."""
    with solution_file.open() as lines:
        return float(lines.readline().rsplit(maxsplit=1)[1])


def read_cbc_solution(solution_file: Path, columns: int) -> list[float] | None:
    """The values of all columns in a solution file; None if the file says it has none.

    A line is `index name value reduced-cost`, with `**` before it where it is out of bounds.
    """
    if not solution_file.exists():
        return None
    lines = solution_file.read_text().splitlines()
    if not lines or "infeasible" in lines[0].lower():
        return None
    values = [0.0] * columns
    for line in lines[1:]:
        fields = line.removeprefix("**").split()
        number = number_of_column(fields[1]) if len(fields) >= 3 else None
        if number is not None:
            values[number] = float(fields[2])
    return values
