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


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def stages():\n    return Layer()\n", "raised NameError: name 'Layer' is not defined"),
        ("stages = Layer\n", "cannot be imported: NameError: name 'Layer' is not defined"),
        ("def stages(\n", "cannot be imported: SyntaxError"),
    ],
)
def test_a_factory_that_fails_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    pytest.importorskip("torch")
    file = tmp_path / f"failing_{len(text)}.py"
    file.write_text(text)
    result = run(f"{file}:stages", "--stages", "1", "-o", tmp_path / "out.json")
    assert result.exit_code == EXIT_INPUT
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.torch
def test_the_docs_pipeline_is_profiled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    docs = Path(__file__).parents[3].joinpath("docs", "from-a-model.md").read_text()
    section = docs.partition("## Profile on your machine")[2]
    text = section.partition("```python\n")[2].partition("```")[0]
    # Its model, made small.
    for size, smaller in (("50257", "97"), ("768, 12, 3072", "24, 2, 48"), ("768", "24")):
        assert size in text
        text = text.replace(size, smaller)
    file = tmp_path / "docs_pipeline.py"
    file.write_text(text.replace("1024", "16"))
    options = ("--stages", "4", "--micro-batches", "8", "--repeat", "1")
    result = run(f"{file}:pipeline", *options, "-o", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
