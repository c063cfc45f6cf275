"""From a Hugging Face config.json to a plan in the formats that name the model's modules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from client.extracting import extract_command  # noqa: E402
from client.torch_extract.huggingface import build_model, read_config  # noqa: E402
from planner.export.format import Source  # noqa: E402
from planner.export.registry import export  # noqa: E402
from tests.unit.client.torch_extract.test_huggingface import CONFIGURATIONS  # noqa: E402
from tests.unit.sharding.posted import document  # noqa: E402

pytestmark = pytest.mark.torch
FORMATS = {"dtensor-json": "modules", "transformers-tp-plan": "tp_plan"}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_becomes_a_plan_of_its_modules(name: str, tmp_path: Path) -> None:
    CONFIGURATIONS[name]().save_pretrained(tmp_path)
    sizes = ["--batch", "4", "--sequence", "16", "-o", str(tmp_path / "graph.json")]
    done = CliRunner().invoke(extract_command, ["--hf", str(tmp_path), *sizes])
    assert done.exit_code == 0, done.output
    request = {**json.loads((tmp_path / "graph.json").read_text()), "devices": 4}
    source = Source("sharding", document(request), request, "plan")
    model, _ = build_model(read_config(tmp_path), batch=4, sequence=16)
    modules = {re.sub(r"(?<![^.])\d+(?![^.])", "*", path) for path, _ in model.named_modules()}
    for wanted, key in FORMATS.items():
        written = json.loads(export(source, wanted)[1])
        paths = {own["path"] if isinstance(own, dict) else own for own in written[key]}
        assert paths <= modules
        # What is no module is listed, experts above all.
        assert any("experts" in own for own in written["not_expressed"]) == (name == "mixtral")
    # Of GPT-2, whose projections are no nn.Linear, embedding, norms and output layer.
    least = 5 if name == "gpt2" else 6
    assert len(json.loads(export(source, "dtensor-json")[1])["modules"]) >= least
