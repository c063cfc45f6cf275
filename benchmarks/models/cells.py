"""Cells that both tables have."""

from __future__ import annotations

from benchmarks.common import milliseconds
from benchmarks.models.measure import OURS, Measured

NONE = "–"
OOM = "OOM"


def percent(share: float | None) -> str:
    """A share for a table."""
    return NONE if share is None else f"{share:.1%}".replace("%", " %")


def time_cell(row: Measured, name: str) -> str:
    """The makespan in ms of a schedule, or that it does not fit."""
    fitting = row.fitting(name)
    if fitting is not None:
        return milliseconds(fitting.makespan_ns)
    return OOM if name in row.schedules else NONE


def gap_cell(row: Measured) -> str:
    """How far ours may be from the best possible."""
    if row.fitting(OURS) is None:
        return NONE
    return "proven" if row.gap == 0 else f"{row.gap:.2%}".replace("%", " %")


def verified_cell(row: Measured) -> str:
    """Whether every schedule that fits passed the verifier, and else what it has against which."""
    wrong = [f"{name}: {s.wrong}" for name, s in row.schedules.items() if s.wrong is not None]
    return "; ".join(wrong) or "yes"


def brief_gain(row: Measured) -> str:
    """The gain over 1F1B, or where that is out of memory over PipeOffload, and the gap."""
    if row.fitting(OURS) is None:
        return "nothing fits"
    gain = percent(row.gain_over("1F1B"))
    if row.fitting("1F1B") is None:
        gain = f"{OOM}: {percent(row.gain_over('PipeOffload'))}"
    return f"{gain} ({gap_cell(row)})"
