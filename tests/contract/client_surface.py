"""The surface of the Python client and of the `loadmaster` command.

`python -m tests.contract.client_surface` writes tests/data/client-surface.json anew.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import client
from client.cli import main
from client.library import requests
from tests.contract.surface import ASKED, TOLD, Surface

FILE = Path(__file__).parents[1] / "data" / "client-surface.json"
COMMAND = "python -m tests.contract.client_surface"
MADE_BY_USERS = ("AsyncPlanner", "Planner", "Retries")
"""Whose constructors are for users; the others come out of a planner's methods."""


def client_surface() -> Surface:
    """The surface as the code has it."""
    surface: Surface = {ASKED: {}, TOLD: {"client": dict.fromkeys(client.__all__, "required")}}
    for name in client.__all__:
        _add_class(name, getattr(client, name), surface)
    _add_command("loadmaster", main, surface)
    return surface


def _add_class(name: str, kind: type, surface: Surface) -> None:
    own = surface[TOLD].setdefault(name, {})
    own["is a"] = f"required {', '.join(base.__name__ for base in _public_bases(kind))}"
    for member, value in _members(kind):
        if isinstance(value, property):
            own[member] = f"required {_returned(value.fget)}"
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            function = getattr(value, "__func__", value)
            if member == "__init__":
                if name in MADE_BY_USERS:
                    surface[ASKED][name] = dict(_parameters(function))
                continue
            surface[ASKED][f"{name}.{member}"] = dict(_parameters(function))
            surface[TOLD][f"{name}.{member}"] = {"answer": f"required {_returned(function)}"}
        else:
            own[member] = f"required {value!r}"


def _public_bases(kind: type) -> Iterator[type]:
    return (base for base in kind.__mro__[1:-1] if base.__name__ != "Generic")


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public members, and those that `with`, `for` and calls use, of a class and its own bases."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("client"):
            continue
        for member, value in vars(base).items():
            is_special = member in ("__init__", "__enter__", "__aenter__", "__iter__", "__aiter__")
            if member not in seen and (is_special or not member.startswith("_")):
                seen.add(member)
                yield member, value


def _parameters(function: Any) -> Iterator[tuple[str, str]]:
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if position == 0 and parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from _keywords(parameter)
            continue
        has_default = parameter.default is not parameter.empty
        takes_any = parameter.kind is parameter.VAR_POSITIONAL
        need = "optional" if has_default or takes_any else "required"
        place = "by name" if parameter.kind is parameter.KEYWORD_ONLY else f"at {position}"
        if takes_any:
            place = "the rest"
        yield parameter.name, f"{need} {_words(parameter.annotation)}, {place}"


def _keywords(parameter: inspect.Parameter) -> Iterator[tuple[str, str]]:
    """Those of `**parts: Unpack[Parts]`, one by one; `**more` as it is."""
    parts = _words(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
    keywords = getattr(requests, parts, None)
    if keywords is None:
        yield parameter.name, f"optional {parts}, the rest"
        return
    for name, annotation in keywords.__annotations__.items():
        yield name, f"optional {getattr(annotation, '__forward_arg__', annotation)}, by name"


def _returned(function: Any) -> str:
    return _words(inspect.signature(function).return_annotation)


def _words(annotation: Any) -> str:
    if annotation in (None, inspect.Parameter.empty):
        return "None"
    return annotation if isinstance(annotation, str) else annotation.__name__


def _add_command(name: str, command: click.Command, surface: Surface) -> None:
    asked = surface[ASKED].setdefault(name, {})
    for parameter in command.params:
        need = "required" if parameter.required else "optional"
        spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
        if isinstance(parameter, click.Option):
            takes = "flag" if parameter.is_flag else parameter.type.name
            asked[spelled] = f"{need} {takes}" + (", often" if parameter.multiple else "")
        else:
            asked[f"argument {parameter.name}"] = f"{need} {parameter.type.name}"
    if isinstance(command, click.Group):
        surface[TOLD][name] = dict.fromkeys(command.commands, "required")
        for each, sub in command.commands.items():
            _add_command(f"{name} {each}", sub, surface)


if __name__ == "__main__":
    FILE.write_text(json.dumps(client_surface(), indent=1, sort_keys=True) + "\n")
