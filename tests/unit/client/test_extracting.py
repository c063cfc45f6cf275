"""The command `extract`: what it writes, and one line for every mistake."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from client.cli import main

FACTORIES = """
import torch
from torch import nn

def layers():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), (torch.zeros(2, 8, 64),)

def nothing():
    return 1

def reader():
    return nn.Linear(4, 4), (torch.zeros(2, 4).sum().item(),)
"""


@pytest.fixture
def factories(tmp_path: Path) -> Path:
    path = tmp_path / "factories.py"
    path.write_text(FACTORIES)
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["extract", *map(str, words)])


@pytest.mark.torch
def test_graph_and_report_are_written(factories: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    graph, report = tmp_path / "graph.json", tmp_path / "report.json"
    result = run(f"{factories}:layers", "-o", graph, "--report", report)
    assert result.exit_code == 0, result.output
    body: dict[str, Any] = json.loads(graph.read_text())
    assert list(body) == ["graph"]
    assert body["graph"]["repeat"]["count"] == 3
    assert json.loads(report.read_text())["totals"]["parameters"] == 3 * 33_472
    assert "TransformerEncoder: 45 operators, 3 layers" in result.stderr
    assert "loadmaster shard" in result.stderr
    assert result.stdout == ""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "returned int. Return (module, example inputs)"),
        ("reader", "It is called with fake tensors"),
        ("missing", "there is no function 'missing'"),
    ],
)
def test_mistakes_of_a_factory_are_one_line(factories: Path, name: str, words: str) -> None:
    pytest.importorskip("torch")
    result = run(f"{factories}:{name}")
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_torch_the_remedy_is_named(
    factories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else found(name, *a)
    )
    result = run(f"{factories}:layers")
    assert result.exit_code == 2
    assert "pip install 'loadmaster[torch]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("some.py:factory", "--hf", "config.json")])
def test_either_a_factory_or_a_configuration(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "FACTORY" in result.stderr
