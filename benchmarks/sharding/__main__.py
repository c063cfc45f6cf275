"""Sharding plans: what they hold and send against Megatron-LM, Alpa and others, and solve times.

    python -m benchmarks.sharding [--runs N] [--checker FILE]

Solves in this process: four models on 4 devices with several weights of communication; the same
under other settings than those that are published; one Transformer layer for 2 to 64 devices,
`--runs` times each, with each engine, with and without the exact reductions; and 96 layers written
out for 8 devices. Each plan is verified once more, and checked by an independent checker program if
one is given. Writes `results/sharding.json` and `results/sharding.md` unless `--runs` is given;
exits with 1 if a plan is missing, unproven or refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import CHECKER_S, check, is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import keep, show
from benchmarks.sharding.report import record_of
from benchmarks.sharding.rows import MemoryRow, TimesRow
from benchmarks.verified import wrong_in_plan
from planner.progress import SilentReporter, never
from planner.sharding.request import resolve_request
from planner.sharding.solve import run

Body = dict[str, Any]
Answer = Mapping[str, Any]

RUNS = 15
LIMIT_S = 60.0
ENGINES = ("cbc", "highs")
MODELS = ("BERT-Large", "GPT-1.7B", "GPT-3.6B", "GPT-7.5B")
ALPHAS = (0.01, 0.1, 1.0, 10.0)
DEVICES = (2, 4, 8, 16, 64)
SETTINGS: Mapping[str, Body] = {
    "as above": {},
    "batch 4": {"transformer": {"batch": 4}},
    "batch 32": {"transformer": {"batch": 32}},
    "fp32": {"training": {"precision": "fp32"}},
    "bf16 gradients": {"training": {"gradient_precision": "same"}},
    "plain SGD": {"training": {"optimizer": "sgd"}},
    "ZeRO stage 1": {"training": {"zero_stage": 1}},
    "flash attention": {"training": {"flash_attention": True}},
    "24 layers, vocabulary": {"transformer": {"layers": 24, "embeddings": True}},
    "sequence parallel": {"training": {"sequence_parallel": True}},
    "redundancy of the mesh": {"redundancy": "mesh"},
}
"""What the source does not publish, changed one at a time."""


def main() -> int:
    """Run the benchmark from the command line."""
    parser = parser_for(__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="solves of each size and setting")
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    asked = parser.parse_args()
    environment = environment_now()
    bench = Bench(asked.checker)
    memory = list(bench.memory(MODELS, ALPHAS))
    settings = {name: list(bench.memory(MODELS, (1.0,), own)) for name, own in SETTINGS.items()}
    times = list(bench.times(DEVICES, asked.runs))
    record = record_of(memory, settings, times, environment)
    show(record)
    if is_default(parser, asked, "checker"):
        keep("sharding", record)
    if bench.unchecked:
        print(f"plans on which the checker did not end within {CHECKER_S:g} s: {bench.unchecked}")
    for complaint in bench.complaints:
        print(complaint, file=sys.stderr)
    return int(bool(bench.complaints))


def request(
    preset: str, layers: int, devices: int, batch: int, changes: Body | None = None
) -> Body:
    """A request for some layers with attention as three operators, 15 operators a layer, and with
    other values for some of its fields."""
    body: Body = {
        "transformer": {"preset": preset, "layers": layers, "batch": batch},
        "devices": devices,
        "training": {"flash_attention": False},
    }
    for name, value in (changes or {}).items():
        body[name] = {**body[name], **value} if name in body else value
    return body


class Bench:
    """Solves requests and collects what is wrong with the answers."""

    def __init__(self, checker: Path | None = None) -> None:
        self._checker = checker
        self.complaints: list[str] = []
        self.unchecked = 0

    def memory(
        self, models: Sequence[str], alphas: Sequence[float], changes: Body | None = None
    ) -> Iterator[MemoryRow]:
        """One row per model and weight of communication, on 4 devices with batch 8 or what
        `changes` says."""
        for preset in models:
            for alpha in alphas:
                body = request(preset, 1, 4, 8, changes)
                answer = self.solve({**body, "alpha": alpha})
                if answer is not None:
                    yield MemoryRow.of(preset, alpha, answer)

    def times(self, devices: Sequence[int], runs: int, written_out: int = 96) -> Iterator[TimesRow]:
        """One row per size, engine and setting; the last ones are of many layers written out."""
        sizes = [(1, count, runs) for count in devices] + [(written_out, 8, max(1, runs // 5))]
        for layers, count, repeats in sizes:
            for engine in ENGINES:
                for reductions in (True, False) if layers == 1 else (True,):
                    solver = {"engine": engine, "reductions": reductions, "exact": layers > 1}
                    body = request("BERT-Large", layers, count, max(8, count))
                    answers = [self.solve({**body, "solver": solver}) for _ in range(repeats)]
                    found = [answer for answer in answers if answer is not None]
                    if found:
                        yield TimesRow.of(layers, count, engine, reductions, found)

    def solve(self, body: Body) -> Answer | None:
        """The answer, whether or not there is something wrong with it; None if there is none."""
        what = json.dumps(body)
        answer = run(resolve_request(body).spec, SilentReporter(), never, None, LIMIT_S)
        if answer["state"] != "succeeded":
            self.complaints.append(f"{what}: {answer['state']}")
            return None
        document: Answer = answer["document"]
        if not document["certificate"]["proven_optimal"]:
            self.complaints.append(f"{what}: not proven")
        for wrong in (wrong_in_plan(document["instance"], document["plan"]), self._check(document)):
            if wrong is not None:
                self.complaints.append(f"{what}: {wrong}")
        return document

    def _check(self, document: Answer) -> str | None:
        try:
            part = {"instance": document["instance"], "plan": document["plan"]}
            return check(part, self._checker)
        except subprocess.TimeoutExpired:
            self.unchecked += 1
            return None


if __name__ == "__main__":
    sys.exit(main())
