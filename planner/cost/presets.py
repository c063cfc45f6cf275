"""Looking up a preset by name, forgiving about case, dashes and blanks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TypeVar

from planner.errors import SpecError

Preset = TypeVar("Preset")


def normalised(name: str) -> str:
    """The spelling that names are compared in: ``"A100-40GB"`` and ``"a100_40gb"`` are equal."""
    return re.sub(r"[\s_/\-]", "", name.lower())


def find_preset(
    name: str,
    presets: Mapping[str, Preset],
    aliases: Mapping[str, str],
    path: tuple[str | int, ...],
    kind: str,
) -> Preset:
    """The preset called `name`; `aliases` maps other spellings to keys of `presets`.

    What is before the last slash may be left out, as an organisation's name on Hugging Face.
    Raises `SpecError` that lists the known names and the nearest one.
    """
    known = {normalised(key): key for key in presets}
    known |= {normalised(alias): key for alias, key in aliases.items()}
    key = known.get(normalised(name)) or known.get(normalised(name.rsplit("/", 1)[-1]))
    if key is not None:
        return presets[key]
    near = difflib.get_close_matches(normalised(name), list(known), n=1, cutoff=0.5)
    hint = f"Did you mean {known[near[0]]}? " if near else ""
    raise SpecError(
        path,
        f"there is no {kind} preset {name[:80]!r}.",
        f"{hint}Known: {known_names(presets, aliases)}.",
    )


def known_names(presets: Mapping[str, Preset], aliases: Mapping[str, str]) -> str:
    """All presets, each with the shortest beginning of its name that means it too."""

    def named(name: str) -> str:
        beginnings = (own for own, key in aliases.items() if key == name and name.startswith(own))
        shortest = min(beginnings, key=len, default=None)
        return name if shortest is None else f"{name} (or {shortest})"

    return ", ".join(map(named, presets))
