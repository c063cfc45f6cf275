"""What the runner raises."""

from __future__ import annotations


class RunnerError(Exception):
    """Base of every error that the runner raises on purpose."""


class ScheduleError(RunnerError):
    """A schedule's file cannot be run. The message names the place and what to do."""


class StageError(RunnerError):
    """The stages given are not those that the schedule has for this rank, or cannot run as such."""


class UnsupportedTorch(RunnerError):
    """This PyTorch lacks a private name that the runner needs."""


class OffloadError(RunnerError):
    """A saved tensor is needed that was offloaded, or was changed since it was saved."""
