"""What the docs list is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import app.errors
from app.errors import ServiceError
from app.settings import Settings
from benchmarks import results
from client.configuration import SECTIONS
from planner.cost.hardware import ClusterDocument, EfficiencyDocument, read_cluster
from planner.cost.hardware_presets import GPU_ALIASES, GPU_PRESETS
from planner.cost.model import ModelDocument
from planner.cost.model_presets import MODEL_PRESETS
from planner.cost.presets import known_names
from planner.cost.training import TrainingDocument
from planner.errors import SpecError
from planner.estimates.registry import ESTIMATES, REQUESTS
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
from planner.training.options import SolverDocument as TrainingSolverDocument
from planner.training.request import SearchDocument, TrainingRequest

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


def test_every_field_of_a_model_a_cluster_and_a_training_is_listed() -> None:
    section = API.partition("## Post")[2].partition("### Solver options")[0]
    for document in (ModelDocument, ClusterDocument, EfficiencyDocument, TrainingDocument):
        assert [n for n in document.model_fields if f"`{n}`" not in section] == []


def test_every_field_of_a_training_plans_request_is_listed() -> None:
    section = API.partition("## Training plans")[2].partition("## Estimates")[0]
    for document in (TrainingRequest, SearchDocument, TrainingSolverDocument):
        assert [n for n in document.model_fields if f"`{n}`" not in section] == []


@pytest.mark.parametrize("name", ESTIMATES)
def test_every_field_of_an_estimate_is_listed(name: str) -> None:
    section = API.partition("## Estimates")[2].partition("## Errors")[0]
    own = section.partition(f"| field of a{'n' if name[0] == 'o' else ''} {name} estimate")[2]
    table = own.partition("\n\n")[0]
    body = {"model": "GPT-2", "cluster": "4xA100-40GB", "training": {"micro_batches": 4}}
    known = {"assumptions", "warnings"}
    assert [
        key for key in ESTIMATES[name](body) if f"`{key}" not in table and key not in known
    ] == []
    assert [n for n in REQUESTS[name].model_fields if f"`{n}`" not in section] == []


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


def test_gpus_are_listed_as_the_errors_list_them() -> None:
    assert known_names(GPU_PRESETS, GPU_ALIASES) in " ".join(API.split())
    with pytest.raises(SpecError) as found:
        read_cluster("8xTPU")
    assert f"Known: {known_names(GPU_PRESETS, GPU_ALIASES)}." in found.value.remedy
    assert "H100-80GB (or H100)" in found.value.remedy


def test_every_error_code_is_listed() -> None:
    kinds = [
        kind
        for kind in vars(app.errors).values()
        if isinstance(kind, type) and issubclass(kind, ServiceError) and kind is not ServiceError
    ]
    expected = {kind.code for kind in kinds} - {"failed"}
    assert [code for code in expected if code not in API] == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_page_of_results_is_what_the_records_make() -> None:
    """`python -m benchmarks.results` makes it."""
    made = "\n".join(results.page(results.kept_records()))
    assert results.PAGE.read_text() == made


def test_every_picture_of_a_record_is_on_the_page_and_there() -> None:
    text = results.PAGE.read_text()
    for name, record in results.kept_records().items():
        for image in record["images"]:
            assert f"](images/results/{image})" in text, name
            assert (results.PAGE.parent / "images" / "results" / image).exists(), image
