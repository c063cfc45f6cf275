"""Schedules that change while four processes train: all at once, without a trace in gradients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.export.format import Source
from planner.export.torch_schedule.write import write as torch_schedule
from planner.pipeline.classic import schedules
from tests.integration.torch import plans
from tests.integration.torch.plans import V_SHAPE, Answer
from tests.integration.torch.processes import RANKS, ROOT, started
from tests.run_service import RUN_ID, ScriptedRuns

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
torch = pytest.importorskip("torch")

EXACT = 1e-12
LONGEST_S = 240.0
COPIES = {"offload_bytes": 36, "offload_ns": 900, "reload_ns": 900}


def answers() -> list[Answer]:
    """Four schedules of the same stages; the second one offloads, and its ranks wait for each
    other."""
    problem = plans.problem_of(V_SHAPE)
    shared = plans.sharing_a_host(plans.problem_of(V_SHAPE, **COPIES))
    return [
        plans.classic(problem, schedules.zero_bubble_v_schedule),
        plans.offloading(shared, schedules.zero_bubble_v_schedule),
        plans.classic(problem, schedules.v_half_schedule),
        plans.classic(problem, schedules.v_min_schedule),
    ]


class Ranks:
    """Four processes, and what the script has heard of them."""

    def __init__(self, folder: Path, script: ScriptedRuns, address: str) -> None:
        self.script = script
        launch = ["tests.integration.torch.following", str(folder), address]
        self.processes = [
            started(launch, RANK=str(rank), WORLD_SIZE=str(RANKS)) for rank in range(RANKS)
        ]

    def until(self, is_so: Callable[[], Any]) -> None:
        """Wait for what ranks do."""
        ends = time.monotonic() + LONGEST_S
        while not is_so():
            assert all(process.poll() is None for process in self.processes), "a rank has ended"
            assert time.monotonic() < ends, "ranks do not get on"
            time.sleep(0.05)

    def until_all_run(self, version: int) -> None:
        """Wait until every stage was reported under a version."""

        def stages() -> set[int]:
            with self.script.lock:
                return {
                    stage["stage"]
                    for sample in self.script.samples
                    if sample.get("plan_version") == version
                    for stage in sample["stages"]
                }

        self.until(lambda: len(stages()) == len(V_SHAPE))

    def go_on(self, iterations: int) -> None:
        """Wait for so many more iterations to be reported."""
        after = self.script.newest_iteration + iterations
        self.until(lambda: self.script.newest_iteration >= after)

    def results(self, folder: Path) -> list[dict[str, Any]]:
        """What each found, once all have ended well."""
        assert [process.wait(LONGEST_S) for process in self.processes] == [0] * RANKS
        return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]

    def kill(self) -> None:
        """Nothing is left."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def script() -> ScriptedRuns:
    return ScriptedRuns(ranks=RANKS)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, script: ScriptedRuns) -> list[dict[str, Any]]:
    """Swaps 1, 2 and 4; 3 is due on three ranks only; then the service is away."""
    folder = tmp_path_factory.mktemp("following")
    first, second, third, fourth = answers()
    (folder / "otherwise.json").write_text(torch_schedule(first, Source("pipeline", first)))
    script.publish(**first)
    with script.served() as address:
        ranks = Ranks(folder, script, address)
        try:
            ranks.until_all_run(1)
            script.publish(**second)
            ranks.until_all_run(2)
            script.publish(apply_at=script.newest_iteration + 2, **third)
            ranks.go_on(20)
            script.publish(**fourth)
            ranks.until_all_run(4)
        except BaseException:
            ranks.kill()
            raise
    # From here on nobody answers.
    try:
        time.sleep(1)
        (folder / "stop").touch()
        return ranks.results(folder)
    finally:
        ranks.kill()


def test_losses_and_gradients_are_those_of_the_model(found: list[dict[str, Any]]) -> None:
    for own in found:
        assert own["run"] == RUN_ID
        assert len(own["followed"]) > 20
        for iteration in (*own["followed"], *own["alone"]):
            assert iteration["loss"] <= EXACT
            assert iteration["gradient"] <= EXACT


def test_all_ranks_run_the_same_version_in_each_iteration(found: list[dict[str, Any]]) -> None:
    versions = [[iteration["version"] for iteration in own["followed"]] for own in found]
    assert versions[1:] == versions[:1] * (RANKS - 1)
    # The third was due on three ranks, and one could not have it.
    assert list(dict.fromkeys(versions[0])) == [1, 2, 4]


def test_another_version_is_another_order(found: list[dict[str, Any]]) -> None:
    for own in found:
        order_of = {own["version"]: own["order"] for own in own["followed"]}
        assert order_of[1] != order_of[2] != order_of[4] != order_of[1]
        assert any("RESHARD" in action for action in order_of[2])
        for iteration in own["followed"]:
            assert iteration["order"] == order_of[iteration["version"]]


def test_no_rank_switches_before_the_iteration_that_was_set(
    found: list[dict[str, Any]], script: ScriptedRuns
) -> None:
    for version in (2, 4):
        begins = min(
            iteration["iteration"]
            for iteration in found[0]["followed"]
            if iteration["version"] == version
        )
        assert begins >= script.plans[version]["apply_at_iteration"]


def test_every_rank_says_what_its_stages_take(
    found: list[dict[str, Any]], script: ScriptedRuns
) -> None:
    fields = {"forward_ns", "backward_input_ns", "backward_weight_ns"}
    for sample in script.samples:
        assert sample["iteration_ns"] > 0
        for stage in sample["stages"]:
            assert fields <= set(stage)
            assert all(value > 0 for name in fields for value in stage[name].values())
    offloads = {
        sample["plan_version"]
        for sample in script.samples
        for stage in sample["stages"]
        if "offload_ns" in stage
    }
    assert offloads == {2}


def test_the_example_learns_under_a_run() -> None:
    script = ScriptedRuns(ranks=2)
    answer = plans.classic(plans.problem_of((0, 1)), schedules.zero_bubble_h1_schedule)
    script.publish(**answer)
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with script.served() as address:
        done = subprocess.run(
            [sys.executable, "-m", *launch, "examples/torch/follow.py", "--iterations", "40"],
            cwd=ROOT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
                "LOADMASTER_SERVER": address,
            },
            capture_output=True,
            text=True,
            check=True,
        )
    first, last = (float(line.split("loss ")[1].split(",")[0]) for line in done.stdout.splitlines())
    assert last < first
    assert script.newest_iteration == 39
    assert set(script.acknowledged[1]) == {0, 1}


def test_without_a_service_training_is_as_planned_otherwise(found: list[dict[str, Any]]) -> None:
    for own in found:
        assert [iteration["version"] for iteration in own["alone"]] == [None, None]
