"""After the warm-up no solve compiles anything, and changed sources have a cache of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import compiled_cache
from planner.compiled_cache import cache_folder, sources
from tests.problems import uniform_document

ROOT = Path(planner.__file__).parents[1]

MOVED = {"offload_bytes": 2, "offload_ns": 9, "reload_ns": 9}


def requests() -> list[dict[str, Any]]:
    """Every kind of problem and way to solve, none of them a problem of the warm-up."""
    uneven = uniform_document(devices=3, micro_batches=5, limit=12, **MOVED)
    for k, stage in enumerate(uneven["stages"]):
        stage["forward_ns"] = [7 + k + m for m in range(5)]
    shared = uniform_document(devices=4, micro_batches=7, limit=14, **MOVED)
    for device in shared["devices"]:
        device |= {"host_link": "switch", "host": 0, "epilogue_ns": 3}
    interleaved = uniform_document(devices=2, micro_batches=6, limit=30, **MOVED)
    interleaved["stages"] *= 2
    v_shaped = uniform_document(devices=2, micro_batches=6, limit=30)
    v_shaped["stages"] += v_shaped["stages"][::-1]
    fused = uniform_document(devices=2, micro_batches=4)
    for stage in fused["stages"]:
        stage["backward_weight_ns"] = 0
    problems = [
        uneven,
        {**shared, "hosts": [{"memory_bytes": 9}], "host_link_duplex": "half"},
        {**shared, "hosts": [{}], "objective": "steady_span"},
        {**interleaved, "transfers": [{"forward_ns": 2, "backward_ns": 2}] * 3},
        {**v_shaped, "objective": "steady_span"},
        {**uniform_document(devices=3, micro_batches=4, limit=12), "micro_batch_order": "free"},
        fused,
        uniform_document(devices=1, micro_batches=3),
        uniform_document(devices=4, micro_batches=400, limit=16, **MOVED),
        {**uniform_document(devices=4, micro_batches=400), "objective": "steady_span"},
    ]
    return [{"problem": each, "solver": {"search_iterations": 40}} for each in problems] + [
        {"problem": uneven, "solver": {"time_limit_s": 3}},
        {"problem": shared | {"hosts": [{}]}, "solver": {"time_limit_s": 3, "engine": "highs"}},
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_compiled_after_the_warm_up() -> None:
    # As `scripts/setup` does; where it has, nothing is left to do.
    folder = cache_folder()
    assert folder is not None
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "planner.warm_up"], cwd=ROOT, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.compiled_anew"],
        cwd=ROOT,
        input=json.dumps(requests()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {}
