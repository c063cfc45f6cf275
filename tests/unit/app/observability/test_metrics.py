"""What is counted, and that several processes' counts are added up, those of the dead too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.models import Solve, SolveState
from app.observability import metrics
from app.observability.metrics import REGISTRY, relative_gap, size_class
from app.observability.process_files import FOLDER_VARIABLE, merge_ended

ROOT = Path(__file__).resolve().parents[4]


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def ended(**columns: object) -> Solve:
    known = {"kind": "pipeline", "engine": "cbc", "operations": 3, "spent_ms": 1500}
    return Solve(**{**known, **columns})


def test_sizes_and_gaps() -> None:
    sizes = [size_class(operations) for operations in (1, 999, 1_000, 10_000, 99_999, 100_000)]
    assert sizes == ["small", "small", "medium", "large", "large", "huge"]
    assert relative_gap(200, 150) == 0.25
    assert relative_gap(200, 210) == 0.0
    assert relative_gap(0, 0) == 0.0
    assert relative_gap(0, -1) is None
    assert relative_gap(None, 1) is relative_gap(1, None) is None


def test_an_attempt_that_ends_a_solve_is_counted_with_the_solve() -> None:
    labels = {"kind": "pipeline", "engine": "cbc", "state": "succeeded", "size": "small"}
    by_ending = {"kind": "pipeline", "engine": "cbc", "ending": "answered"}
    by_engine = {"kind": "pipeline", "engine": "cbc"}
    names = ("loadmaster_solve_duration_seconds_count", "loadmaster_solve_duration_seconds_sum")
    before = [value(name, **labels) for name in names]
    attempts = value("loadmaster_attempts_total", **by_ending)
    gaps = value("loadmaster_gap_ratio_sum", **by_engine)
    solve = ended(state=SolveState.SUCCEEDED, best_objective=100, lower_bound=80)
    metrics.attempt_ended(solve, "answered")
    assert [value(name, **labels) - b for name, b in zip(names, before, strict=True)] == [1, 1.5]
    assert value("loadmaster_attempts_total", **by_ending) - attempts == 1
    assert value("loadmaster_gap_ratio_sum", **by_engine) - gaps == pytest.approx(0.2)


def test_an_attempt_after_which_another_follows_ends_no_solve() -> None:
    labels = {"kind": "pipeline", "engine": "cbc", "state": "queued", "size": "small"}
    metrics.attempt_ended(ended(state=SolveState.QUEUED), "crashed")
    assert value("loadmaster_solve_duration_seconds_count", **labels) == 0
    crashed = {"kind": "pipeline", "engine": "cbc", "ending": "crashed"}
    assert value("loadmaster_attempts_total", **crashed) >= 1


def test_a_stream_is_open_until_its_block_ends() -> None:
    before = value("loadmaster_event_streams")
    with metrics.event_stream(), metrics.event_stream():
        assert value("loadmaster_event_streams") - before == 2
    assert value("loadmaster_event_streams") == before


COUNT = """
import sys
from app.observability import metrics
metrics.job_taken_on("pipeline", "hit")
metrics.webhook_tried("delivered", 0.3)
metrics.worker_slots(3)
print("counted", flush=True)
sys.stdin.read()
"""
SHOW = """
from app.observability import metrics
from app.observability.exposition import Exposition
metrics.job_taken_on("pipeline", "hit")
print(Exposition().render().decode())
"""


def run(folder: Path, script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, FOLDER_VARIABLE: str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def shown(folder: Path) -> dict[str, float]:
    text, _ = run(folder, SHOW).communicate(timeout=60)
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    wanted = ("loadmaster_jobs_total", "loadmaster_worker_slots")
    found = {sample.name: sample.value for sample in samples if sample.name in wanted}
    delivered = {"outcome": "delivered", "le": "0.5"}
    buckets = [sample.value for sample in samples if sample.labels == delivered]
    return {**found, "delivered": sum(buckets)}


def test_counts_of_all_processes_are_added_up_and_outlive_them(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    counting = [run(folder, COUNT) for _ in range(2)]
    for process in counting:
        assert process.stdout is not None
        assert process.stdout.readline() == "counted\n"
    assert shown(folder) == {
        "loadmaster_jobs_total": 3,
        "loadmaster_worker_slots": 6,
        "delivered": 2,
    }
    for process in counting:
        process.kill()
        process.communicate()
    # What they had open is gone with them; what they counted is not, however often it is merged.
    merge_ended(folder)
    merge_ended(folder)
    assert shown(folder) == {
        "loadmaster_jobs_total": 4,
        "loadmaster_worker_slots": 0,
        "delivered": 2,
    }
    merge_ended(folder)
    names = sorted(path.name for path in folder.glob("*.db"))
    assert names == ["counter_ended.db", "histogram_ended.db"]


def test_a_file_that_a_killed_process_had_not_finished_is_dropped(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("counter", "histogram"):
        (tmp_path / f"{name}_{ended.pid}.db").write_bytes(
            b"" if name == "counter" else b"\xff" * 99
        )
    merge_ended(tmp_path)
    assert not list(tmp_path.glob(f"*_{ended.pid}.db"))
    assert shown(tmp_path)["loadmaster_jobs_total"] == 1


def test_a_process_that_is_forked_while_others_count_can_count(tmp_path: Path) -> None:
    script = """
import os, threading
from app.observability import metrics
for _ in range(4):
    threading.Thread(
        target=lambda: [metrics.database_failed() for _ in range(10**9)], daemon=True
    ).start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        metrics.broker_failed()
        os._exit(0)
    os.waitpid(child, 0)
print("counted", flush=True)
os._exit(0)
"""
    counting = run(tmp_path / "metrics", script)
    try:
        output, _ = counting.communicate(timeout=60)
    finally:
        counting.kill()
    assert output == "counted\n"


def test_a_process_that_lives_keeps_its_files(tmp_path: Path) -> None:
    mine, theirs = tmp_path / f"counter_{os.getpid()}.db", tmp_path / "counter_1.db"
    for path in (mine, theirs):
        path.touch()
    merge_ended(tmp_path)
    assert mine.exists()
    assert theirs.exists()
