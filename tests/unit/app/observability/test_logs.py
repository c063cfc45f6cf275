"""Log lines: their form, what is known beside the message, and what is never in them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from app.observability.context import begin, bind, bound, fields
from app.observability.logs import JsonLines, TextLines, without_secrets
from app.security.keys import Key

ROOT = Path(__file__).resolve().parents[4]
KEY = Key("0123456789ab", "s3cret" * 7 + "x")


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("app.x", logging.WARNING, __file__, 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


@pytest.fixture(autouse=True)
def _no_request() -> None:
    begin()


def test_a_line_of_json_has_time_level_logger_message_and_what_is_known() -> None:
    with bound(solve_id="s1", attempt=2):
        line = json.loads(JsonLines().format(record("lost %s", "w1", status=503)))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "WARNING",
        "logger": "app.x",
        "message": "lost w1",
        "status": 503,
        "solve_id": "s1",
        "attempt": 2,
    }


def test_a_line_of_json_is_one_line_even_with_a_traceback() -> None:
    entry = record("two\nlines")
    try:
        raise ValueError("x")
    except ValueError:
        entry.exc_info = sys.exc_info()
    line = JsonLines().format(entry)
    assert "\n" not in line
    assert "ValueError: x" in json.loads(line)["exc_info"]


def test_a_line_for_people_has_what_is_known_in_brackets() -> None:
    with bound(request_id="r1"):
        line = TextLines().format(record("message"))
    assert line.endswith("Z WARNING app.x: message [request_id=r1]")
    assert TextLines().format(record("message")).endswith(": message")


def test_fields_end_with_their_block_and_bound_ones_are_added() -> None:
    begin(request_id="r1")
    bind(tenant="a")
    with bound(job_id="j1"):
        bind(attempt=1)
        assert fields() == {"request_id": "r1", "tenant": "a", "job_id": "j1", "attempt": 1}
    assert fields() == {"request_id": "r1", "tenant": "a"}


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()])
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"key {KEY.text} is not known", KEY.secret),
        (f"Authorization: Bearer {KEY.text}", KEY.secret),
        (f"Authorization: Bearer {KEY.text[4:]}", KEY.secret),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", "dXNlcjpwYXNz"),
        ("cannot connect to postgresql://user:pass%20word@host/db", "pass%20word"),
        ("redis://:hunter2@host:6379/0 is away", "hunter2"),
        ("https://me:t0ken@hooks.example/x?y=z answered 500", "t0ken"),
    ],
)
def test_secrets_are_in_no_line(formatter: logging.Formatter, text: str, secret: str) -> None:
    with bound(tenant=text):
        lines = [
            formatter.format(record(text)),
            formatter.format(record("%s", text)),
            formatter.format(record("message", path=text)),
        ]
        entry = record("message")
        try:
            raise ValueError(text)
        except ValueError:
            entry.exc_info = sys.exc_info()
        lines.append(formatter.format(entry))
    assert [line for line in lines if secret in line] == []
    assert "hidden" in lines[0]


def test_what_looks_like_a_secret_but_is_none_stays() -> None:
    for text in (
        "layer lm_head_of_the_model",
        "http://host:8400/v1/jobs?x=a@b",
        "12:30: a@b",
        "postgresql://user@host/db",
        "the basic",
    ):
        assert without_secrets(text) == text


def test_one_configuration_for_the_service_and_its_libraries() -> None:
    """In a process of its own: it would take the handlers of pytest away."""
    script = """
import logging
from app.observability.logs import configure_logging
from app.settings import Settings
configure_logging(Settings())
for name in ("app.x", "uvicorn.error", "celery.worker"):
    logging.getLogger(name).info("said")
for name in ("uvicorn.access", "httpx"):
    logging.getLogger(name).info("not said")
logging.getLogger("app.x").debug("not said")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"LOADMASTER_LOG_FORMAT": "json", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["logger"] for line in lines] == ["app.x", "uvicorn.error", "celery.worker"]
    assert {line["message"] for line in lines} == {"said"}
