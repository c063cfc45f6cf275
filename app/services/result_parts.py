"""Parts of a result document, and its columnar form: large results without what is not needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.errors import InvalidRequest

Path = tuple[str, ...]
LEFT_OUT = "-"
MAX_FIELDS, MAX_NAMED = 50, 50


class Form(StrEnum):
    """How lists of like objects are written."""

    ROWS = "rows"
    COLUMNAR = "columnar"


@dataclass(frozen=True)
class Parts:
    """Which fields of a document are wanted, and in what form."""

    kept: tuple[Path, ...] = ()
    left_out: tuple[Path, ...] = ()
    form: Form = Form.ROWS

    @classmethod
    def read(cls, fields: str | None, form: Form) -> Parts:
        """From comma-separated paths in dots, those to leave out with a `-` before them."""
        names = [name.strip() for name in (fields or "").split(",") if name.strip()]
        if len(names) > MAX_FIELDS:
            raise InvalidRequest.of("fields", f"names more than {MAX_FIELDS} fields.")
        kept = [_path(name) for name in names if not name.startswith(LEFT_OUT)]
        left_out = [_path(name[1:]) for name in names if name.startswith(LEFT_OUT)]
        return cls(tuple(kept), tuple(left_out), form)

    @property
    def is_whole(self) -> bool:
        """Whether the document is wanted as it is."""
        return self == Parts()

    def of(self, text: str) -> str:
        """The wanted parts of a document. Raises `InvalidRequest` for a field that it lacks."""
        document = json.loads(text)
        for path in (*self.kept, *self.left_out):
            _check(document, path)
        if self.kept:
            document = _only(document, _Tree.of(self.kept))
        if self.left_out:
            document = _without(document, _Tree.of(self.left_out))
        if self.form is Form.COLUMNAR:
            document = columnar(document)
        return json.dumps(document, separators=(",", ":"))


def columnar(value: Any) -> Any:
    """The same with each list of objects that all have the same fields as one object of lists:
    ``{"columns": {field: [value, …]}, "length": n}``."""
    if isinstance(value, dict):
        return {name: columnar(entry) for name, entry in value.items()}
    if not isinstance(value, list):
        return value
    if not _are_alike(value):
        return [columnar(entry) for entry in value]
    names = value[0]
    columns = {name: [columnar(entry[name]) for entry in value] for name in names}
    return {"columns": columns, "length": len(value)}


def _are_alike(entries: Sequence[Any]) -> bool:
    if not entries or not isinstance(entries[0], dict) or not entries[0]:
        return False
    names = entries[0].keys()
    return all(isinstance(entry, dict) and entry.keys() == names for entry in entries)


@dataclass
class _Tree:
    """Paths that share their beginnings; one without branches ends here."""

    branches: dict[str, _Tree] = field(default_factory=dict)
    ends: bool = False

    @classmethod
    def of(cls, paths: Iterable[Path]) -> _Tree:
        root = cls()
        for path in paths:
            tree = root
            for name in path:
                tree = tree.branches.setdefault(name, cls())
            tree.ends = True
        return root


def _only(value: Any, wanted: _Tree) -> Any:
    if wanted.ends:
        return value
    if isinstance(value, list):
        return [_only(entry, wanted) for entry in value]
    if not isinstance(value, dict):
        return value
    branches = wanted.branches
    return {name: _only(value[name], branches[name]) for name in value if name in branches}


def _without(value: Any, unwanted: _Tree) -> Any:
    if isinstance(value, list):
        return [_without(entry, unwanted) for entry in value]
    if not isinstance(value, dict):
        return value
    branches = unwanted.branches
    return {
        name: _without(entry, branches[name]) if name in branches else entry
        for name, entry in value.items()
        if name not in branches or not branches[name].ends
    }


def _path(name: str) -> Path:
    path = tuple(name.split("."))
    if not all(path):
        raise InvalidRequest.of(
            "fields", f"{name!r} is no field.", "Write names with dots between: schedule.ops."
        )
    return path


def _check(document: Any, path: Path) -> None:
    """Paths lead through lists into each of their entries. Below what is null or an empty list
    nothing is known, and so everything is accepted."""
    level: list[Any] = [document]
    for depth, name in enumerate(path):
        objects = [entry for entry in _entries(level) if isinstance(entry, dict)]
        known = dict.fromkeys(key for entry in objects for key in entry)
        if name not in known and not _is_open(level):
            raise _unknown(path, depth, list(known))
        level = [entry[name] for entry in objects if name in entry]


def _entries(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _entries(value)
        else:
            yield value


def _is_open(values: Sequence[Any]) -> bool:
    entries = list(_entries(values))
    return not entries or all(entry is None for entry in entries)


def _unknown(path: Path, depth: int, known: Sequence[str]) -> InvalidRequest:
    within = ".".join(path[:depth])
    place = f"`{within}` has" if within else "The result has"
    fields = ", ".join(sorted(known)[:MAX_NAMED]) or "no fields"
    return InvalidRequest.of("fields", f"there is no `{'.'.join(path)}`.", f"{place}: {fields}.")
