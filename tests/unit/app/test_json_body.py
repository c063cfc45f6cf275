"""Strict JSON: what is read is what was meant."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequest, MalformedBody
from app.json_body import MAX_DEPTH, parse_json_object

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
