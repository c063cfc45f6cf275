"""`loadmaster profile`: the problem, the raw figures beside it, and a table."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from client.cli import main
from client.errors import EXIT_INPUT
from planner.pipeline.documents import read_problem
from tests.unit.client.torch_profile.tiny import TINY_PIPELINE


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["profile", *map(str, arguments)])


def test_without_pytorch_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run(tmp_path / "file.py:factory", "--stages", "2")
    assert result.exit_code == EXIT_INPUT
    assert result.stderr == (
        "error: profile: needs PyTorch. Run: pip install 'loadmaster[torch]'\n"
    )


def test_the_command_line_does_not_import_pytorch() -> None:
    program = "import sys, client.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.torch
def test_measuring_needs_pytorch_only() -> None:
    pytest.importorskip("torch")
    program = (
        "import sys, client.torch_profile.run as _; "
        "sys.exit(bool({'httpx', 'planner', 'pydantic', 'click'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.torch
def test_a_profile_is_written_and_shown(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file, output = tmp_path / "tiny_pipeline.py", tmp_path / "out.json"
    file.write_text(TINY_PIPELINE)
    result = run(
        f"{file}:stages", "--stages", "3", "--micro-batches", "5", "--repeat", "3",
        "--split", "native", "--link-bytes-per-s", "1e9", "--link-latency-ns", "7", "-o", output,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    problem = read_problem(json.loads(output.read_text())["problem"])
    assert (problem.micro_batches, len(problem.stages)) == (5, 3)
    assert problem.name is not None
    assert "PyTorch's native split" in problem.name
    # 2 samples of 16 tokens, 32 wide, in fp32, at 1 GB/s.
    assert problem.transfers[0].forward_ns[0] == 7 + 4096
    assert all(stage.offload_bytes[0] and stage.offload_ns[0] for stage in problem.stages)

    raw = json.loads((tmp_path / "out.profile.json").read_text())
    assert raw["split"] == "native"
    assert raw["machine"]["threads"] == 1
    assert {"torch", "measured_at", "device_name", "load_average"} <= raw["machine"].keys()
    assert len(raw["stages"][2]["operations"]["I"]["samples_ns"]) == 3
    assert any("native split" in sentence for sentence in raw["assumptions"])
    for words in ("PyTorch's native split", "Stage", "KiB", "I of stage 0 does nothing"):
        assert words in result.stdout


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cuda:0", "nonsense"])
def test_a_device_that_is_not_there_is_refused(tmp_path: Path, device: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available() and device == "cuda:0":
        pytest.skip("there is a GPU")
    result = run(tmp_path / "f.py:f", "--stages", "1", "--device", device)
    assert result.exit_code == EXIT_INPUT
    assert "--device" in result.stderr
