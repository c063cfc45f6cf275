"""`loadmaster import`: a file of another tool becomes a request, what is assumed is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from client.cli import main
from client.errors import EXIT_INPUT
from planner.cost.model import read_model
from tests.unit.client.importers.configurations import CONFIGURATIONS

TRACE = {
    "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": f"{op} 0 0", "ts": i * 10, "dur": 1}
        for i, op in enumerate("FB")
    ]
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, arguments)])


def test_a_configuration_is_printed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGURATIONS["Llama-3-8B"]))
    result = run("hf-config", tmp_path / "config.json")
    assert result.exit_code == 0
    assert read_model(json.loads(result.stdout)["model"]).layers == 32
    assert "note: Add `cluster`" in result.stderr


def test_compressed_traces_are_read_and_the_problem_is_written(tmp_path: Path) -> None:
    (tmp_path / "0.json.gz").write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    output = tmp_path / "problem.json"
    result = run("kineto", tmp_path / "0.json.gz", "-o", output)
    assert result.exit_code == 0
    assert json.loads(output.read_text())["problem"]["stages"][0]["forward_ns"] == 1000


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("hf-config", "{", "not valid JSON"),
        ("hf-config", "[]", "no JSON object"),
        ("hf-config", '{"model_type": "unknown"}', "Known: bert"),
        ("kineto", "{}", "traceEvents"),
        ("megatron-args", "echo", "--num-layers: is missing"),
        ("megatron-timers", "nothing", "is not in the log"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, kind: str, content: str, words: str) -> None:
    (tmp_path / "file").write_text(content)
    result = run(kind, tmp_path / "file")
    assert (result.exit_code, words in result.stderr) == (EXIT_INPUT, True)
    assert len(result.stderr.splitlines()) == 1


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "cannot be read" in run("hf-config", tmp_path / "absent").stderr
    (tmp_path / "broken.gz").write_bytes(b"no gzip")
    assert "cannot be read" in run("kineto", tmp_path / "broken.gz").stderr
    assert "takes one file" in run("hf-config", tmp_path / "a", tmp_path / "b").stderr


def test_topologies_become_clusters(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]")
    result = run("slurm-topology", tmp_path / "topology.conf")
    assert json.loads(result.stdout) == {"cluster": {"nodes": 4, "nodes_per_rack": 2}}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "8", "rack": "r"}
    (tmp_path / "nodes.json").write_text(json.dumps({"items": [{"metadata": {"labels": labels}}]}))
    result = run("kubernetes-nodes", tmp_path / "nodes.json", "--rack-label", "rack")
    assert json.loads(result.stdout)["cluster"]["gpu"] == "H200-141GB"


def test_a_rack_label_is_for_kubernetes_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("slurm-topology", tmp_path / "file", "--rack-label", "rack")
    assert (result.exit_code, "--rack-label" in result.stderr) == (EXIT_INPUT, True)
