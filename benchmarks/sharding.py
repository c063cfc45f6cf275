"""Sharding plans: how long they take, and what they hold and send against the baselines.

    python -m benchmarks.sharding [--server URL] [--runs N] [--checker FILE]

Posts one Transformer layer for 2, 4, 8 and 64 devices to a running service, `--runs` times each and
afresh, to each engine, with and without the exact reductions; 96 layers written out for 8 devices;
and four models for 4 devices. Seconds are `provenance.solve_seconds`: building the model and
solving it, in the solver process, whose start is not counted. Each answer is checked by an
independent checker program if one is given. Writes `results/sharding.json` and
`results/sharding.md`; exits with 1 if an answer is missing, unproven or refused.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import CHECKER_S, FOLDER, check, wait_for
from client.connecting import connect
from client.errors import ServiceUnreachable
from client.library.requests import DEFAULT_SERVER
from client.library.service import Service

Row = dict[str, Any]

ENGINES = ("cbc", "highs")
PUBLISHED_S = {2: 0.02, 4: 0.05, 8: 0.23}
"""The source's solve times (Shi et al. 2025), on machines and graphs that it does not describe."""
PUBLISHED_RATIOS = {"BERT-Large": 0.68, "GPT-1.7B": 0.34, "GPT-3.6B": 0.33, "GPT-7.5B": 0.42}
"""The source's memory relative to Megatron-LM's on 4 devices; its settings are unpublished."""
ALPHAS = (0.01, 0.1, 1.0, 10.0)
MEBIBYTE = 2**20


def main() -> int:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="Benchmark the sharding planner.")
    parser.add_argument("--server", default=DEFAULT_SERVER, help="address of a running service")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    arguments = parser.parse_args()
    try:
        with connect(arguments.server) as client:
            bench = Bench(client, arguments.checker)
            times = list(bench.times(arguments.runs))
            memory = list(bench.memory())
    except ServiceUnreachable as error:
        print(error, file=sys.stderr)
        return 1
    document = {"times": times, "memory": memory, "complaints": bench.complaints}
    (FOLDER / "results" / "sharding.json").write_text(json.dumps(document, indent=1) + "\n")
    text = "\n".join([*times_table(times), "", *memory_table(memory), ""])
    (FOLDER / "results" / "sharding.md").write_text(text)
    print(text)
    if bench.unchecked:
        print(f"answers on which the checker did not end within {CHECKER_S:g} s: {bench.unchecked}")
    for complaint in bench.complaints:
        print(complaint, file=sys.stderr)
    return 1 if bench.complaints else 0


def layer(preset: str, layers: int, devices: int, batch: int) -> Row:
    """A request for some layers with attention as three operators: 15 operators a layer."""
    return {
        "transformer": {"preset": preset, "layers": layers, "batch": batch},
        "devices": devices,
        "training": {"flash_attention": False},
    }


