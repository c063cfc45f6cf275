"""Runs and their plans as Python objects: thin views over the JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from client.library.views import Row, View


class RunView(View):
    """How a run stands; what it has no property for is at `document`."""

    @property
    def id(self) -> str:
        """Of the run."""
        return str(self.document["id"])

    @property
    def state(self) -> str:
        """`active` or `stopped`."""
        return str(self.document["state"])

    @property
    def running_version(self) -> int | None:
        """The plan that its ranks run."""
        version: int | None = self.document.get("running_version")
        return version

    @property
    def newest_version(self) -> int | None:
        """The plan that was published last."""
        version: int | None = self.document.get("newest_version")
        return version

    @property
    def versions(self) -> Sequence[Row]:
        """Per plan its state, the reason for it, and predicted and measured gain."""
        return list(self.document.get("versions") or ())

    @property
    def stages(self) -> Sequence[Row]:
        """Per stage what its telemetry says, with noise, confidence and drift."""
        return list(self.document.get("stages") or ())

    @property
    def events(self) -> Sequence[Row]:
        """What happened, the newest first."""
        return list(self.document.get("events") or ())

    def _in_short(self) -> str:
        return f"{self.id} {self.state}"


class RunPlan(View):
    """A plan of a run. Its first one has version 1."""

    @property
    def version(self) -> int:
        """Its number in the run."""
        return int(self.document["version"])

    @property
    def state(self) -> str:
        """`published`, `scheduled`, `running`, `confirmed`, `rolled_back` or `superseded`, when it
        was fetched."""
        return str(self.document["state"])

    @property
    def apply_at_iteration(self) -> int | None:
        """The first iteration that it is for; None before every rank has acknowledged it."""
        iteration: int | None = self.document.get("apply_at_iteration")
        return iteration

    @property
    def needs_restart(self) -> bool:
        """Whether it is of another shape than what runs, and so is never swapped in."""
        return bool(self.document.get("needs_restart"))

    @property
    def problem(self) -> Mapping[str, Any]:
        """What it was made for."""
        problem: Mapping[str, Any] = self.document["problem"]
        return problem

    @property
    def schedule(self) -> Mapping[str, Any]:
        """When each device runs what, in ns from the start of the iteration."""
        schedule: Mapping[str, Any] = self.document["schedule"]
        return schedule

    @property
    def reason(self) -> str:
        """Why there is this version."""
        return str(self.document.get("reason") or "")

    @property
    def predicted_gain(self) -> float | None:
        """By which share of the running plan's time it was predicted to be shorter."""
        gain: float | None = self.document.get("predicted_gain")
        return gain

    def _in_short(self) -> str:
        return f"version {self.version} {self.state}"
