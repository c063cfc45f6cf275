"""Bodies that no client should send: the shipped examples and others with a few things wrong."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

MOST_MUTATIONS = 8
LONGEST_REPEAT = 2_000
NUMBERS: tuple[float, ...] = (
    0, 1, -1, 2, 3, 7, 64, 255, 256, 257, 4096, 65_537, 100_001, 2**31, 2**53, 2**53 + 1, 2**63,
    2**64, 10**30, 10**308, 10**309, 10**4000, -(2**63), 0.1, 0.5, 1.5, -0.0, 5e-324, 1e-9, 1e15,
    1.8e7, 1e308, -1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "0", "1", "null", "true", "NaN", "auto", "8xH100", "4x8xH100", "0xH100",
    "99999999xH100", "-1xA100-40GB", "x" * 300, "é" * 100, "漢字", "\u202e", "\U0001f4a5", "\x00",
    "\ud800", "../../etc/passwd", "%s%n{0}{}", "'; drop table jobs;--", "GPT-2", "Llama-3-8B",
    "http://127.0.0.1/", "http://[::1]:99999/", "https://example.org:0/", "whsec_!!!",
    "9" * 5000, "1e999", "a.b.c", "__class__", "$ref",
)  # fmt: skip
Documents = Sequence[Mapping[str, Any]]
Place = tuple[Any, Any]
"""A container and the key or index of one of its entries."""


class Vocabulary:
    """The fields and words that documents are made of, and values that fields may have."""

    def __init__(self, models: Iterable[type[BaseModel]]) -> None:
        self._schemas: dict[str, list[dict[str, Any]]] = {}
        words: set[str] = set()
        for model in models:
            for schema in _schemas(model.model_json_schema()):
                for name, field in schema.get("properties", {}).items():
                    self._schemas.setdefault(name, []).extend(_alternatives(field))
                words |= {word for word in schema.get("enum", ()) if isinstance(word, str)}
        self.words = sorted(words | self._schemas.keys())

    def value(self, rng: random.Random, field: str, like: Any) -> Any:
        """One that a field of this name may have, or else one of the kind of `like`."""
        schemas = self._schemas.get(field)
        if schemas and rng.random() < 0.7:
            return self._of(rng, rng.choice(schemas))
        if isinstance(like, bool) or like is None:
            return rng.choice((True, False, None))
        if isinstance(like, (int, float)):
            return rng.choice((rng.randint(0, 16), 2 ** rng.randint(0, 14), rng.random(), like * 2))
        return rng.choice(self.words) if isinstance(like, str) else like

    def _of(self, rng: random.Random, schema: Mapping[str, Any]) -> Any:
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        least, most = schema.get("minimum", 0), schema.get("maximum", 2 ** rng.randint(1, 20))
        kind = schema.get("type")
        if kind == "integer":
            return rng.choice((least, most, rng.randint(int(least), max(int(least), int(most)))))
        if kind == "number":
            return rng.choice((least, most, rng.uniform(least, most)))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "array":
            items = schema.get("items", {})
            return [self._of(rng, items) for _ in range(rng.randint(0, 4))]
        if kind == "object":
            return {
                name: self._of(rng, field)
                for name, field in schema.get("properties", {}).items()
                if rng.random() < 0.5
            }
        return rng.choice(self.words)


class Mutator:
    """Makes documents out of others, with the help of words that mean something."""

    def __init__(self, documents: Documents, vocabulary: Vocabulary) -> None:
        self._documents = documents
        self._known = vocabulary
        self._vocabulary = vocabulary.words
        self._pieces = [piece for document in documents for piece in _containers(document)]

    def mutated(self, rng: random.Random, document: Mapping[str, Any]) -> Any:
        """The document with one or more things changed: half of them so that much of it may
        still be right."""
        changed: Any = copy.deepcopy(document)
        mutations = _GENTLE if rng.random() < 0.5 else _MUTATIONS
        for _ in range(min(MOST_MUTATIONS, 1 + int(rng.expovariate(0.8)))):
            places = list(_places(changed))
            if not places or rng.random() < 0.01:
                changed = self._value(rng, 3)
            else:
                container, key = rng.choice(places)
                rng.choice(mutations)(self, rng, container, key)
        return changed

    def invented(self, rng: random.Random) -> Any:
        """A document of known words and values, put together at random."""
        names = rng.sample(self._vocabulary, rng.randint(0, 6))
        return {name: self._value(rng, 4) for name in names}

    def _value(self, rng: random.Random, depth: int) -> Any:
        kind = rng.random()
        if kind < 0.35 or depth == 0:
            return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.randint(-5, 5000)
        if kind < 0.6:
            words = TEXTS if rng.random() < 0.5 else self._vocabulary
            return rng.choice(words)
        if kind < 0.7:
            return rng.choice((None, True, False, [], {}))
        if kind < 0.8:
            return copy.deepcopy(rng.choice(self._pieces))
        if kind < 0.9:
            return [self._value(rng, depth - 1) for _ in range(rng.randint(0, 5))]
        names = rng.sample(self._vocabulary, rng.randint(0, 5))
        return {name: self._value(rng, depth - 1) for name in names}

    def _vary(self, rng: random.Random, container: Any, key: Any) -> None:
        if not isinstance(container[key], (dict, list)):
            container[key] = self._known.value(rng, str(key), container[key])

    def _add_known(self, rng: random.Random, container: Any, key: Any) -> None:
        if isinstance(container, dict):
            name = rng.choice(self._vocabulary)
            container[name] = self._known.value(rng, name, None)

    def _replace(self, rng: random.Random, container: Any, key: Any) -> None:
        container[key] = self._value(rng, 3)

    def _drop(self, rng: random.Random, container: Any, key: Any) -> None:
        del container[key]

    def _rename(self, rng: random.Random, container: Any, key: Any) -> None:
        if isinstance(container, dict):
            names = (rng.choice(self._vocabulary), f"{key}s", key.upper(), rng.choice(TEXTS))
            container[rng.choice(names)] = container.pop(key)

    def _add(self, rng: random.Random, container: Any, key: Any) -> None:
        if isinstance(container, dict):
            container[rng.choice(self._vocabulary)] = self._value(rng, 3)
        else:
            container.insert(key, self._value(rng, 3))

    def _scale(self, rng: random.Random, container: Any, key: Any) -> None:
        value = container[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._replace(rng, container, key)
            return
        choices: tuple[Callable[[], Any], ...] = (
            lambda: -value,
            lambda: value + 1,
            lambda: value * 10 ** rng.randint(1, 30),
            lambda: value / 10 ** rng.randint(1, 30),
            lambda: float(value),
            lambda: str(value),
            lambda: value // 2,
        )
        try:
            scaled = rng.choice(choices)()
        except OverflowError:
            scaled = 0
        # Python writes no longer ones.
        container[key] = scaled if isinstance(scaled, str) or abs(scaled) < 10**4100 else 0

    def _retype(self, rng: random.Random, container: Any, key: Any) -> None:
        value = container[key]
        wraps: tuple[Any, ...] = ([value], {"value": value}, str(value)[:1000], value is None)
        container[key] = rng.choice(wraps)

    def _nest(self, rng: random.Random, container: Any, key: Any) -> None:
        value = container[key]
        for _ in range(rng.choice((3, 30, 62, 70))):
            value = [value] if rng.random() < 0.5 else {rng.choice(self._vocabulary): value}
        container[key] = value

    def _repeat(self, rng: random.Random, container: Any, key: Any) -> None:
        value, times = container[key], rng.choice((2, 17, 257, LONGEST_REPEAT))
        if isinstance(value, str):
            container[key] = value[:100] * times
        elif isinstance(container, list):
            container[key : key + 1] = [value] * min(times, LONGEST_REPEAT // (1 + _size(value)))
        else:
            container[key] = [value] * min(times, LONGEST_REPEAT // (1 + _size(value)))

    def _swap(self, rng: random.Random, container: Any, key: Any) -> None:
        other = rng.choice(
            list(container) if isinstance(container, dict) else range(len(container))
        )
        container[key], container[other] = container[other], container[key]

    def _graft(self, rng: random.Random, container: Any, key: Any) -> None:
        container[key] = copy.deepcopy(rng.choice(self._pieces))


Mutation = Callable[[Mutator, random.Random, Any, Any], None]
_MUTATIONS: tuple[Mutation, ...] = (
    Mutator._replace, Mutator._replace, Mutator._drop, Mutator._rename, Mutator._add, Mutator._add,
    Mutator._scale, Mutator._scale, Mutator._scale, Mutator._retype, Mutator._nest, Mutator._repeat,
    Mutator._swap, Mutator._graft,
)  # fmt: skip
_GENTLE: tuple[Mutation, ...] = (
    Mutator._vary, Mutator._vary, Mutator._vary, Mutator._vary, Mutator._drop, Mutator._add_known,
)  # fmt: skip


def as_text(document: Any) -> str:
    """JSON as a client may write it, numbers that are none included."""
    return json.dumps(document, ensure_ascii=False)


def garbled(rng: random.Random, raw: bytes) -> bytes:
    """The text with some of its octets changed, left out, repeated or in another coding."""
    kind = rng.randrange(7)
    if kind == 0:
        coding = rng.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1"))
        return raw.decode("utf-8", "replace").encode(coding, "replace")
    start = rng.randrange(len(raw) + 1)
    end = min(len(raw), start + rng.choice((1, 2, 10, 100)))
    if kind == 1:
        return raw[:start] + raw[end:]
    if kind == 2:
        return raw[:start] + rng.randbytes(end - start) + raw[end:]
    if kind == 3:
        return raw[:start]
    if kind == 4:
        return raw[:start] + raw[start:end] * rng.choice((2, 50)) + raw[end:]
    marks = (b"{", b"[", b'"', b",", b":", b"\\u", b"-", b"1e99999", b"\xff", b"{}", b'"a":1,')
    if kind == 5:
        return raw[:start] + rng.choice(marks) + raw[start:]
    return rng.choice(marks) * rng.choice((1, 100, 10_000, 100_000)) + raw


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from _schemas(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _schemas(value)


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]


def _places(document: Any) -> Iterator[Place]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from ((value, name) for name in value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            yield from ((value, index) for index in range(min(len(value), 50)))
            waiting.extend(value[:50])


def _containers(document: Any) -> Iterator[Any]:
    for container, key in _places(document):
        if isinstance(container[key], (dict, list)):
            yield container[key]


def _size(value: Any) -> int:
    return sum(1 for _ in _places(value))
