"""What the tests of the ILP share: options, and a stop request."""

from __future__ import annotations

import time
from collections.abc import Callable

from planner.milp.engine import EngineName
from planner.sharding.ilp.solve import IlpOptions

ENGINES: tuple[EngineName, EngineName] = ("cbc", "highs")


def options(
    engine: EngineName = "highs",
    time_limit_s: float = 30.0,
    *,
    mip_gap: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
    on_log: Callable[[str], None] = lambda line: None,
) -> IlpOptions:
    """Options of one solve on one thread."""
    return {
        "engine": engine,
        "time_limit_s": time_limit_s,
        "mip_gap": mip_gap,
        "threads": 1,
        "should_stop": should_stop,
        "on_log": on_log,
    }


def stop_after(seconds: float) -> Callable[[], bool]:
    """A stop request that comes so many seconds from now."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() >= deadline
