"""The compose file as Docker would read it: merged, with variables filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

COMPOSE_FILE = Path(__file__).resolve().parents[1] / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:-|:\?)(?P<rest>[^}]*))?\}")


def read_compose_file(environment: Mapping[str, str]) -> dict[str, Any]:
    """The document with every `${VARIABLE}` replaced; an error for those that have to be set."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [filled(part) for part in value]
        return _VARIABLE.sub(replace, value) if isinstance(value, str) else value

    def replace(match: re.Match[str]) -> str:
        given = environment.get(match["name"], "")
        if not given and match["kind"] == ":?":
            raise LookupError(f"{match['name']}: {match['rest']}")
        return given or match["rest"] or ""

    document: dict[str, Any] = filled(yaml.safe_load(COMPOSE_FILE.read_text()))
    return document
