"""What is measured, on one database."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from benchmarks.service.load import cpu_s
from benchmarks.telemetry import load
from benchmarks.telemetry.bench import PATIENCE_S, api, kept_iterations, made_runs

BURST_S = 10.0


def measured(
    database: str, posts: int, runs: int, per_second: float, burst_s: float = BURST_S
) -> load.Figures:
    """The figures on one database."""
    with api(database) as (port, pid):
        run_ids = made_runs(port, runs)
        before_s = cpu_s(pid)
        asked = load.Load(port, run_ids, posts, per_second, burst_s)
        done = subprocess.run(
            [sys.executable, "-m", load.__name__],
            input=json.dumps(asdict(asked)),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=posts / per_second + burst_s + PATIENCE_S,
        )
        figures: load.Figures = json.loads(done.stdout)
        answers = posts + figures["burst"]["count"]
        figures["cpu_ms"] = round(1000 * (cpu_s(pid) - before_s) / answers, 3)
        figures |= {"runs": runs, "due_per_s": per_second}
        figures["kept"] = kept_iterations(port, run_ids)
    return figures
