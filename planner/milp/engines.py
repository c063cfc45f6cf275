"""The MILP engines by the names that requests give them."""

from __future__ import annotations

from planner.milp.cbc import solve_with_cbc
from planner.milp.engine import Engine, EngineName
from planner.milp.highs import solve_with_highs

ENGINES: dict[EngineName, tuple[str, Engine]] = {
    "cbc": ("CBC", solve_with_cbc),
    "highs": ("HiGHS", solve_with_highs),
}
"""Name for people, and executable."""
LEAST_RUN_S = 0.4
"""An executable that gets less than this finds nothing and is not started."""
