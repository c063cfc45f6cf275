"""Whatever is wrong with a document, the error says what would be accepted."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, StrictBool, ValidationError

from planner.documents import (
    LARGEST_VALUE,
    LONGEST_LIST,
    MOST_FIELDS,
    Document,
    FiniteNumber,
    PerMicroBatch,
    PositiveWhole,
    WholeNumber,
    complaint_and_remedy,
    spec_error_from,
)
from planner.errors import SpecError
from planner.pipeline.request import resolve_request as resolve_pipeline
from planner.sharding.request import resolve_request as resolve_sharding

Body = dict[str, Any]


FIELDS = {str(number): 0 for number in range(MOST_FIELDS + 1)}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(Document):
    size: PositiveWhole


class Sample(Document):
    """A field of each kind that documents have."""

    part: Part = Part(size=1)
    count: WholeNumber = 0
    stage: Annotated[WholeNumber, Field(le=3)] = 0
    weight: Annotated[FiniteNumber, Field(ge=0, le=1e9)] = 0.0
    gap: Annotated[FiniteNumber, Field(gt=0, lt=0.5)] = 0.1
    name: Annotated[str, Field(min_length=1, max_length=5)] = "a"
    names: Annotated[list[str], Field(min_length=1, max_length=2)] = Field(default=["a"])
    by_name: dict[str, str] = Field(default={})
    either: str | dict[str, Any] = "a"
    times: PerMicroBatch = 1
    engine: Literal["cbc", "highs"] = "cbc"
    colour: Colour = Colour.RED
    is_on: StrictBool = False
    link: Annotated[str, Field(pattern="^a")] = "a"


def problem_of(body: Body) -> SpecError:
    with pytest.raises(ValidationError) as found:
        Sample.model_validate(body)
    return spec_error_from(found.value, ("sample",))


@pytest.mark.parametrize(
    ("body", "path", "message", "remedy"),
    [
        ({"part": {}}, "part.size", "is required.", "Give `size`."),
        ({"part": 5}, "part", "must be an object.", 'Write it in braces: {"field": value}.'),
        ({"part": FIELDS}, "part", "must have at most 1000 fields.", "Remove unknown ones."),
        ({"size": 5}, "size", "is not a known field.", "Remove it or check its spelling."),
        ({"count": 1.5}, "count", "must be a whole number.", "without quotes or a fraction"),
        ({"count": True}, "count", "must be a whole number.", "such as 8"),
        ({"count": float("inf")}, "count", "must be a whole number.", "such as 8"),
        ({"count": -1}, "count", "greater than or equal to 0.", "Give 0 or more."),
        ({"count": 2**60}, "count", "less than", f"Give {LARGEST_VALUE} or less."),
        ({"stage": 4}, "stage", "less than or equal to 3.", "Give 3 or less."),
        ({"weight": -1}, "weight", "greater than or equal to 0.", "Give 0 or more."),
        ({"weight": 2e9}, "weight", "less than or equal to", "Give 1000000000 or less."),
        ({"weight": "1"}, "weight", "must be a number.", "without quotes, such as 8 or 0.5."),
        ({"weight": 10**400}, "weight", "must be a finite number.", "Give a smaller one."),
        ({"weight": float("nan")}, "weight", "not NaN or Infinity.", "such as 8 or 0.5."),
        ({"gap": 0}, "gap", "greater than 0.", "Give more than 0."),
        ({"gap": 0.5}, "gap", "less than 0.5.", "Give less than 0.5."),
        ({"name": ""}, "name", "at least 1 character.", "Give 1 or more characters."),
        ({"name": "a" * 6}, "name", "at most 5 characters.", "Shorten it to 5 characters."),
        ({"name": 5}, "name", "must be a text.", 'Write it in quotes: "text".'),
        ({"names": []}, "names", "at least 1 item", "Give 1 or more entries."),
        ({"names": ["a"] * 3}, "names", "at most 2 items", "Give at most 2 entries."),
        ({"names": "a"}, "names", "must be a list.", "a single entry too: [entry]."),
        ({"by_name": []}, "by_name", "must be an object.", "in braces"),
        ({"by_name": {"str": 5}}, "by_name.str", "must be a text.", "in quotes"),
        ({"either": 5}, "either", "must be a text or an object.", "Give a text or an object."),
        ({"times": [1, "a"]}, "times.1", "must be a whole number.", "such as 8"),
        ({"times": [0] * (LONGEST_LIST + 1)}, "times", "at most 100000", "Give fewer of them."),
        ({"engine": "gurobi"}, "engine", "'cbc' or 'highs'", "Choose 'cbc' or 'highs'."),
        ({"colour": "green"}, "colour", "'red' or 'blue'", "Choose 'red' or 'blue'."),
        ({"is_on": 1}, "is_on", "must be true or false.", "Write either without quotes."),
        ({"link": "b"}, "link", "should match pattern", "/docs"),
    ],
)
def test_every_kind_of_mistake_has_a_remedy(
    body: Body, path: str, message: str, remedy: str
) -> None:
    problem = problem_of(body)
    assert ".".join(map(str, problem.path)) == f"sample.{path}"
    assert message in problem.message
    assert problem.message.endswith(".")
    assert remedy in problem.remedy


def test_texts_of_an_address_are_read_as_what_they_stand_for() -> None:
    assert complaint_and_remedy({"type": "bool_parsing", "msg": "", "loc": ("fresh",)}) == (
        "must be true or false",
        "Write either of them.",
    )


SHARDING: Body = {"transformer": "BERT-Large", "devices": 4}
PIPELINE: Body = {
    "model": "GPT-14.2B",
    "cluster": {"gpu": "A100-40GB", "nodes": 1, "gpus_per_node": 8},
    "training": {"micro_batch_size": 1, "micro_batches": 32},
}


@pytest.mark.parametrize(
    "change",
    [
        {"devices": {}},
        {"devices": []},
        {"devices": "0xA100"},
        {"devices": {"gpu": "H100", "gpus_per_node": 0}},
        {"devices": {"gpu": 5, "gpus_per_node": 1}},
        {"devices": {"count": "4"}},
        {"alpha": []},
        {"alpha": -1},
        {"alpha": {}},
        {"training": {"zero_stage": 4}},
        {"training": {"precision": "fp8"}},
        {"solver": 5},
        {"solver": {"threads": 65}},
        {"stages": 0},
        {"pin": {"qkv": 5}},
        {"explain": [{}]},
        {"transformer": {"preset": 5}},
        {"device_memory_bytes": "80GB"},
    ],
)
def test_sharding_requests_are_refused_with_a_remedy(change: Body) -> None:
    with pytest.raises(SpecError) as found:
        resolve_sharding({**SHARDING, **change})
    assert found.value.path[0] == next(iter(change))
    assert found.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        {"model": 5},
        {"model": {"preset": "GPT-14.2B", "layers": 0}},
        {"cluster": {}},
        {"cluster": 5},
        {"cluster": "0xA100"},
        {"cluster": {**PIPELINE["cluster"], "pcie_topology": "ring"}},
        {"training": {"micro_batch_size": 0}},
        {"solver": {"engine": "gurobi"}},
        {"solver": []},
    ],
)
def test_pipeline_requests_are_refused_with_a_remedy(change: Body) -> None:
    with pytest.raises(SpecError) as found:
        resolve_pipeline({**PIPELINE, **change})
    assert found.value.path[0] == next(iter(change))
    assert found.value.remedy


@pytest.mark.parametrize("problem", [{}, {"stages": []}, {"micro_batches": 0}, {"devices": 5}])
def test_measured_problems_are_refused_with_a_remedy(problem: Body) -> None:
    with pytest.raises(SpecError) as found:
        resolve_pipeline({"problem": problem})
    assert found.value.path[0] == "problem"
    assert found.value.remedy