class Bench:
    """Posts requests afresh and collects what is wrong with the answers."""

    def __init__(self, client: Service, checker: Path | None) -> None:
        self._client = client
        self._checker = checker
        self.complaints: list[str] = []
        self.unchecked = 0

    def times(self, runs: int) -> Iterator[Row]:
        """One row per size, engine and setting."""
        sizes = [(1, devices, runs) for devices in (2, 4, 8, 64)] + [(96, 8, max(1, runs // 5))]
        for layers, devices, repeats in sizes:
            for engine in ENGINES:
                for reductions in (True, False) if layers == 1 else (True,):
                    solver = {"engine": engine, "reductions": reductions, "exact": layers > 1}
                    body = layer("BERT-Large", layers, devices, max(8, devices))
                    answers = [self._solve({**body, "solver": solver}) for _ in range(repeats)]
                    found = [answer for answer in answers if answer is not None]
                    if found:
                        yield {
                            "layers": layers,
                            "devices": devices,
                            "engine": engine,
                            "reductions": reductions,
                            "runs": len(found),
                            **_of_times(found),
                        }

    def memory(self) -> Iterator[Row]:
        """One row per model and weight of communication."""
        for preset in PUBLISHED_RATIOS:
            for alpha in ALPHAS:
                body = layer(preset, 1, 4, 8)
                answer = self._solve({**body, "alpha": alpha})
                if answer is not None:
                    yield {"model": preset, "alpha": alpha, **_of_memory(answer)}

    def _solve(self, body: Row) -> Row | None:
        job = self._client.submit("sharding", body, fresh=True)
        status = wait_for(self._client, job["id"])
        what = json.dumps(body)
        if status["state"] != "succeeded":
            self.complaints.append(f"{what}: {status['state']}")
            return None
        answer = self._client.result(job["id"])
        if not answer["certificate"]["proven_optimal"]:
            self.complaints.append(f"{what}: not proven")
        if (complaint := self._check(answer)) is not None:
            self.complaints.append(f"{what}: {complaint}")
        return answer

    def _check(self, answer: Row) -> str | None:
        try:
            return check({"instance": answer["instance"], "plan": answer["plan"]}, self._checker)
        except subprocess.TimeoutExpired:
            self.unchecked += 1
            return None


def _of_times(answers: list[Row]) -> Row:
    seconds = sorted(answer["provenance"]["solve_seconds"] for answer in answers)
    size = answers[0]["provenance"]["model"][0]
    return {
        "median_s": statistics.median(seconds),
        "least_s": seconds[0],
        "most_s": seconds[-1],
        **{name: size[name] for name in ("operators", "strategies", "columns", "rows")},
    }


def _of_memory(answer: Row) -> Row:
    plan, megatron = answer["plan"], answer["baselines"][0]
    return {
        "training": answer["provenance"]["settings"]["training"],
        "plan": _figures(plan),
        "baselines": {row["name"]: _figures(row) for row in answer["baselines"]},
        "memory_ratio": plan["memory_bytes"] / megatron["memory_bytes"],
        "peak_ratio": plan["predicted_peak_bytes"] / megatron["predicted_peak_bytes"],
        "redundancy_ratio": plan["redundant_bytes"] / max(1, megatron["redundant_bytes"]),
        "relative_throughput": plan["relative_throughput"],
    }


def _figures(row: Mapping[str, Any]) -> Row:
    names = (
        "memory_bytes",
        "predicted_peak_bytes",
        "redundant_bytes",
        "communication_bytes",
        "resharding_bytes",
        "relative_throughput",
    )
    return {name: row.get(name) for name in names}


def times_table(rows: list[Row]) -> list[str]:
    """The first table in Markdown."""
    lines = [
        "# Sharding plans",
        "",
        "BERT-Large, batch 8 (or as many samples as devices), sequence 512, bf16, Adam, attention "
        "as three operators. Seconds to build the model and to solve it to proven optimality.",
        "",
        "| layers | devices | engine | reductions | median s | least | most | published s "
        "| strategies | columns | rows | runs |",
        "|" + " --- |" * 12,
    ]
    for row in rows:
        published = PUBLISHED_S.get(row["devices"]) if row["layers"] == 1 else None
        lines.append(
            f"| {row['layers']} | {row['devices']} | {row['engine']} "
            f"| {'yes' if row['reductions'] else 'no'} | {row['median_s']:.4f} "
            f"| {row['least_s']:.4f} | {row['most_s']:.4f} | {published or '–'} "
            f"| {row['strategies']} | {row['columns']} | {row['rows']} | {row['runs']} |"
        )
    return lines


def memory_table(rows: list[Row]) -> list[str]:
    """The second table in Markdown."""
    lines = [
        "One layer on 4 devices, batch 8, the preset's sequence, bf16 with fp32 gradients, Adam, "
        "no ZeRO, attention as three operators. MiB on one device; ratios to Megatron-LM's split "
        "(tensor parallel 4). The source's ratios come from settings that it does not publish and "
        "are no target.",
        "",
        "| model | alpha | ours MiB | Megatron-LM MiB | ratio | peak ratio | redundancy ratio "
        "| throughput | published ratio |",
        "|" + " --- |" * 9,
    ]
    for row in rows:
        megatron = next(iter(row["baselines"].values()))
        lines.append(
            f"| {row['model']} | {row['alpha']:g} | {row['plan']['memory_bytes'] / MEBIBYTE:.1f} "
            f"| {megatron['memory_bytes'] / MEBIBYTE:.1f} | {row['memory_ratio']:.2f} "
            f"| {row['peak_ratio']:.2f} | {row['redundancy_ratio']:.2f} "
            f"| {row['relative_throughput']:.2f} | {PUBLISHED_RATIOS[row['model']]} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
