"""What others rely on, as a list that can be compared: what breaks them, and what is only new.

A surface has two sides: `asked` is what callers give (parameters, options, fields of bodies),
`told` what they get (answers, results, commands that there are). Of each side it has owners (an
operation, a schema, a method, a command) with their details, each of which begins with "required"
or "optional".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Surface = dict[str, dict[str, dict[str, str]]]
ASKED, TOLD = "asked", "told"


@dataclass(frozen=True)
class Changes:
    """Lines for people."""

    breaking: list[str]
    additions: list[str]

    def message(self, remedy: str) -> str:
        """What a failing test says."""
        breaks = [
            *(["this BREAKS who relies on it:"] if self.breaking else ["nothing breaks"]),
            *(f"  {line}" for line in self.breaking),
        ]
        new = [f"  {line}" for line in self.additions] or ["  nothing"]
        return "\n".join([*breaks, "new, or asked for less:", *new, f"to accept it: {remedy}"])


def compare(before: Surface, after: Surface) -> Changes:
    """What has changed between two surfaces."""
    breaking: list[str] = []
    additions: list[str] = []
    for side in (ASKED, TOLD):
        old, new = before.get(side, {}), after.get(side, {})
        breaking += [f"{owner} is gone" for owner in old if owner not in new]
        additions += [f"{owner} is new" for owner in new if owner not in old]
        for owner in old.keys() & new.keys():
            for line, breaks in _details(side, old[owner], new[owner]):
                (breaking if breaks else additions).append(f"{owner}: {line}")
    return Changes(sorted(set(breaking)), sorted(set(additions)))


def _details(side: str, old: dict[str, str], new: dict[str, str]) -> Iterator[tuple[str, bool]]:
    for name in old.keys() | new.keys():
        if name not in new:
            yield f"{name} is gone", True
        elif name not in old:
            is_required = new[name].startswith("required")
            yield f"{name} is new, {new[name]}", side == ASKED and is_required
        elif old[name] != new[name]:
            yield f"{name} was {old[name]}, is {new[name]}", not _asks_less(side, old, new, name)


def _asks_less(side: str, old: dict[str, str], new: dict[str, str], name: str) -> bool:
    """Whether all that has changed is that callers may leave it out, or can count on it."""
    before, _, kind = old[name].partition(" ")
    after, _, kind_after = new[name].partition(" ")
    steps = {ASKED: ("required", "optional"), TOLD: ("optional", "required")}
    return kind == kind_after and (before, after) == steps[side]


def openapi_surface(document: dict[str, Any]) -> Surface:
    """The surface of an OpenAPI document: operations, parameters, fields of bodies and answers."""
    surface: Surface = {ASKED: {}, TOLD: {}}
    used: dict[str, set[str]] = {ASKED: set(), TOLD: set()}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            asked = surface[ASKED].setdefault(name, {})
            told = surface[TOLD].setdefault(name, {})
            for parameter in operation.get("parameters", []):
                kind = f"{_need(parameter.get('required'))} {_kind(parameter['schema'])}"
                asked[f"{parameter['in']} {parameter['name']}"] = kind
            body = operation.get("requestBody", {})
            for content in body.get("content", {}).values():
                asked["body"] = f"{_need(body.get('required'))} {_kind(content['schema'])}"
                _fields(content["schema"], "body", asked)
                used[ASKED] |= _references(content["schema"])
            for status, answer in operation["responses"].items():
                told[status] = "required"
                for media_type, content in answer.get("content", {}).items():
                    schema = content.get("schema") or content["itemSchema"]
                    told[f"{status} {media_type}"] = f"required {_kind(schema)}"
                    _fields(schema, status, told)
                    used[TOLD] |= _references(schema)
    schemas = document["components"]["schemas"]
    for side, names in used.items():
        for name in _reachable(names, schemas):
            _fields(schemas[name], "", surface[side].setdefault(f"schema {name}", {}))
    return surface


def _need(is_required: bool | None) -> str:
    return "required" if is_required else "optional"


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " | ".join(sorted({_kind(each) for each in schema[key]}))
    kind = schema.get("type", "any")
    kind = " | ".join(sorted(kind)) if isinstance(kind, list) else str(kind)
    return f"{kind} of {_kind(schema['items'])}" if schema.get("items") else kind


def _fields(schema: dict[str, Any], where: str, found: dict[str, str]) -> None:
    """Add the fields of a schema, at any depth but not those of the schemas it refers to."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{where}.{name}".removeprefix(".")
        found[path] = f"{_need(name in required)} {_kind(field)}"
        _fields(field, path, found)
    for value in schema.get("enum", ()):
        found[f"{where} may be {value!r}".strip()] = "optional"
    for key in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(key, ()):
            _fields(each, where, found)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            _fields(schema[key], where + mark, found)


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for each in schema for name in _references(each)}
    if not isinstance(schema, dict):
        return set()
    own = {str(schema["$ref"]).rpartition("/")[2]} if "$ref" in schema else set()
    return own | {name for each in schema.values() for name in _references(each)}


def _reachable(names: set[str], schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    while names - found:
        found |= names
        names = names | {other for name in names for other in _references(schemas[name])}
    return found
