"""Whatever is posted is read or refused with a problem document, and soon: a short form of
`python -m benchmarks.fuzz`, documents of hypothesis, and bodies as large as any may be."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidRequest, MalformedBody
from app.json_body import parse_json_object
from benchmarks.fuzz import LONGEST_S, Fuzzer
from benchmarks.mutations import as_text

SEED, BODIES = 2, 3_000
LARGE = 2 * 2**20
FUZZER = Fuzzer(SEED)
WORDS = st.sampled_from(FUZZER.vocabulary.words) | st.text(max_size=20)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=15,
)
LARGE_BODIES = {
    "a long text": b'{"name": "' + b"x" * LARGE + b'"}',
    "a long text that cannot be stored": b'{"name": "' + b"x" * LARGE + b'\\ud800"}',
    "many fields": b"{" + b",".join(b'"%d":0' % n for n in range(LARGE // 11)) + b"}",
    "the last of many fields again": b"{"
    + b",".join(b'"%d":0' % n for n in range(LARGE // 11))
    + b',"%d":0}' % (LARGE // 11 - 1),
    "deep lists": b'{"a":' + b"[" * LARGE,
    "deep objects": b'{"a":' * (LARGE // 5),
    "numbers": b'{"a":[' + b"1," * (LARGE // 2) + b"1]}",
    "lists": b'{"a":[' + b"[]," * (LARGE // 3) + b"1]}",
    "digits": b'{"a":' + b"1" * LARGE + b"}",
    "digits of a fraction": b'{"a":0.' + b"1" * LARGE + b"}",
    "escapes": b'{"a":"' + b"\\u00e9" * (LARGE // 6) + b'"}',
}


def test_mutated_bodies_are_read_or_refused() -> None:
    findings = FUZZER.run(range(BODIES))
    assert not findings.faults, "\n\n".join(findings.faults)
    assert findings.bodies == BODIES
    # Neither all refused at the door nor all harmless.
    assert findings.outcomes["accepted"] >= BODIES // 20
    assert findings.outcomes["invalid_request"] >= BODIES // 4
    assert {"malformed_body", "limit_exceeded"} <= findings.outcomes.keys()


@pytest.mark.parametrize("target", FUZZER.targets)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_documents_are_read_or_refused(target: str, data: st.DataObject) -> None:
    body = data.draw(st.dictionaries(WORDS, DOCUMENTS, max_size=6))
    FUZZER.outcome(target, as_text(body).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=200) | st.text('{}[]",:0123456789.eE+-\\u \n', max_size=60))
def test_any_octets_are_read_or_refused(raw: bytes | str) -> None:
    raw = raw.encode() if isinstance(raw, str) else raw
    with contextlib.suppress(MalformedBody, InvalidRequest):
        assert isinstance(parse_json_object(raw), dict)


@pytest.mark.parametrize("name", LARGE_BODIES)
def test_large_bodies_are_read_or_refused_soon(name: str) -> None:
    raw = LARGE_BODIES[name]
    started = time.process_time()
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(raw)
    plainly_s = time.process_time() - started
    with contextlib.suppress(MalformedBody, InvalidRequest):
        parse_json_object(raw)
    took_s = time.process_time() - started - plainly_s
    # Where all of the tests' objects are looked at by the garbage collector, so are Python's own
    # reader's.
    assert took_s < max(LONGEST_S, 4 * plainly_s)


def test_the_same_number_makes_the_same_body() -> None:
    one, other = Fuzzer(SEED), Fuzzer(SEED)
    assert [one.body(number) for number in range(50)] == [other.body(n) for n in range(50)]
