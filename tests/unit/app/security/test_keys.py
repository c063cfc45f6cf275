"""Keys are read as they were written, and nothing else is a key."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from app.security.keys import SECRET_BYTES, holds_key, new_key, parse_key


def test_key_is_read_as_it_was_written() -> None:
    key = new_key()
    assert parse_key(key.text) == key
    assert key.has_hash(key.secret_hash)
    assert len(base64.urlsafe_b64decode(key.secret + "=")) == SECRET_BYTES


def test_no_two_keys_are_alike() -> None:
    keys = [new_key() for _ in range(200)]
    assert len({key.id for key in keys}) == len({key.secret for key in keys}) == 200


def test_only_the_id_is_shown() -> None:
    key = new_key()
    assert key.id in repr(key)
    assert key.secret not in f"{key!r} {key}"
    assert key.secret not in key.secret_hash


@given(st.data())
def test_changed_key_is_no_key_or_another_one(data: st.DataObject) -> None:
    key = new_key()
    position = data.draw(st.integers(0, len(key.text) - 1))
    character = data.draw(st.characters().filter(lambda c: c != key.text[position]))
    changed = parse_key(key.text[:position] + character + key.text[position + 1 :])
    assert changed is None or changed.id != key.id or not changed.has_hash(key.secret_hash)


@given(st.text() | st.from_regex(r"lm_[0-9a-f]{0,14}_[A-Za-z0-9_-]{0,50}", fullmatch=True))
def test_whatever_is_read_as_a_key_is_written_alike(text: str) -> None:
    key = parse_key(text)
    assert key is None or key.text == text


@given(st.text(), st.text())
def test_key_is_seen_wherever_it_stands(before: str, after: str) -> None:
    assert holds_key(before + new_key().text + after)


def test_ordinary_words_are_no_keys() -> None:
    assert not holds_key("llm_training_run lm_head lm_0123456789")
    assert parse_key(f"{new_key().text}\n") is None
