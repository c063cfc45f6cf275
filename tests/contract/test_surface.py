"""A change that breaks a caller is told apart from one that adds something."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.contract.client_surface import COMMAND, FILE, client_surface
from tests.contract.surface import ASKED, TOLD, Surface, compare, openapi_surface


def test_the_client_and_the_command_are_as_they_were() -> None:
    kept: Surface = json.loads(FILE.read_text())
    now = client_surface()
    assert now == kept, compare(kept, now).message(COMMAND)


def test_the_surface_has_names_signatures_commands_and_options() -> None:
    surface = client_surface()
    assert surface[TOLD]["client"]["Planner"] == "required"
    assert surface[ASKED]["Job.result"].keys() >= {"timeout", "progress"}
    assert surface[ASKED]["loadmaster runs plan"].keys() >= {"argument run_id", "--version"}
    assert surface[TOLD]["NoPlan"]["exit_status"] == "required 5"
    assert surface[TOLD]["Status"]["gap"] == "required float | None"


DOCUMENT: dict[str, Any] = {
    "paths": {
        "/v1/things": {
            "post": {
                "parameters": [{"in": "query", "name": "dry", "schema": {"type": "boolean"}}],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Asked"}}
                    },
                },
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Told"}}
                        }
                    }
                },
            }
        }
    },
    "components": {
        "schemas": {
            "Asked": {
                "properties": {"size": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
                "required": ["size"],
            },
            "Told": {
                "properties": {
                    "id": {"type": "string"},
                    "part": {"$ref": "#/components/schemas/Part"},
                },
                "required": ["id"],
            },
            "Part": {"properties": {"list": {"type": "array", "items": {"type": "number"}}}},
        }
    },
}  # fmt: skip


@pytest.fixture
def document() -> dict[str, Any]:
    return copy.deepcopy(DOCUMENT)


def operation(document: dict[str, Any]) -> Any:
    return document["paths"]["/v1/things"]["post"]


def schema(document: dict[str, Any], name: str) -> Any:
    return document["components"]["schemas"][name]


BREAKING = {
    "an operation": (
        lambda d: d["paths"]["/v1/things"].pop("post"),
        "POST /v1/things is gone",
    ),
    "a field of an answer": (
        lambda d: schema(d, "Told")["properties"].pop("id"),
        "schema Told: id is gone",
    ),
    "a field of a part": (
        lambda d: schema(d, "Part")["properties"].pop("list"),
        "schema Part: list is gone",
    ),
    "a field that may lack now": (
        lambda d: schema(d, "Told")["required"].clear(),
        "schema Told: id was required string, is optional string",
    ),
    "a field that is required now": (
        lambda d: schema(d, "Asked")["required"].append("kind"),
        "schema Asked: kind was optional any, is required any",
    ),
    "a value": (
        lambda d: schema(d, "Asked")["properties"]["kind"]["enum"].remove("b"),
        "schema Asked: kind may be 'b' is gone",
    ),
    "another type": (
        lambda d: schema(d, "Part")["properties"]["list"]["items"].update(type="string"),
        "schema Part: list was optional array of number, is optional array of string",
    ),
    "a required parameter": (
        lambda d: operation(d)["parameters"].append(
            {"in": "query", "name": "who", "required": True, "schema": {"type": "string"}}
        ),
        "POST /v1/things: query who is new, required string",
    ),
    "a required field": (
        lambda d: schema(d, "Asked").update(
            properties={**schema(d, "Asked")["properties"], "new": {}}, required=["size", "new"]
        ),
        "schema Asked: new is new, required any",
    ),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_callers(document: dict[str, Any], name: str) -> None:
    change, line = BREAKING[name]
    change(document)
    found = compare(openapi_surface(DOCUMENT), openapi_surface(document))
    assert line in found.breaking
    assert f"BREAKS who relies on it:\n  {found.breaking[0]}" in found.message("run it")


ADDITIONS = {
    "a field of an answer": lambda d: schema(d, "Told")["properties"].update(more={}),
    "a field that is always there now": lambda d: schema(d, "Told")["required"].append("part"),
    "a field that may be left out now": lambda d: schema(d, "Asked")["required"].clear(),
    "a value": lambda d: schema(d, "Asked")["properties"]["kind"]["enum"].append("c"),
    "an optional parameter": lambda d: operation(d)["parameters"].append(
        {"in": "query", "name": "who", "schema": {"type": "string"}}
    ),
    "an operation": lambda d: d["paths"].update(
        {"/v1/more": {"get": {"responses": {"200": {}}}}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDITIONS)
def test_what_is_only_new(document: dict[str, Any], name: str) -> None:
    ADDITIONS[name](document)
    found = compare(openapi_surface(DOCUMENT), openapi_surface(document))
    assert found.breaking == []
    assert len(found.additions) >= 1
    assert "nothing breaks" in found.message("run it")
