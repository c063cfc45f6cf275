"""How jobs of a run are called and found."""

from __future__ import annotations

LONGEST_NAME = 200


def tag_of(run_id: str) -> str:
    """The tag of every job that is made for the run."""
    return f"run:{run_id}"


def job_name(run_name: str | None, iteration: int | None) -> str:
    """The name of a job that plans the run afresh."""
    end = "" if iteration is None else f": iteration {iteration}"
    return f"{(run_name or 'run')[: LONGEST_NAME - len(end)]}{end}"
