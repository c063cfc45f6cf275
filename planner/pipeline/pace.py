"""How fast this machine is at the moment, and what may still be done at the end of a solve.

Closing work (waits, the proof for any durations, jitter, the answer itself) goes through the
operations of one schedule, as verifying it does. So what verifying took in this solve, under
whatever load there was, says what closing will take. The multiples of it below are those of long
schedules, which are verified by arrays (`verify`); others take longer to verify, so that closing
is done sooner than foreseen.
"""

from __future__ import annotations

import time
from math import inf

from planner.pipeline.problem import PipelineProblem
from planner.progress import StopCheck

VERIFY_S_PER_OPERATION = 1e-5
"""Until the first verification has been measured."""
FEWEST_MEASURED = 1_000
"""Of fewer operations the time says nothing about the pace."""
SAFETY_VERIFICATIONS = 13.0
"""What waits and the proof for any durations take, in verifications of the same schedule: 5
where no waits are needed; where every fifth operation needs one 10, and 13 beside other load."""
SAMPLES_VERIFICATIONS = 2.0
"""Likewise for a few samples under jitter."""
REPLACEMENT_VERIFICATIONS = 8.0
"""To compare a schedule with the one that runs, on samples of the profile."""
ANSWER_VERIFICATIONS = 6.0
"""To report a schedule and to write the answer: 3 by itself, but of large ones whoever reads it
is busy with storing the report."""
CLOSING_VERIFICATIONS = SAFETY_VERIFICATIONS + SAMPLES_VERIFICATIONS + ANSWER_VERIFICATIONS
OFFER_VERIFICATIONS = 6.0
"""To make a schedule of orders or starts, and to verify and report it."""
STOPPED_S = 0.6
"""How long closing may take once the client has asked to stop."""


class Pace:
    """Seconds that going through a schedule's operations takes, as last measured."""

    def __init__(self) -> None:
        self.verify_s_per_operation = VERIFY_S_PER_OPERATION

    def measured(self, operations: int, seconds: float) -> None:
        """Verifying so many operations took so long."""
        if operations >= FEWEST_MEASURED:
            self.verify_s_per_operation = seconds / operations

    def verify_s(self, problem: PipelineProblem) -> float:
        """To verify a schedule of this problem, with every transfer that it may have."""
        transfers = 2 * len(problem.stages) * problem.micro_batches if problem.can_offload else 0
        return self.verify_s_per_operation * (problem.operations + transfers)

    def closing_s(self, problem: PipelineProblem, *, compared: bool) -> float:
        """For all closing work on a schedule of this problem; `compared` if it is to replace one
        that runs."""
        extra = REPLACEMENT_VERIFICATIONS if compared else 0.0
        return (CLOSING_VERIFICATIONS + extra) * self.verify_s(problem)


class Closing:
    """The time that is left for closing, until `ends` (of `time.monotonic`; infinite where the
    clock must not count), or `STOPPED_S` from when a stop request is first seen."""

    def __init__(self, verify_s: float, ends: float, asked_to_stop: StopCheck) -> None:
        self._verify_s = verify_s
        self._ends = ends - ANSWER_VERIFICATIONS * verify_s
        self._asked_to_stop = asked_to_stop
        self._is_stopping = False

    def is_over(self) -> bool:
        """Whether what is under way has to be given up."""
        if not self._is_stopping and self._asked_to_stop():
            self._is_stopping = True
            self._ends = min(self._ends, time.monotonic() + STOPPED_S)
        return time.monotonic() >= self._ends

    def may_begin(self, verifications: float) -> bool:
        """Whether something that takes as long as so many verifications may begin. Once the client
        waits for the end, only what will be finished may."""
        return not self.is_over() and (not self._is_stopping or self._lasts_for(verifications))

    def will_finish(self, verifications: float) -> bool:
        """Whether something that takes as long as so many verifications will be finished."""
        return not self.is_over() and self._lasts_for(verifications)

    def _lasts_for(self, verifications: float) -> bool:
        return time.monotonic() + verifications * self._verify_s <= self._ends

    @property
    def reason(self) -> str:
        """Why something was left out."""
        return "the solve was asked to stop" if self._is_stopping else "the time was up"


UNLIMITED = Closing(0.0, inf, lambda: False)
"""Time for everything."""
