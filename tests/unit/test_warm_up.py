"""After the warm-up no solve compiles anything, and changed sources have a cache of their own."""

from __future__ import annotations

import json
import re
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
    host = [{"memory_bytes": 9}]
    shared = uniform_document(devices=4, micro_batches=7, limit=14, hosts=host, **MOVED)
    for device in shared["devices"]:
        device |= {"host_link": "switch", "epilogue_ns": 3}
    chunks = uniform_document(
        devices=2, micro_batches=6, chunks=2, limit=30, transfer_ns=2, **MOVED
    )
    v_shaped = uniform_document(devices=2, micro_batches=6, placement=[0, 1, 1, 0], limit=30)
    free_order = {"micro_batch_order": "free"}
    steady_span = {"objective": "steady_span"}
    problems = [
        uneven,
        shared | {"host_link_duplex": "half"},
        shared | {"hosts": [{}]} | steady_span,
        chunks,
        v_shaped | steady_span,
        uniform_document(devices=3, micro_batches=4, limit=12) | free_order,
        uniform_document(devices=2, micro_batches=4, limit=9, **MOVED) | free_order,
        uniform_document(devices=2, micro_batches=4, backward_weight_ns=0),
        uniform_document(devices=1, micro_batches=3),
        uniform_document(devices=4, micro_batches=400, limit=16, **MOVED),
        uniform_document(devices=4, micro_batches=400) | steady_span,
        uniform_document(devices=2, micro_batches=400, chunks=2, limit=40),
    ]
    return [{"problem": each, "solver": {"search_iterations": 40}} for each in problems] + [
        {"problem": uneven, "solver": {"time_limit_s": 3}},
        {"problem": shared, "solver": {"time_limit_s": 3, "engine": "highs"}},
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


def test_a_change_of_what_is_compiled_leads_to_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write(name: str, text: str) -> Path | None:
        (tmp_path / "planner" / name).write_text(text)
        return cache_folder()

    (tmp_path / "planner").mkdir()
    monkeypatch.setattr(compiled_cache, "PACKAGE", tmp_path / "planner")
    write("compiled.py", "")
    write("constants.py", "LIMIT = 1\n")
    imports = "from planner.compiled import compiled\nfrom planner.constants import LIMIT\n"
    first = write("quick.py", imports)
    assert write("unrelated.py", "LIMIT = 1\n") == first
    folders = {
        first,
        write("quick.py", imports + "\n"),
        write("constants.py", "LIMIT = 2\n"),
        write("compiled.py", "FLAGS = ()\n"),
        write("slow.py", imports),
    }
    assert len(folders) == 5
    write("slow.py", "")
    write("compiled.py", "")
    write("constants.py", "LIMIT = 1\n")
    assert write("quick.py", imports) == first


def test_the_cache_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache_folder()
    assert folder is not None
    assert Path(sys.prefix) in folder.parents
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert cache_folder() is None


def test_every_module_with_compiled_functions_counts() -> None:
    decorated = re.compile(r"^@(compiled|inner|inlined)$|\bnjit\b", re.MULTILINE)
    modules = (ROOT / "planner").rglob("*.py")
    found = {path for path in modules if decorated.search(path.read_text("utf-8"))}
    assert found - {ROOT / "planner" / "compiled.py"} == set(sources())
