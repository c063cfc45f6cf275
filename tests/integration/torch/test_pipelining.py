"""Exported schedules, run by PyTorch on four processes: numbers, memory and time are as planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.export.format import Source
from planner.export.torch_csv.cells import Cell, parsed
from planner.export.torch_csv.write import write as torch_csv
from planner.export.torch_schedule.write import write as torch_schedule
from planner.pipeline.classic import schedules
from planner.pipeline.documents import read_problem
from planner.pipeline.effects import memory_effects
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Token
from tests.integration.torch import plans
from tests.integration.torch.plans import LOOP, MICRO_BATCHES, V_SHAPE, Answer

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
RANKS = 4
LINE = tuple(range(RANKS))
UNEVEN = (0, 0, 1, 2, 3, 3)
EXACT = 1e-12
NS_PER_S = 1_000_000_000
PADS = {"F": 0.3, "B": 0.54, "I": 0.3, "W": 0.24}
"""Seconds that operations take in real time."""
TIMES = {"forward_ns": 1000, "backward_input_ns": 1000, "backward_weight_ns": 800}
TIMED_MICRO_BATCHES = 4
TIME_TOLERANCE = 0.05
ATTEMPTS = 6
IS_TIMED = os.environ.get("TORCH_TIMING") == "yes"
"""Times say something only where nothing else runs."""
FUSED = {"backward_weight_ns": 0, "weight_grad_bytes": 0}


def stock_answers() -> dict[str, tuple[Answer, list[int]]]:
    """Seven schedules, and how many layers each stage has."""
    line = plans.problem_of(LINE)
    return {
        "1F1B": (plans.classic(line, schedules.one_forward_one_backward_schedule), [2] * 4),
        "ZB-H1": (plans.classic(line, schedules.zero_bubble_h1_schedule), [2] * 4),
        "interleaved": (
            plans.classic(plans.problem_of(LOOP), schedules.interleaved_schedule, 2),
            [1] * 8,
        ),
        "V-shape": (
            plans.classic(plans.problem_of(V_SHAPE), schedules.zero_bubble_v_schedule),
            [1] * 8,
        ),
        "ours": (plans.ours(plans.problem_of(V_SHAPE)), [1] * 8),
        "uneven stages": (
            plans.classic(plans.problem_of(UNEVEN), schedules.zero_bubble_h1_schedule),
            [1, 2, 1, 1, 2, 1],
        ),
        "fused backward": (
            plans.classic(
                plans.problem_of(LINE, **FUSED), schedules.one_forward_one_backward_schedule
            ),
            [2] * 4,
        ),
    }


def timed_answers() -> dict[str, Answer]:
    """1F1B, whose backward is one operation, and what the planner finds to be faster, at the times
    of `PADS`."""
    pads_ns = {kind: round(seconds * NS_PER_S) for kind, seconds in PADS.items()}
    forward = {"forward_ns": pads_ns["F"]}
    whole = {**FUSED, **forward, "backward_input_ns": pads_ns["B"]}
    split = {**forward, "backward_input_ns": pads_ns["I"], "backward_weight_ns": pads_ns["W"]}
    fused = plans.problem_of(LINE, TIMED_MICRO_BATCHES, **whole)
    return {
        "timed 1F1B": plans.classic(fused, schedules.one_forward_one_backward_schedule),
        "timed ours": plans.ours(plans.problem_of(LINE, TIMED_MICRO_BATCHES, **split)),
    }


def profiled_problem(document: dict[str, Any], devices: tuple[int, ...]) -> PipelineProblem:
    """The bytes that `loadmaster profile` measured, with times that are the same in every run."""
    copies = {"offload_ns": 900, "reload_ns": 900}
    measured = zip(document["problem"]["stages"], devices, strict=True)
    return read_problem(
        {
            "micro_batches": MICRO_BATCHES,
            "devices": [{} for _ in range(RANKS)],
            "stages": [
                {**stage, "device": device, **TIMES, **copies} for stage, device in measured
            ],
        }
    )


def planned_answers(profile: dict[str, Any]) -> dict[str, Answer]:
    """Schedules with offloads."""
    loop, v_shape = (profiled_problem(profile, devices) for devices in (LOOP, V_SHAPE))
    shared = plans.sharing_a_host(v_shape)
    return {
        "interleaved with offloads": plans.offloading(loop, schedules.interleaved_schedule, 2),
        "V-shape with offloads": plans.offloading(v_shape, schedules.zero_bubble_v_schedule),
        "ours with offloads": plans.ours_with_offloads(v_shape),
        "a shared host": plans.offloading(shared, schedules.zero_bubble_v_schedule),
    }


def started(arguments: list[str], **environment: str) -> subprocess.Popen[bytes]:
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, env=own)


def source(answer: Answer) -> Source:
    return Source("pipeline", answer)


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """What is run, by name; filled by `ranks`."""
    return {}


@pytest.fixture(scope="module")
def ranks(
    tmp_path_factory: pytest.TempPathFactory, answers: dict[str, Answer]
) -> list[dict[str, Any]]:
    """What each of four processes found; they run everything, to import PyTorch only once."""
    folder = tmp_path_factory.mktemp("torch")
    target = f"{FOLDER / 'model.py'}:profiled"
    profile = started(
        ["client", "profile", target, "--stages", "8", "--repeat", "1", "-o", f"{folder}/p.json"]
    )
    cases: dict[str, dict[str, Any]] = {"stock": {}, "timed": {}, "planned": {}}

    def add(kind: str, name: str, answer: Answer, layers: list[int], **more: Any) -> None:
        is_planned = kind == "planned"
        path = folder / f"{name}.{'json' if is_planned else 'csv'}"
        path.write_text((torch_schedule if is_planned else torch_csv)(answer, source(answer)))
        micro_batches = answer["problem"]["micro_batches"]
        own = {"path": str(path), "layers": layers, "micro_batches": micro_batches}
        cases[kind][name] = {**own, **more}
        answers[name] = answer

    for name, (answer, layers) in stock_answers().items():
        add("stock", name, answer, layers)
    for name, answer in (timed_answers() if IS_TIMED else {}).items():
        good_s = answer["schedule"]["makespan_ns"] / NS_PER_S * (1 + TIME_TOLERANCE)
        more = {"pads": PADS, "attempts": ATTEMPTS, "good_s": good_s}
        add("timed", name, answer, [2] * 4, **more)
    assert profile.wait() == 0
    document = json.loads((folder / "p.json").read_text())
    for name, answer in planned_answers(document).items():
        add("planned", name, answer, [1] * 8, split="deferred")
    (folder / "cases.json").write_text(json.dumps(cases))
    world = {"WORLD_SIZE": str(RANKS)}
    launch = ["tests.integration.torch.launch", str(folder)]
    processes = [started(launch, RANK=str(rank), **world) for rank in range(RANKS)]
    try:
        assert [process.wait() for process in processes] == [0] * RANKS
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]


STOCK = (*("1F1B", "ZB-H1", "interleaved", "V-shape", "ours", "uneven stages", "fused backward"),)
PLANNED = (
    *("interleaved with offloads", "V-shape with offloads"),
    *("ours with offloads", "a shared host"),
)


@pytest.mark.parametrize("name", [*STOCK, *PLANNED])
def test_losses_and_gradients_are_those_of_the_model(
    name: str, ranks: list[dict[str, Any]]
) -> None:
    for found in ranks:
        assert found[name]["loss"] <= EXACT
        assert found[name]["gradient"] <= EXACT


@pytest.mark.parametrize("name", PLANNED)
def test_memory_is_what_the_schedule_predicts(
    name: str, ranks: list[dict[str, Any]], answers: dict[str, Answer]
) -> None:
    answer = answers[name]
    problem = read_problem(answer["problem"])
    document = json.loads(torch_schedule(answer, source(answer)))
    offloads = 0
    for found, predicted in zip(ranks, document["ranks"], strict=True):
        levels, peaks = found[name]["levels"], found[name]["peaks"]
        assert [action for action, _ in levels] == predicted["actions"]
        offloads += sum(cell(action).kind == "O" for action, _ in levels)
        expected_peak = predicted["peak_bytes_in_turn"]
        used = 0
        for action, level in levels:
            used += change(problem, cell(action))
            assert level == pytest.approx(used, abs=expected_peak / 100), action
        peak = max(own for _, own in (*levels, *peaks))
        assert peak == pytest.approx(expected_peak, rel=0.01)
    assert offloads > 0


def cell(action: str) -> Cell:
    found = parsed(action)
    assert found is not None
    return found


def change(problem: PipelineProblem, own: Cell) -> int:
    """What an operation leaves of what it allocates, in bytes."""
    token = Token("B" if own.kind == "I" else own.kind, own.stage, own.micro_batch)
    effects = memory_effects(problem, token)
    return sum(more - less for (kind, _), more, less in effects if kind == "device")


@pytest.mark.skipif(not IS_TIMED, reason="measures time: TORCH_TIMING=yes on a quiet machine")
def test_a_shorter_schedule_is_shorter_by_as_much(
    ranks: list[dict[str, Any]], answers: dict[str, Answer]
) -> None:
    measured = {}
    for name in ("timed 1F1B", "timed ours"):
        planned_s = answers[name]["schedule"]["makespan_ns"] / NS_PER_S
        attempts = ranks[0][name]
        measured[name] = min(attempts)
        assert measured[name] == pytest.approx(planned_s, rel=TIME_TOLERANCE), attempts
    assert measured["timed ours"] < 0.9 * measured["timed 1F1B"]


@pytest.mark.parametrize(("write", "suffix"), [(torch_csv, "csv"), (torch_schedule, "json")])
def test_the_example_learns_by_an_exported_schedule(
    write: Callable[[Answer, Source], str], suffix: str, tmp_path: Path
) -> None:
    problem = plans.problem_of((0, 1, 1, 0))
    answer = plans.classic(problem, schedules.zero_bubble_v_schedule)
    path = tmp_path / f"schedule.{suffix}"
    path.write_text(write(answer, source(answer)))
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", *launch, "examples/torch/train.py", str(path), "--steps", "10"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, last = (float(line.split("loss ")[1]) for line in done.stdout.splitlines())
    assert last < first
