"""Reads a YAML or JSON file without losing anything: duplicate keys and NaN are errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from client.errors import InputError

LARGEST_FILE_BYTES = 64 * 2**20


class _Loader(yaml.SafeLoader):
    """YAML with the types of JSON: no dates, `1e9` is a number, a key may occur once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not text", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    letter: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for letter, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read_document(path: Path) -> dict[str, Any]:
    """The mapping in a file; `.json` is read as JSON, everything else as YAML.

    Raises `InputError` that names the file and, where known, the line.
    """
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(str(path), "is larger than 64 MiB.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(str(path), "is not UTF-8 text.") from error
    try:
        content = _read_json(text) if path.suffix == ".json" else yaml.load(text, Loader=_Loader)
        endless = next(_endless_numbers(content, ""), None)
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not valid JSON: {error}.") from error
    except yaml.YAMLError as error:
        raise InputError(str(path), f"is not valid YAML: {_in_one_line(error)}.") from error
    if endless is not None:
        raise InputError(f"{path}: {endless}", "is no finite number.", "Write one.")
    if not isinstance(content, dict):
        raise InputError(str(path), "holds no mapping.", "Write `key: value` pairs.")
    return content


def _endless_numbers(value: Any, name: str) -> Iterator[str]:
    """The names of all fields that are infinite or not a number; JSON has neither."""
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, float) and not math.isfinite(value):
        yield name or "the content"
    elif isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from _endless_numbers(entry, f"{name}.{key}" if name else str(key))


def _read_json(text: str) -> Any:
    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise ValueError(f"the key {key!r} occurs twice")
            result[key] = value
        return result

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    return json.loads(text, object_pairs_hook=mapping, parse_constant=constant)


def _in_one_line(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        return f"{error.problem or error.context}{where}"
    return " ".join(str(error).split())
