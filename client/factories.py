"""Functions in people's own files that commands call to get a model."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from client.errors import ClientError, InputError

TARGET_REMEDY = "Name FILE.py:FACTORY or PACKAGE.MODULE:FACTORY, a function that takes nothing."


def load_factory(target: str) -> Callable[[], Any]:
    """The function that ``FILE.py:FACTORY`` or ``PACKAGE.MODULE:FACTORY`` names.

    A file is run as `python FILE.py` runs it, so that it finds what lies beside it. Raises
    `InputError` where there is no such file or function.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InputError(target, "names no factory.", TARGET_REMEDY)
    module = _module(place, target)
    factory = getattr(module, name, None)
    if not callable(factory):
        known = [n for n, own in vars(module).items() if callable(own) and not n.startswith("_")]
        raise InputError(
            target,
            f"there is no function {name!r} in {place}.",
            f"It has {', '.join(known[:8])}." if known else TARGET_REMEDY,
        )
    found: Callable[[], Any] = factory
    return found


def _module(place: str, target: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        if not path.is_file():
            raise InputError(target, f"there is no file {path}.", TARGET_REMEDY)
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    except ClientError:
        raise
    except Exception as error:
        raise InputError(
            target,
            f"cannot be imported: {_in_words(error)}.",
            "Run it with python to see what it lacks.",
        ) from error
    return module


def called(target: str, factory: Callable[[], Any], remedy: str) -> Any:
    """What the factory returns. Raises `InputError` with what it raised and the remedy."""
    try:
        return factory()
    except ClientError:
        raise
    except Exception as error:
        raise InputError(target, f"raised {_in_words(error)}", remedy) from error


def _in_words(error: Exception) -> str:
    """Its class and the beginning of its message, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
