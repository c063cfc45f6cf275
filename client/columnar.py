"""Back from the columnar form of a result to lists of objects."""

from __future__ import annotations

from typing import Any


def rows(value: Any) -> Any:
    """The document that `?form=columnar` was asked of."""
    if isinstance(value, list):
        return [rows(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"columns", "length"}:
        return {name: rows(entry) for name, entry in value.items()}
    columns = {name: rows(entries) for name, entries in value["columns"].items()}
    return [{name: entries[n] for name, entries in columns.items()} for n in range(value["length"])]
