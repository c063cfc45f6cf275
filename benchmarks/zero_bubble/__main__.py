"""Zero Bubble's twelve published profiles, solved for both objectives, and makespan against memory.

    python -m benchmarks.zero_bubble

Solves each profile within 1F1B's peak memory, within twice as much, and in the V shape, for the
makespan and for the span; then one profile at nine memory limits, in two placements, with and
without offloading. One thread in this process, no service; about 8 minutes. Writes
`results/zero-bubble.json`, `results/zero-bubble.md` and two pictures; exits with 1 if the verifier
refuses a plan or a plan is below its bound.
"""

from __future__ import annotations

import sys

from benchmarks.ablation.variants import load_compiled
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.figures import draw
from benchmarks.recording import keep, show
from benchmarks.zero_bubble.curve import LIMITS, WAYS, classic_dots, curve, curve_problem
from benchmarks.zero_bubble.profiles import (
    MAKESPAN_SETTINGS,
    SPAN_SETTINGS,
    outcomes,
    published_profiles,
)
from benchmarks.zero_bubble.report import Results, chart, record_of

COMMAND = "python -m benchmarks.zero_bubble"
LIMIT_PER_STAGE_S = 0.5
CURVE_LIMIT_S = 10.0


def main() -> int:
    """Solve, print, draw and keep; 1 if something is wrong."""
    parser_for(__doc__).parse_args()
    environment = environment_now()
    load_compiled()
    profiles, problem = published_profiles(), curve_problem()
    results = Results(
        span=list(outcomes(profiles, SPAN_SETTINGS, LIMIT_PER_STAGE_S)),
        makespan=list(outcomes(profiles, MAKESPAN_SETTINGS, LIMIT_PER_STAGE_S)),
        limit_per_stage_s=LIMIT_PER_STAGE_S,
        points=list(curve(problem, WAYS, LIMITS, CURVE_LIMIT_S)),
        dots=list(classic_dots(problem)),
        curve_limit_s=CURVE_LIMIT_S,
    )
    images = [
        draw("memory-one-chunk", chart(results, is_v_shape=False)),
        draw("memory-v-shape", chart(results, is_v_shape=True)),
    ]
    record = record_of(results, COMMAND, images, environment)
    show(record)
    keep("zero-bubble", record)
    print(*results.wrong, sep="\n", file=sys.stderr)
    return int(bool(results.wrong))


if __name__ == "__main__":
    sys.exit(main())
