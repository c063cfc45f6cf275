"""Predicted against measured: peak memory and collectives of plans that PyTorch runs.

    python -m benchmarks.sharding_torch

One Transformer layer (BERT-Large's sizes, batch 8, sequence 512) under several plans on 4 devices:
DTensor under a fake process group, peak by MemTracker, collectives by CommDebugMode, no GPU. Needs
PyTorch (`scripts/test --torch` installs it). Parameters, gradients, activations, input and output
gradient, no optimizer. Writes `results/sharding-torch.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.common import parser_for
from planner.sharding.peak import predicted_peak_bytes
from tests.torch_plans.cases import (
    CASES,
    DEVICES,
    SIZES,
    choice_of,
    collectives_of,
    formulation_of,
    plans_of,
)
from tests.torch_plans.measure import fake_devices, measure
from tests.torch_plans.plans import layer_graph

RESULTS = Path(__file__).parent / "results"
MEBIBYTE = 2**20
HEADER = "| layer | plan | predicted MiB | measured MiB | error | collectives | measured |"


def main() -> int:
    """Print and write the table."""
    lines = [
        "# Predicted and measured memory of sharding plans, 4 devices",
        "",
        HEADER,
        "|" + " --- |" * 7,
    ]
    with fake_devices(DEVICES) as devices:
        for case, fields in CASES.items():
            sizes = SIZES | fields
            formulation = formulation_of(layer_graph(DEVICES, **sizes), sizes["dtype"])
            for name, plan in plans_of(formulation).items():
                measured = measure(formulation.graph, plan, devices)
                peak = predicted_peak_bytes(
                    formulation, choice_of(formulation, plan), resident_gradients=False
                )
                expected = collectives_of(formulation.graph, plan, devices.rank)
                lines.append(
                    f"| {case} | {name} | {peak / MEBIBYTE:.2f} "
                    f"| {measured.peak_bytes / MEBIBYTE:.2f} "
                    f"| {peak / measured.peak_bytes - 1:+.2%} "
                    f"| {in_words(expected)} | {in_words(measured.collectives)} |"
                )
                print(lines[-1], flush=True)
    (RESULTS / "sharding-torch.md").write_text("\n".join([*lines, ""]))
    return 0


def in_words(collectives: dict[str, int]) -> str:
    """Such as ``all_reduce 4``."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(collectives.items()))


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    sys.exit(main())
