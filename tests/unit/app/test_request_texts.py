"""What is kept of a request, and in how few words what it plans is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.schemas.requests import split_body
from app.services.request_texts import LONGEST_MODEL, Posted, described, posted
from app.services.resolutions import json_text

SIZES = {"layers": 48, "hidden_size": 5120, "heads": 40}
STAGES = [{"device": device} for device in range(4)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": "GPT-14.2B", "cluster": "8xA100-40GB"}, "GPT-14.2B"),
        ({"model": "gpt_14.2b"}, "GPT-14.2B"),
        ({"model": "meta-llama/Llama-2-13b-hf"}, "Llama-2-13B"),
        ({"model": {"preset": "GPT-14.2B"}}, "GPT-14.2B"),
        ({"model": {"preset": "GPT-14.2B", "sequence": None}}, "GPT-14.2B"),
        ({"model": {"preset": "GPT-14.2B", "sequence": 4096}}, "GPT-14.2B, changed"),
        ({"model": SIZES}, "48 layers x 5120"),
        ({"model": {**SIZES, "name": "ours"}}, "ours"),
        ({"transformer": "BERT-Large"}, "BERT-Large, 1 layer"),
        ({"transformer": {"preset": "GPT-3.6B", "layers": 30}}, "GPT-3.6B, 30 layers"),
        ({"transformer": {"hidden_size": 1024}}, "1 layer x 1024"),
        ({"problem": {"stages": STAGES, "micro_batches": 8}}, "4 stages x 8 micro-batches"),
        ({"problem": {"stages": STAGES[:1], "micro_batches": 1}}, "1 stage x 1 micro-batch"),
        ({"graph": {"operators": [{}] * 15}}, "graph of 15 operations"),
        ({"script": "unknown"}, None),
        ({"model": 7, "problem": [], "graph": "x", "transformer": None}, None),
        ({"model": "\x00\n"}, None),
    ],
)
def test_what_is_planned_is_said_in_short(body: dict[str, Any], words: str | None) -> None:
    assert described(body) == words


def test_what_a_client_wrote_stays_one_short_line() -> None:
    words = described({"model": {"name": "a\nb\x00" + "c" * 500}})
    assert words is not None
    assert words.startswith("a b c")
    assert len(words) == LONGEST_MODEL


def kept(body: dict[str, Any]) -> Posted:
    fields, rest = split_body(body)
    return posted(fields, rest, json_text(rest))


@pytest.mark.parametrize(
    "body",
    [
        {"model": "GPT-2", "cluster": "4xA100"},
        {"model": "GPT-2", "name": "mine", "tags": ["a", "b"], "priority": 5},
        {"name": "alone"},
        {},
    ],
)
def test_the_text_is_what_was_posted(body: dict[str, Any]) -> None:
    text = kept(body).text
    assert text is not None
    assert json.loads(text) == body
    assert ": " not in text


def test_no_secret_of_a_webhook_is_kept() -> None:
    hook = {"url": "https://hooks.example/x", "secret": "a secret of sixteen or more"}
    text = kept({"model": "GPT-2", "name": "mine", "webhook": hook}).text
    assert text == '{"name":"mine","model":"GPT-2"}'
