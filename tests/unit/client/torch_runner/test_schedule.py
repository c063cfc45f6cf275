"""What the runner reads, what it refuses, and where offloads go among PyTorch's own actions."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from client.torch_runner import load_schedule, private_names  # noqa: E402
from client.torch_runner.errors import ScheduleError, UnsupportedTorch  # noqa: E402
from client.torch_runner.runtime import woven  # noqa: E402
from client.torch_runner.schedule import Action, read_schedule  # noqa: E402

ROOT = Path(__file__).parents[4]
DOCUMENT: dict[str, Any] = {
    "format": "loadmaster-torch-schedule",
    "version": 1,
    "micro_batches": 2,
    "stages": [{"rank": 0, "split": True}, {"rank": 1, "split": False}],
    "ranks": [
        {
            "actions": ["0F0", "0O0", "0F1", "0R0", "0I0", "0W0", "0I1", "0W1"],
            "after": {"0F1": ["0O0"], "0R0": ["1B0"]},
            "peak_bytes": 2,
            "peak_bytes_in_turn": 1,
        },
        {
            "actions": ["1F0", "1B0", "1F1", "1B1"],
            "after": {},
            "peak_bytes": 1,
            "peak_bytes_in_turn": 1,
        },
    ],
}


def test_a_schedule_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(DOCUMENT))
    schedule = load_schedule(path)
    assert schedule.rank_of_stage == (0, 1)
    assert schedule.is_split == (True, False)
    assert schedule.has_offloads
    assert schedule.stages_of(1) == [1]
    assert schedule.after[Action(0, "R", 0)] == (Action(1, "B", 0),)
    # Rank 0 waits for an operation of rank 1.
    assert schedule.awaited_elsewhere(1) == {Action(1, "B", 0)}
    assert schedule.awaited_elsewhere(0) == frozenset()


def actions_of(rank: int, *actions: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["ranks"][rank].update(actions=list(actions))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="csv"), "no schedule for the runner"),
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d.pop("ranks"), "damaged"),
        (actions_of(1, "1F0", "1B0", "1F1", "1B1x"), "no action"),
        (actions_of(1, "1F0", "1B0", "1F1", "1F1", "1B1"), "twice"),
        (actions_of(1, "1F0", "1B0", "1F1"), "F of micro-batch 1"),
        (actions_of(1, "1F0", "1B0", "1B1", "1F1"), "before 1F1"),
        (actions_of(1, "1F1", "1B1", "1F0", "1B0"), "out of order"),
        (actions_of(1, "1F0", "1B0", "1F2", "1B2"), "2 micro-batches"),
        (actions_of(1, "1F0", "1B0", "0F1", "1B1"), "no stage 0"),
        (actions_of(1, "1F0", "1R0", "1O0", "1B0", "1F1", "1B1"), "before 1O0"),
        (actions_of(1, "1F0", "1O0", "1B0", "1F1", "1B1"), "only together"),
        (actions_of(1, "1F0", "1O0", "1B0", "1R0", "1F1", "1B1"), "before 1R0"),
        (lambda d: d["ranks"][0]["after"].update({"0F1": ["1O0"]}), "no rank runs 1O0"),
    ],
)
def test_a_schedule_that_would_run_wrongly_is_refused(
    change: Callable[[dict[str, Any]], None], words: str
) -> None:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    with pytest.raises(ScheduleError, match=words):
        read_schedule(document)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="no schedule could be read"):
        load_schedule(tmp_path / "none.json")


def test_offloads_come_after_what_the_forward_sends() -> None:
    parse = private_names.RuntimeAction.from_str
    lowered = ["0UNSHARD", "0F0", "0SEND_F0", "0F1", "0RECV_B0", "0SEND_F1", "0I0", "0W0"]
    planned = [Action(0, "F", 0), Action(0, "O", 0), Action(0, "F", 1), Action(0, "R", 0)]
    planned += [Action(0, "I", 0), Action(0, "W", 0)]
    order = [str(action) for action in woven([parse(text) for text in lowered], planned)]
    assert order == [
        *("0UNSHARD", "0F0", "0SEND_F0", "0RESHARD0", "0F1", "0UNSHARD0", "0RECV_B0"),
        *("0SEND_F1", "0I0", "0W0"),
    ]


def test_a_pytorch_without_a_private_name_is_refused() -> None:
    with pytest.raises(UnsupportedTorch, match=r"no torch\._C\._no_such_name.*2\.12 to 2\.14"):
        private_names._name("torch._C", "_no_such_name")


def test_the_runner_needs_pytorch_and_nothing_else() -> None:
    code = (
        "import sys, client.torch_runner; "
        "print({'httpx', 'planner', 'click', 'pydantic', 'rich'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_the_check_on_a_gpu_says_that_there_is_none() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/gpu-check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout.strip()) == (2, "no CUDA device")
