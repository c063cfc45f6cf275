"""What answers call bounds, steps of a solve and its end, in words that clients may translate."""

from __future__ import annotations

from enum import StrEnum


class BoundName(StrEnum):
    """The argument that a lower bound comes from."""

    ARRIVAL_AND_WORK = "arrival and work"
    WORK_AND_DRAIN = "work and drain"
    CRITICAL_PATH = "critical path"
    MEMORY_TIME = "memory-time"
    FILL_IDLE = "fill idle"
    DRAIN_IDLE = "drain idle"
    FILL_AND_DRAIN_IDLE = "fill and drain idle"
    TAIL = "tail"
    RECYCLING = "recycling"
    IMPLIED_PRECEDENCES = "implied precedences"
    LP_RELAXATION = "LP relaxation"
    CBC = "cbc"
    HIGHS = "highs"
    CP_SAT = "CP-SAT"


class Step(StrEnum):
    """A step of the portfolio, as `provenance.ablation` lists them."""

    STORED = "stored schedule"
    CLASSIC = "classic schedules"
    ADAOFFLOAD = "AdaOffload"
    MORE_STARTS = "more starts"
    LOCAL_SEARCH = "local search"
    LINEAR_RELAXATION = "linear relaxation"
    CBC = "cbc"
    HIGHS = "highs"
    CP_SAT = "cp_sat"


class FoundBy(StrEnum):
    """What made a schedule, where it is no classic one, which goes by its row's name."""

    STORED = "stored schedule"
    ONE_AT_A_TIME = "one micro-batch at a time"
    ADAOFFLOAD = "AdaOffload"
    LIST_SCHEDULE = "list schedule # within memory"
    """With a number in place of #."""
    REPEATED_PERIOD = "repeated period"
    LOCAL_SEARCH = "local search"
    CBC = "cbc"
    HIGHS = "highs"
    CP_SAT = "CP-SAT"


class StoppedBy(StrEnum):
    """Why a solve ended; the last two where the service kept the last plan that was reported."""

    PROVEN_OPTIMAL = "proven optimal"
    GAP_REACHED = "MIP gap reached"
    ASKED = "asked to stop"
    TIME_LIMIT = "time limit"
    BUDGET = "search budget used up"
    NOTHING_LEFT = "nothing left to try"
    CANCELLED = "cancelled"
    MEMORY_LIMIT = "memory limit"


class StartKind(StrEnum):
    """Which stored plan a solve started from."""

    EARLIER_ATTEMPT = "earlier_attempt"
    OTHER_LIMIT = "other_limit"
    NEAREST_PROFILE = "nearest_profile"
    VERIFICATION = "verification"
    RUNNING_PLAN = "running_plan"
