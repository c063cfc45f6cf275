"""``python -m benchmarks.choices``: measure, print, draw and keep the tables."""

from __future__ import annotations

import sys

from benchmarks import choices
from benchmarks.choices.delay import delayed
from benchmarks.choices.factor import factored
from benchmarks.choices.order import KINDS, ordered
from benchmarks.choices.problems import MODEL_MADE, TWO_A_SWITCH, problem_named
from benchmarks.choices.report import Results, delay_chart, record_of
from benchmarks.choices.switch import switched
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.figures import draw
from benchmarks.recording import keep, show

HALF_LINK, WHOLE_LINK, SLOW_LINK = (
    "zb-6.2b-8x32-offload-k0.5-mem0.25",
    "zb-6.2b-8x32-offload-k1.0-mem0.25",
    "zb-6.2b-8x32-offload-k1.4-mem0.375",
)
SMALL, LARGE = "offload-8x16-shared-switch", "large-16x64-offload"
MODEL = "GPT-14.2B, 8 x A100-40GB"
DELAYED = (SMALL, WHOLE_LINK, SLOW_LINK, LARGE, *MODEL_MADE)
SHARED = (SMALL, HALF_LINK + TWO_A_SWITCH, WHOLE_LINK + TWO_A_SWITCH, LARGE, MODEL)
FACTORED = (SMALL, WHOLE_LINK + TWO_A_SWITCH, MODEL)
SEARCH_ITERATIONS = 300
ORDER_SIZE = (3, 4)
ORDER_SEEDS = 5
ORDER_LIMIT_S = 20.0


def main() -> int:
    """Print and keep the tables; 1 if a verifier has anything against a plan."""
    parser_for(choices.__doc__).parse_args()
    environment = environment_now()
    delays = [delayed(name, problem_named(name)) for name in DELAYED]
    _tell("delays")
    switches = [switched(name, problem_named(name), SEARCH_ITERATIONS) for name in SHARED]
    _tell("switches")
    orders = [
        ordered(kind, *ORDER_SIZE, seed, ORDER_LIMIT_S)
        for kind in KINDS
        for seed in range(ORDER_SEEDS)
    ]
    _tell("orders")
    factors = [
        own for name in FACTORED for own in factored(name, problem_named(name), SEARCH_ITERATIONS)
    ]
    images = [
        draw("delay-alone", delay_chart(delays, "alone")),
        draw("delay-adaoffload", delay_chart(delays, "in AdaOffload")),
    ]
    results = Results(delays, switches, orders, ORDER_SIZE, factors, images)
    record = record_of(results, environment)
    show(record)
    keep("choices", record)
    for text in results.wrong:
        print(f"wrong: {text}", file=sys.stderr)
    return int(bool(results.wrong))


def _tell(done: str) -> None:
    print(f"{done}: done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
