"""What the docs list is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import app.errors
from app.errors import ServiceError
from app.settings import Settings
from client.configuration import SECTIONS
from planner.cost.hardware_presets import GPU_PRESETS
from planner.cost.model_presets import MODEL_PRESETS
from planner.pipeline.documents import DeviceDocument, ProblemDocument, StageDocument
from planner.pipeline.options import SolverDocument
from planner.sharding.documents import (
    GraphDocument,
    OperatorDocument,
    ParameterDocument,
    RepeatDocument,
    TensorDocument,
)
from planner.sharding.options import SolverDocument as ShardingSolverDocument
from planner.sharding.request import ShardingRequest, TermsDocument
from planner.sharding.training import ShardingTrainingDocument

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "api.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_every_setting_is_listed_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        assert f"`LOADMASTER_{name.upper()}`" in OPERATIONS
        if isinstance(field.default, int | float):
            assert f"| `LOADMASTER_{name.upper()}` | `{field.default}` |" in OPERATIONS


def test_every_configuration_key_is_listed() -> None:
    for section, keys in SECTIONS.items():
        for key in keys:
            assert key in API, f"{section}.{key}"


def test_every_solver_option_and_field_of_a_problem_is_listed() -> None:
    documents = (SolverDocument, ProblemDocument, DeviceDocument, StageDocument)
    for document in documents:
        assert [n for n in document.model_fields if n not in API] == []


def test_every_field_of_a_sharding_request_is_listed() -> None:
    section = API.partition("## Sharding plans")[2].partition("## Errors")[0]
    documents = (
        ShardingRequest,
        TermsDocument,
        ShardingTrainingDocument,
        ShardingSolverDocument,
        GraphDocument,
        TensorDocument,
        OperatorDocument,
        ParameterDocument,
        RepeatDocument,
    )
    for document in documents:
        assert [n for n in document.model_fields if n not in section] == []


def test_every_preset_is_listed() -> None:
    assert [name for name in MODEL_PRESETS if name not in API] == []
    short = [name.split("-")[0] for name in GPU_PRESETS]
    assert [name for name in short if name not in API] == []


def test_every_error_code_is_listed() -> None:
    kinds = [
        kind
        for kind in vars(app.errors).values()
        if isinstance(kind, type) and issubclass(kind, ServiceError) and kind is not ServiceError
    ]
    expected = {kind.code for kind in kinds} - {"failed", "internal_error"}
    assert [code for code in expected if code not in API] == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
