"""Strict JSON: what is read is what was meant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from typing import Any

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from app import json_body
from app.errors import BodyTooLarge, InvalidRequest, MalformedBody, UnsupportedMediaType
from app.json_body import (
    MAX_DEPTH,
    MOST_FIELDS,
    PARSED_AT_A_TIME,
    PARSED_AT_ONCE_BYTES,
    BodyReader,
    parse_json_object,
)

storable_text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable_text,
    lambda inner: st.lists(inner) | st.dictionaries(storable_text, inner),
    max_leaves=20,
)


@given(st.dictionaries(storable_text, values))
def test_any_json_object_is_read_as_it_is(document: dict[str, object]) -> None:
    assert parse_json_object(json.dumps(document).encode()) == document


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(MalformedBody, InvalidRequest):
        assert isinstance(parse_json_object(raw), dict)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    with pytest.raises(MalformedBody, match=text):
        parse_json_object(f'{{"a": [{text}]}}'.encode())


def test_whole_numbers_of_thousands_of_digits_are_refused_in_words_for_clients() -> None:
    with pytest.raises(MalformedBody, match="too many digits") as refused:
        parse_json_object(b'{"a": ' + b"9" * 5000 + b"}")
    assert "set_int_max_str_digits" not in str(refused.value)


def test_a_field_given_twice_is_refused() -> None:
    with pytest.raises(MalformedBody, match="'b' is given twice"):
        parse_json_object(b'{"a": {"b": 1, "c": 2, "b": 3}}')


def test_depth_is_bounded() -> None:
    deep = MAX_DEPTH - 1
    assert parse_json_object(b'{"a":' + b"[" * deep + b"]" * deep + b"}")
    with pytest.raises(MalformedBody, match="deep"):
        parse_json_object(b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}")


def test_text_that_cannot_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_json_object(b'{"a": [1, {"b": "x\\u0000"}]}')
    assert refused.value.errors[0].path == "a.1.b"


@pytest.mark.parametrize("raw", [b'{"a": ["\\ud800"]}', b'{"a": "\\uDFFF"}', b'{"\\u0000": 1}'])
def test_every_escape_that_cannot_be_stored_is_found(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="NUL or a lone surrogate"):
        parse_json_object(raw)


@pytest.mark.parametrize(
    "raw", [b'{"a": "\xed\xa0\x80"}', b'{"a": "\x00"}', '{"a": 1}'.encode("utf-16")]
)
def test_bytes_that_are_no_text_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse_json_object(raw)


def test_what_only_looks_like_such_an_escape_is_read() -> None:
    assert parse_json_object(b'{"a": "\\ud83d\\ude00", "b": "\\\\u0000"}') == {
        "a": "\N{GRINNING FACE}",
        "b": r"\u0000",
    }


def test_an_object_with_very_many_fields_is_refused() -> None:
    fields = ",".join(f'"{number}":0' for number in range(MOST_FIELDS + 1))
    with pytest.raises(MalformedBody, match=f"may have {MOST_FIELDS}"):
        parse_json_object(f"{{{fields}}}".encode())


def test_a_number_is_repeated_in_part() -> None:
    with pytest.raises(MalformedBody) as refused:
        parse_json_object(b'{"a": ' + b"1" * 100_000 + b".0}")
    assert len(str(refused.value)) < 300


def cpu_s(raw: bytes) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.thread_time()
        with contextlib.suppress(MalformedBody, InvalidRequest):
            parse_json_object(raw)
        best = min(best, time.thread_time() - began)
    return best


def repeated_field(count: int) -> bytes:
    fields = ",".join(f'"{number}":0' for number in range(count))
    return f'{{{fields},"{count - 1}":0}}'.encode()


def small_objects(count: int) -> bytes:
    return b'{"a":["\\ud83d\\ude00"' + b",{}" * count + b"]}"


def one_text(count: int) -> bytes:
    return b'{"a":"' + b"\\u00e9\\\\" * count + b'"}'


@pytest.mark.parametrize(
    ("body", "count"), [(repeated_field, 2000), (small_objects, 20_000), (one_text, 100_000)]
)
def test_time_grows_with_the_length(body: Any, count: int) -> None:
    """Eight times the body, at most thirty times the time; with its square it would be 64."""
    assert cpu_s(body(8 * count)) < 30 * max(cpu_s(body(count)), 1e-4)


def request_of(raw: bytes, **headers: str) -> Request:
    fields = {"content-type": "application/json", **headers}
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    return Request({"type": "http", "method": "POST", "path": "/", "headers": encoded}, receive)


def read(raw: bytes, *, max_values: int = 100, **headers: str) -> dict[str, Any]:
    reader = BodyReader(max_values)
    return asyncio.run(reader.json_object(request_of(raw, **headers), 2**20))


def test_the_number_of_values_is_bounded() -> None:
    assert read(b'{"a": [1, 2, {"b": []}]}', max_values=6)
    with pytest.raises(BodyTooLarge, match="at most 5 values"):
        read(b'{"a": [1, 2, {"b": []}]}', max_values=5)


def test_a_compressed_body_is_refused() -> None:
    assert read(b"{}", content_encoding="Identity") == {}
    with pytest.raises(UnsupportedMediaType, match="Content-Encoding") as refused:
        read(b"{}", content_encoding="gzip")
    assert refused.value.headers == {"Accept-Encoding": "identity"}


@pytest.mark.parametrize(("length", "in_a_thread"), [(2, False), (PARSED_AT_ONCE_BYTES + 1, True)])
def test_large_bodies_are_parsed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, length: int, in_a_thread: bool
) -> None:
    threads = []

    def parse(raw: bytes) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return parse_json_object(raw)

    monkeypatch.setattr(json_body, "parse_json_object", parse)
    assert read(b"{}".ljust(length)) == {}
    assert (threads[0] is not threading.current_thread()) is in_a_thread


def test_few_large_bodies_are_parsed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing, most = [0], [0]

    def parse(raw: bytes) -> dict[str, Any]:
        parsing[0] += 1
        most[0] = max(most[0], parsing[0])
        time.sleep(0.02)
        parsing[0] -= 1
        return {}

    async def read_many() -> None:
        reader, raw = BodyReader(100), b"{}".ljust(PARSED_AT_ONCE_BYTES + 1)
        await asyncio.gather(*(reader.json_object(request_of(raw), 2**20) for _ in range(10)))

    monkeypatch.setattr(json_body, "parse_json_object", parse)
    asyncio.run(read_many())
    assert 1 <= most[0] <= PARSED_AT_A_TIME
