"""Read a JSON body strictly: bounded, finite numbers, text that every database can store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, NoReturn

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from app.errors import BodyTooLarge, InvalidRequest, MalformedBody, UnsupportedMediaType

MAX_DEPTH = 64
MOST_FIELDS = 20_000
"""Of one object: as many as operators that a plan may pin. Each unknown one is complained about."""
PARSED_AT_ONCE_BYTES = 2**14
"""A larger body takes long enough to hold up other requests, and is parsed in a thread."""
PARSED_AT_A_TIME = 2
"""By one process: each of the threads slows down all other requests."""
MOST_QUOTED = 100
"""Characters of a field's name or value that an error repeats."""
# All that can make a NUL or a surrogate of a text that is UTF-8: the grammar knows no raw NUL.
_UNSTORABLE_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


class BodyReader:
    """Reads the bodies of one application's requests."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._threads = CapacityLimiter(PARSED_AT_A_TIME)

    async def json_object(self, request: Request, max_bytes: int) -> dict[str, Any]:
        """The request's body as a JSON object.

        Raises `UnsupportedMediaType`, `BodyTooLarge`, `MalformedBody` or `InvalidRequest`.
        """
        _check_declared(request)
        raw = await _read(request, max_bytes)
        if len(raw) <= PARSED_AT_ONCE_BYTES:
            return self._parse(raw)
        return await run_sync(self._parse, raw, limiter=self._threads)

    def _parse(self, raw: bytes) -> dict[str, Any]:
        # At least as many as there are values; to leave out what stands in texts would take longer.
        if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > self._max_values:
            raise BodyTooLarge(
                f"The body may have at most {self._max_values} values; every comma and opening "
                "bracket counts as one. Send less at a time."
            )
        return parse_json_object(raw)


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """Parse bytes that a client sent into an object without NaN, Infinity or unstorable text."""
    try:
        text = raw.decode("utf-8-sig")
        parsed = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_object_without_duplicates,
        )
        if isinstance(parsed, dict):
            _check_values(parsed, with_text=_UNSTORABLE_ESCAPE.search(text) is not None)
            return parsed
    except RecursionError as error:
        raise _nested_too_deeply() from error
    except ValueError as error:
        # Python's own words on whole numbers of thousands of digits are about Python.
        fault = "a number has too many digits" if "set_int_max_str" in str(error) else error
        raise MalformedBody.of(f"is not valid JSON: {fault}.", "Send one JSON object.") from error
    raise InvalidRequest.of(
        "", "the body has to be a JSON object.", 'Write it in braces: {"field": value}.'
    )


def _check_declared(request: Request) -> None:
    # Without one, or as text, a page of any origin could send it without being asked first.
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        declared = f"not {media_type}" if media_type else "and say so in Content-Type"
        raise UnsupportedMediaType(f"Send application/json, {declared}.")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise UnsupportedMediaType(
            "Send the body as it is, without a Content-Encoding: the service reads no compressed "
            "body.",
            headers={"Accept-Encoding": "identity"},
        )


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
        raise ValueError(f"{text[:MOST_QUOTED]} is too large a number")
    return number


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_FIELDS:
        raise ValueError(f"an object has {len(pairs)} fields, and may have {MOST_FIELDS}")
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the field {name[:MOST_QUOTED]!r} is given twice")
            seen.add(name)
    return document


def _check_values(document: dict[str, Any], *, with_text: bool) -> None:
    """Level by level, since a body may hold very many small lists."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        if with_text:
            _check_text(document, level)
        entries = (entry.values() if type(entry) is dict else entry for entry in level)
        level = [
            value
            for value in chain.from_iterable(entries)
            if type(value) is dict or type(value) is list
        ]
        if not level:
            return
    raise _nested_too_deeply()


def _check_text(document: dict[str, Any], level: list[Any]) -> None:
    for entry in level:
        texts = chain(entry, entry.values()) if type(entry) is dict else entry
        if not all(_is_storable(text) for text in texts if type(text) is str):
            raise _unstorable(document)


def _is_storable(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unstorable(document: dict[str, Any]) -> InvalidRequest:
    path = ".".join(_path_of_unstorable(document) or ())
    return InvalidRequest.of(path, "holds a NUL or a lone surrogate.", "Send Unicode text.")


def _path_of_unstorable(value: dict[str, Any] | list[Any]) -> tuple[str, ...] | None:
    """Where such a text is; of a field's name, the object that has it."""
    if isinstance(value, dict) and not all(map(_is_storable, value)):
        return ()
    entries: Iterable[tuple[object, Any]] = (
        value.items() if isinstance(value, dict) else enumerate(value)
    )
    for key, entry in entries:
        if isinstance(entry, str):
            if not _is_storable(entry):
                return (str(key),)
        elif isinstance(entry, (dict, list)):
            found = _path_of_unstorable(entry)
            if found is not None:
                return (str(key), *found)
    return None
