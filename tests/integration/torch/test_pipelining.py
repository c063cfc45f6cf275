"""Exported schedules, run by PyTorch on four processes: numbers, memory and time are as planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
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
from tests.integration.torch import plans, timed
from tests.integration.torch.plans import LOOP, MICRO_BATCHES, V_SHAPE, Answer
from tests.integration.torch.processes import RANKS, ROOT, run_cases
from tests.integration.torch.profiles import profiles

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
torch = pytest.importorskip("torch")

LINE = tuple(range(RANKS))
UNEVEN = (0, 0, 1, 2, 3, 3)
EXACT = 1e-12
TIMES = {"forward_ns": 1000, "backward_input_ns": 1000, "backward_weight_ns": 800}
TIME_TOLERANCE = 0.05
ATTEMPTS = 3
IS_TIMED = os.environ.get("TORCH_TIMING") == "yes"
"""Times say something only where nothing else runs."""


PROFILES = ["deferred", "native", "native line", "native uneven", "fused line"]


def stock_answers(
    measured: Mapping[str, dict[str, Any]],
) -> dict[str, tuple[Answer, list[int]]]:
    """Seven schedules, and how many layers each stage has."""
    line = profiled_problem(measured["native line"], LINE)
    loop, v_shape = (profiled_problem(measured["native"], each) for each in (LOOP, V_SHAPE))
    uneven = profiled_problem(measured["native uneven"], UNEVEN)
    fused = profiled_problem(measured["fused line"], LINE, backward_weight_ns=0)
    return {
        "1F1B": (plans.classic(line, schedules.one_forward_one_backward_schedule), [2] * 4),
        "ZB-H1": (plans.classic(line, schedules.zero_bubble_h1_schedule), [2] * 4),
        "interleaved": (plans.classic(loop, schedules.interleaved_schedule, 2), [1] * 8),
        "V-shape": (plans.classic(v_shape, schedules.zero_bubble_v_schedule), [1] * 8),
        "ours": (plans.ours(v_shape), [1] * 8),
        "uneven stages": (
            plans.classic(uneven, schedules.zero_bubble_h1_schedule),
            [1, 2, 1, 1, 2, 1],
        ),
        "fused backward": (
            plans.classic(fused, schedules.one_forward_one_backward_schedule),
            [2] * 4,
        ),
    }


def profiled_problem(
    profile: dict[str, Any], devices: tuple[int, ...], **times: int
) -> PipelineProblem:
    """The bytes that `loadmaster profile` measured, with times that are the same in every run."""
    copies = {"offload_ns": 900, "reload_ns": 900}
    measured = zip(profile["stages"], devices, strict=True)
    return read_problem(
        {
            "micro_batches": MICRO_BATCHES,
            "devices": [{} for _ in range(RANKS)],
            "stages": [
                {**stage, "device": device, **TIMES, **copies, **times}
                for stage, device in measured
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
    measured = profiles(folder, PROFILES)
    cases: dict[str, dict[str, Any]] = {"stock": {}, "planned": {}}

    def add(kind: str, name: str, answer: Answer, layers: list[int], **more: Any) -> None:
        is_planned = kind == "planned"
        path = folder / f"{name}.{'json' if is_planned else 'csv'}"
        path.write_text((torch_schedule if is_planned else torch_csv)(answer, source(answer)))
        micro_batches = answer["problem"]["micro_batches"]
        own = {"path": str(path), "layers": layers, "micro_batches": micro_batches}
        cases[kind][name] = {**own, **more}
        answers[name] = answer

    for name, (answer, layers) in stock_answers(measured).items():
        add("stock", name, answer, layers)
    for name, answer in planned_answers(measured["deferred"]).items():
        add("planned", name, answer, [1] * 8, split="deferred")
    return run_cases(folder, cases)


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


@pytest.mark.parametrize("name", [*STOCK, *PLANNED])
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
    assert (offloads > 0) == (name in PLANNED)


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
def test_a_shorter_schedule_is_shorter_by_as_much(tmp_path: Path) -> None:
    timings = timed.measure(tmp_path, ATTEMPTS)
    for own in timings.values():
        assert own.median_s == pytest.approx(own.planned_s, rel=TIME_TOLERANCE), own
    ours, classic = timings[timed.OURS], timings[timed.CLASSIC]
    assert ours.median_s < classic.median_s
    planned = ours.planned_s / classic.planned_s
    assert ours.median_s / classic.median_s == pytest.approx(planned, rel=TIME_TOLERANCE)


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
