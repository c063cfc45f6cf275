"""Predicted against measured: peak memory and collectives of plans that PyTorch runs.

    python -m benchmarks.sharding_torch

One Transformer layer (BERT-Large's sizes, batch 8, sequence 512) under several plans on 4 devices:
DTensor under a fake process group, peak by MemTracker, collectives by CommDebugMode, no GPU. Needs
PyTorch (`scripts/test --torch` installs it). Parameters, gradients, activations, input and output
gradient, no optimizer. Writes `results/sharding-torch.json` and `results/sharding-torch.md`; exits
with 1 if the collectives of a plan are others than predicted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show
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
from tests.torch_plans.plans import layer_graph

MEBIBYTE = 2**20
NOTE = """\
The most that a device holds in one forward and backward pass, as predicted for a plan, against
what PyTorch's MemTracker counts when the plan is run with DTensor on fake devices; and the
collectives that are predicted and that CommDebugMode counts. One Transformer layer of BERT-Large's
sizes, batch 8, sequence 512, 4 devices; parameters, gradients, activations, input and output
gradient, no optimizer. *ours* is the plan of least redundancy, *random* draws each operator's
split, so that a tensor often has to be brought into another layout."""
COLUMNS = ("layer", "plan", "predicted MiB", "measured MiB", "error", "collectives", "measured")


@dataclass(frozen=True)
class Row:
    """One plan of one layer: peaks in bytes and collectives by kind, as predicted and measured."""

    case: str
    plan: str
    predicted_bytes: int
    measured_bytes: int
    predicted: Mapping[str, int]
    measured: Mapping[str, int]

    @property
    def error(self) -> float:
        """Of the predicted peak, as a share of the measured one."""
        return self.predicted_bytes / self.measured_bytes - 1


def main() -> int:
    """Measure everything; 1 if the collectives of a plan are not those predicted."""
    parser_for(__doc__).parse_args()
    environment = environment_now() | {"PyTorch": version("torch")}
    rows = list(measured(CASES))
    record = record_of(rows, environment)
    show(record)
    keep("sharding-torch", record)
    return int(any(row.predicted != row.measured for row in rows))


def measured(cases: Mapping[str, Mapping[str, object]]) -> Iterator[Row]:
    """Every plan of every layer; a case is the fields in which its layer differs from others."""
    # Only here: it loads PyTorch, and `--help` and the tests of the tables go without.
    from tests.torch_plans.measure import fake_devices, measure

    with fake_devices(DEVICES) as devices:
        for case, fields in cases.items():
            sizes = SIZES | fields
            formulation = formulation_of(layer_graph(DEVICES, **sizes), sizes["dtype"])
            for name, plan in plans_of(formulation).items():
                found = measure(formulation.graph, plan, devices)
                choice = choice_of(formulation, plan)
                yield Row(
                    case,
                    name,
                    predicted_peak_bytes(formulation, choice, resident_gradients=False),
                    found.peak_bytes,
                    collectives_of(formulation.graph, plan, devices.rank),
                    found.collectives,
                )


def record_of(rows: Sequence[Row], environment: Mapping[str, str]) -> Record:
    """The rows as they are kept."""
    worst = max(abs(row.error) for row in rows)
    exact = sum(row.predicted == row.measured for row in rows)
    return Record(
        title="Sharding plans: predicted and measured memory",
        command="python -m benchmarks.sharding_torch",
        note=NOTE,
        tables=[Table("", COLUMNS, [_cells(row) for row in rows])],
        figures=[
            Figure("largest error of a peak", 100 * worst, "%", "less", noise=0.0, least=0.05),
            Figure("plans with all collectives as predicted", exact, "", "more", noise=0.0),
        ],
        environment=environment,
    )


def _cells(row: Row) -> list[str]:
    return [
        row.case,
        row.plan,
        f"{row.predicted_bytes / MEBIBYTE:.2f}",
        f"{row.measured_bytes / MEBIBYTE:.2f}",
        f"{row.error:+.2%}",
        in_words(row.predicted),
        in_words(row.measured),
    ]


def in_words(collectives: Mapping[str, int]) -> str:
    """Such as ``all_reduce 4``."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(collectives.items()))


if __name__ == "__main__":
    sys.exit(main())
