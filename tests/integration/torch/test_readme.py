"""The README's way from a request to PyTorch, as its reader copies it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.demo import _service
from tests.integration.torch.processes import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
pytest.importorskip("torch")

BEFORE = "A schedule runs in PyTorch the same minute"


def commands() -> list[str]:
    """The lines of the block, which are one chain."""
    rest: str = (ROOT / "README.md").read_text().partition(BEFORE)[2]
    return rest.partition("```sh\n")[2].partition("```")[0].splitlines()


def test_the_four_lines_run_as_they_are(tmp_path: Path) -> None:
    install, *lines = commands()
    assert install == ".venv/bin/pip install torch==2.13.0 &&"
    assert [line.split()[0] for line in lines] == ["id=$(loadmaster", "loadmaster", "torchrun"]
    assert all(line.endswith("&&") for line in lines[:-1])
    for name in ("planner", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = Path(sys.executable).parent
    with _service(tmp_path / "data") as server:
        done = subprocess.run(
            ["bash", "-uc", "\n".join(lines)],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "LOADMASTER_SERVER": server,
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "schedule.csv").read_text().startswith("0F0,")
    assert "loss" in done.stdout
