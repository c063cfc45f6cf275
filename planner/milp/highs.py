"""HiGHS, the second engine: the executable of the `highsbox` wheel on the same written model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import highsbox

from planner.errors import SolverCrash
from planner.milp.cbc_log import NUMBER, LogState
from planner.milp.engine import EngineLimits, EngineRun, RunStatus, number_of_column
from planner.milp.process import ProcessEnd, run_supervised

LOG_DIGITS = 10
"""Significant digits of the numbers in HiGHS's log."""
MARGIN_S = 0.5
_NODE = re.compile(
    rf"^ ?[A-Za-z]?\s+\d\S*\s+\d\S*\s+\d\S*\s+{NUMBER}%\s+(?P<bound>{NUMBER}|-inf)\s+"
    rf"(?P<best>{NUMBER}|inf)\s"
)
_REPORT = re.compile(r"^  (?P<what>Status|Primal bound|Dual bound)\s+(?P<value>\S.*?)\s*$")


def highs_path() -> Path:
    """The wheel's executable."""
    return Path(highsbox.highs_bin_path())


def read_highs_line(state: LogState, line: str) -> LogState:
    """The state after one more line of HiGHS's log."""
    if "BestBound" in line or "Solving report" in line:
        return replace(state, in_table="BestBound" in line)
    if state.in_table and (match := _NODE.match(line)):
        return replace(state, best=_finite(match["best"]), bound=_finite(match["bound"]))
    if match := _REPORT.match(line):
        value = match["value"]
        if match["what"] == "Status":
            return replace(state, result=value)
        if match["what"] == "Primal bound":
            return replace(state, best=_finite(value))
        return replace(state, bound=_finite(value))
    return state


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e30 else None


def solve_with_highs(
    model_file: Path,
    start: list[float] | None,
    limits: EngineLimits,
    columns: int,
    on_line: Callable[[str, LogState], None],
    should_stop: Callable[[], bool],
) -> EngineRun:
    """Run HiGHS; see `Engine`. It dies of SIGINT, so it saves each better solution as it goes."""
    solution_file = model_file.with_suffix(".sol")
    improving_file = model_file.with_suffix(".improving")
    options_file = model_file.with_suffix(".options")
    options_file.write_text(
        f"mip_rel_gap = {limits.mip_gap:.9f}\n"
        f"log_file = {model_file.with_suffix('.log')}\n"
        "mip_improving_solution_save = true\n"
        f"mip_improving_solution_file = {improving_file}\n"
    )
    arguments: list[str | Path] = [highs_path(), model_file, "--options_file", options_file]
    arguments += ["--time_limit", f"{max(0.1, limits.time_limit_s - MARGIN_S):.2f}"]
    arguments += ["--threads", str(limits.threads_here()), "--solution_file", solution_file]
    if start is not None:
        start_file = model_file.with_suffix(".start")
        write_start_file(start_file, start)
        arguments += ["--read_solution_file", start_file]
    state = LogState()

    def follow(line: str) -> None:
        nonlocal state
        state = read_highs_line(state, line)
        on_line(line, state)

    end = run_supervised(
        arguments,
        time_limit_s=limits.time_limit_s,
        should_stop=should_stop,
        on_line=follow,
        environment={"LD_LIBRARY_PATH": str(highsbox.highs_lib_dir())},
    )
    return _judge(end, state, solution_file, improving_file, columns)


def write_start_file(path: Path, values: list[float]) -> None:
    """Write values in HiGHS's solution format."""
    lines = ["Model status", "Unknown", "", "# Primal solution values", "Feasible"]
    lines += ["Objective 0.0", f"# Columns {len(values)}"]
    lines += [f"x{i} {value!r}" for i, value in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")


def _judge(
    end: ProcessEnd, state: LogState, solution_file: Path, improving_file: Path, columns: int
) -> EngineRun:
    if end.interrupted is not None:
        status: RunStatus = "stopped" if end.interrupted == "stop" else "time_limit"
        values = read_highs_solution(improving_file, columns)
        return EngineRun(status, values, state.bound, LOG_DIGITS, end.log_tail)
    if end.returncode != 0:
        raise SolverCrash(f"HiGHS ended with exit status {end.returncode}", end.log_tail)
    if state.result is None:
        raise SolverCrash("HiGHS ended without a result", end.log_tail)
    if "infeasible" in state.result.lower():
        return EngineRun("infeasible", None, None, LOG_DIGITS, end.log_tail)
    if state.result == "Optimal":
        status = "optimal" if state.gap is not None and state.gap <= 1e-9 else "gap"
    else:
        status = "time_limit"
    values = None if state.best is None else read_highs_solution(solution_file, columns)
    return EngineRun(status, values, state.bound, LOG_DIGITS, end.log_tail)


def read_highs_solution(solution_file: Path, columns: int) -> list[float] | None:
    """The last complete list of columns in a solution file; None if there is none."""
    if not solution_file.exists():
        return None
    found: list[float] | None = None
    reading: list[float] | None = None
    left = 0
    for line in solution_file.read_text().splitlines():
        if line.startswith("# Columns"):
            reading, left = [0.0] * columns, int(line.split()[2])
            continue
        fields = line.split()
        number = number_of_column(fields[0]) if len(fields) == 2 else None
        if reading is None or number is None:
            continue
        reading[number] = float(fields[1])
        left -= 1
        if not left:
            found, reading = reading, None
    return found
