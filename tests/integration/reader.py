"""A reader of the documents: a folder with the files that commands name, and a service to ask."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from client import demo
from planner.following.profile import planned
from planner.following.telemetry import TIMES
from tests.documented import ROOT
from tests.unit.calibration import cases

LIMIT_S, TRAINING_LIMIT_S = 3, 8
"""For a plan of any kind to be found on a busy machine."""
LIMIT = re.compile(r'("time_limit_s": )\d+')
WRITTEN = re.compile(r"(?: -o | > )([^\s|&]+)")
BEFORE = 'set -eu -o pipefail\ncurl() { command curl --fail-with-body "$@"; }\n'
"""Lines before those of a document: the first that fails ends them, an error of the API too."""
EXAMPLE = "planner/examples/gpt-14.2b-8xA100-40GB.json"
LONG: dict[str, Any] = {
    "model": "GPT-1.7B",
    "cluster": "4xA100-40GB",
    "training": {"micro_batches": 16, "pipeline_parallel": 4},
    "solver": {"time_limit_s": 300},
}
"""A job that takes so long unless it is told otherwise, or cancelled."""


@dataclass
class Reader:
    """Runs what documents say, with an address and ids of its own in place of theirs."""

    folder: Path
    server: str
    environment: dict[str, str]
    job_id: str = ""
    """A pipeline schedule that is there."""

    def write(self, name: str, content: Any) -> None:
        """A file in the folder, as YAML or JSON."""
        text = yaml.safe_dump(content) if name.endswith(".yaml") else json.dumps(content)
        (self.folder / name).write_text(text)

    def run(self, *command: str | Path) -> str:
        """What a command prints; fails if it does."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def run_shell(self, text: str) -> str:
        """Run lines of a shell, up to the first that fails; files that they name are written."""
        files = [self.folder / name for name in WRITTEN.findall(text)]
        for file in files:
            file.unlink(missing_ok=True)
        output = self.run("bash", "-c", BEFORE + self.here(text))
        assert [file.name for file in files if not file.exists() or not file.stat().st_size] == []
        return output

    def run_python(self, text: str) -> str:
        """Run a program."""
        return self.run(sys.executable, "-W", "error", "-c", self.here(text))

    def here(self, text: str) -> str:
        """Lines of a document as they are to be run here."""
        text = text.replace("http://127.0.0.1:8400", self.server)
        text = text.replace("https://plans.example", self.server)
        text = text.replace("localhost:8400", self.server.removeprefix("http://"))
        return _hurried(text, for_training="training-plans" in text)

    def start_job(self) -> str:
        """The id of a job that runs for some seconds."""
        return self.run(
            "loadmaster", "solve", "long.yaml", "--fresh", "--id-only", "--time-limit", "2"
        ).strip()

    def start_run(self) -> str:
        """The id of a training run that has a plan, and has reported."""
        request = cases.request_of(0)
        base, true = cases.base_of(request), cases.true_problem(request, cases.TRUE)
        stages = [
            {"stage": s}
            | {name: round(time) for name in TIMES if (time := planned(true, (s, name)))}
            for s in range(len(base.stages))
        ]
        body = {
            **request,
            "follow": {"warm_up": 0, "resolve_every": 10, "swap_lead": 5, "measure_over": 10},
            "plan": {"ops": [op._asdict() for op in cases.plan_of(base)]},
        }
        report = {"iterations": [{"iteration": i, "stages": stages} for i in range(8)]}
        with httpx.Client(base_url=self.server) as http:
            run = http.post("/v1/runs", json=body)
            assert run.status_code == 201, run.text
            run_id = str(run.json()["id"])
            told = http.post(f"/v1/runs/{run_id}/telemetry", json=report)
            assert told.is_success, told.text
        return run_id


@contextmanager
def reader_in(folder: Path) -> Iterator[Reader]:
    """One whose folder is like a checkout, with examples to be solved within seconds."""
    for example in (ROOT / "planner" / "examples").rglob("*.json"):
        copy = folder / example.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_hurried(example.read_text(), example.parent.name == "training"))
    for program, answer in (("sbatch", "Submitted batch job 1"), ("kubectl", "created")):
        _stand_in(folder / "bin" / program, answer)
    (folder / ".loadmaster-key").write_text("lm_key")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "START_WITHIN_S", 240.0)
        with demo._service(folder / "data") as server:
            path = (str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
            environment = {
                **os.environ,
                "PATH": ":".join(path),
                "PYTHONPATH": str(ROOT),
                "HOME": str(folder),
                "LOADMASTER_SERVER": server,
                "LOADMASTER_API_KEY": "lm_key",
            }
            reader = Reader(folder, server, environment)
            _write_files(reader)
            yield reader


def _hurried(text: str, for_training: bool) -> str:
    """A request, or a command with one, whose answer is wanted within seconds."""
    return LIMIT.sub(rf"\g<1>{TRAINING_LIMIT_S if for_training else LIMIT_S}", text)


def _stand_in(program: Path, answer: str) -> None:
    """A program that is not installed everywhere, and takes anything."""
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho {answer}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def _write_files(reader: Reader) -> None:
    """The files that commands name, and a job that is over."""
    body = json.loads((reader.folder / EXAMPLE).read_text())
    balanced = json.loads(
        (reader.folder / "planner/examples/balanced-4x8-problem.json").read_text()
    )
    for name in ("a.json", "b.yaml", "run.yaml"):
        reader.write(name, {**balanced, "name": name})
    reader.write("body.json", {key: body[key] for key in ("model", "cluster", "training")})
    reader.write("training.yaml", body)
    reader.write("long.yaml", LONG)
    stages = [{"stage": 0, "forward_ns": 5_000_000, "backward_input_ns": 6_000_000}]
    reader.write("run.jsonl", {"iteration": 20, "stages": stages})
    reader.job_id = reader.run("loadmaster", "solve", EXAMPLE, "--wait", "--id-only").strip()
    reader.run("loadmaster", "show", reader.job_id, "--output", "plan.json")
