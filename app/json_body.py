"""Read a JSON body strictly: bounded, finite numbers, text that every database can store."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from fastapi import Request

from app.errors import BodyTooLarge, InvalidRequest, MalformedBody, UnsupportedMediaType

MAX_DEPTH = 64


async def read_json_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """The request's body as a JSON object.

    Raises `UnsupportedMediaType`, `BodyTooLarge`, `MalformedBody` or `InvalidRequest`.
    """
    # Without one, or as text, a page of any origin could send it without being asked first.
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        declared = f"not {media_type}" if media_type else "and say so in Content-Type"
        raise UnsupportedMediaType(f"Send application/json, {declared}.")
    return parse_json_object(await _read(request, max_bytes))


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse bytes that a client sent into an object without NaN, Infinity or unstorable text."""
    try:
        parsed = json.loads(
            raw,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_object_without_duplicates,
        )
    except RecursionError as error:
        raise _nested_too_deeply() from error
    except ValueError as error:
        raise MalformedBody.of(f"is not valid JSON: {error}.", "Send one JSON object.") from error
    if not isinstance(parsed, dict):
        raise InvalidRequest.of(
            "", "the body has to be a JSON object.", 'Write it in braces: {"field": value}.'
        )
    _check_values(parsed, (), MAX_DEPTH)
    return parsed


def _nested_too_deeply() -> MalformedBody:
    return MalformedBody.of("is nested too deeply.", f"Nest at most {MAX_DEPTH} levels.")


async def _read(request: Request, max_bytes: int) -> bytes:
    too_large = BodyTooLarge(f"The body may have at most {max_bytes} bytes.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise too_large
    return bytes(body)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {repeated!r} is given twice")
    return document


def _check_values(value: Any, path: tuple[str, ...], depth: int) -> None:
    if depth == 0:
        raise _nested_too_deeply()
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_text(name, path)
            _check_values(entry, (*path, name), depth - 1)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, (dict, list, str)):
                _check_values(entry, (*path, str(index)), depth - 1)
    elif isinstance(value, str):
        _check_text(value, path)


def _check_text(text: str, path: tuple[str, ...]) -> None:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        where = ".".join(path).encode("utf-8", "replace").decode()
        raise InvalidRequest.of(where, "holds a NUL or a lone surrogate.", "Send Unicode text.")
