"""What is gained on clusters whose devices or stages are not alike.

    python -m benchmarks.heterogeneity

Draws 25 clusters of each of four kinds, solves each in its own placement and with the placement
free, and sets the plans beside the fastest classic schedule that fits. One thread in this process,
no service; about 10 minutes. Writes `results/heterogeneity.json`, `results/heterogeneity.md` and a
picture; exits with 1 if the verifier refuses a plan, or a plan is missing or below its bound.
"""

from __future__ import annotations

import sys

from benchmarks.ablation.variants import load_compiled
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.figures import draw
from benchmarks.heterogeneity.comparing import compared
from benchmarks.heterogeneity.report import Results, chart, record_of
from benchmarks.recording import keep, show

COMMAND = "python -m benchmarks.heterogeneity"
CLUSTERS = 25
OWN_LIMIT_S, FREE_LIMIT_S = 3.0, 6.0


def main() -> int:
    """Solve, print, draw and keep; 1 if something is wrong."""
    parser_for(__doc__).parse_args()
    environment = environment_now()
    load_compiled()
    results = Results(
        own=list(compared(CLUSTERS, OWN_LIMIT_S, is_free=False)),
        own_limit_s=OWN_LIMIT_S,
        free=list(compared(CLUSTERS, FREE_LIMIT_S, is_free=True)),
        free_limit_s=FREE_LIMIT_S,
    )
    record = record_of(results, COMMAND, [draw("heterogeneity", chart(results))], environment)
    show(record)
    keep("heterogeneity", record)
    print(*results.wrong, sep="\n", file=sys.stderr)
    return int(bool(results.wrong))


if __name__ == "__main__":
    sys.exit(main())
