"""What is kept of a request beside its answer: the body itself, and what it asks for in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.schemas.requests import JobFields
from app.services.resolutions import json_text
from planner.cost.model_presets import MODEL_ALIASES, MODEL_PRESETS
from planner.cost.presets import find_preset
from planner.errors import SpecError

LONGEST_MODEL = 100
"""Characters of the column."""
REMEMBERED_NAMES = 1024
# A webhook has a secret, and need not be told again where a request is only looked at.
NOT_KEPT = {"webhook"}


@dataclass(frozen=True)
class Posted:
    """A request as it was posted (JSON text), and in a few words what is planned."""

    model: str | None
    text: str | None


NOTHING_KEPT = Posted(None, None)


def posted(fields: JobFields, rest: Mapping[str, Any], rest_text: str) -> Posted:
    """Of a body's two parts; `rest_text` is the JSON of the planner's part."""
    # Only what was given, so that the text says what the client said.
    given = {
        name: value
        for name in JobFields.model_fields
        if name in fields.model_fields_set and name not in NOT_KEPT
        if (value := getattr(fields, name)) not in (None, [])
    }
    if not given:
        return Posted(described(rest), rest_text)
    separator = "," if rest else ""
    return Posted(described(rest), f"{json_text(given)[:-1]}{separator}{rest_text[1:]}")


def described(rest: Mapping[str, Any]) -> str | None:
    """What the planner's part of a body asks to plan: a preset's name, or sizes."""
    words = (
        _problem(rest.get("problem"))
        or _graph(rest.get("graph"))
        or _transformer(rest.get("transformer"))
        or _model(rest.get("model"))
    )
    return None if words is None else _in_one_line(words) or None


def _problem(document: Any) -> str | None:
    stages, micro_batches = _field(document, "stages"), _field(document, "micro_batches")
    if not _is_list(stages) or micro_batches is None:
        return None
    return f"{_count(len(stages), 'stage')} x {_count(micro_batches, 'micro-batch', 'es')}"


def _graph(document: Any) -> str | None:
    operators = _field(document, "operators")
    return f"graph of {_count(len(operators), 'operation')}" if _is_list(operators) else None


def _transformer(document: Any) -> str | None:
    """Unlike a model's, its `layers` say how many of them are planned for."""
    if isinstance(document, str):
        document = {"preset": document}
    preset, layers = _field(document, "preset"), _field(document, "layers") or 1
    if isinstance(preset, str):
        return f"{_preset_name(preset)}, {_count(layers, 'layer')}"
    return _sizes(layers, document)


def _model(document: Any) -> str | None:
    if isinstance(document, str):
        return _preset_name(document)
    name, preset = _field(document, "name"), _field(document, "preset")
    if isinstance(name, str):
        return name
    if isinstance(preset, str):
        is_changed = any(document[field] is not None for field in document.keys() - {"preset"})
        return f"{_preset_name(preset)}{', changed' if is_changed else ''}"
    return _sizes(_field(document, "layers"), document)


def _sizes(layers: Any, document: Any) -> str | None:
    hidden_size = _field(document, "hidden_size")
    if layers is None or hidden_size is None:
        return None
    return f"{_count(layers, 'layer')} x {hidden_size}"


@lru_cache(maxsize=REMEMBERED_NAMES)
def _preset_name(name: str) -> str:
    """As the preset itself spells it."""
    try:
        return find_preset(name, MODEL_PRESETS, MODEL_ALIASES, (), "model").name
    except SpecError:
        return name


def _count(number: Any, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _field(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, Mapping) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _in_one_line(words: str) -> str:
    # No control characters either: one of them no database takes.
    shown = "".join(character if character.isprintable() else " " for character in words)
    return shown[:LONGEST_MODEL].strip()
