"""One way to write logs, for the API, the worker and the sweep."""

from __future__ import annotations

import logging
import logging.config
import re
from datetime import UTC, datetime
from typing import Any, Literal

from pythonjsonlogger.json import JsonFormatter

from app.observability.context import fields
from app.settings import Settings

LogFormat = Literal["json", "text"]
# What must not be in a log, and what stands there instead.
SECRETS = (
    # The id of a key is none, and tells whose it is.
    (re.compile(r"(lm_[0-9a-f]{12}_)[A-Za-z0-9_\-]+"), r"\1[hidden]"),
    (re.compile(r"""(\b[a-z][a-z0-9+.\-]*://[^\s:/@"']*:)[^\s/@"']+@""", re.I), r"\1[hidden]@"),
    (re.compile(r"""\b((?:bearer|basic)\s+)[^\s,;"'\\]+""", re.I), r"\1[hidden]"),
)
# Libraries that write addresses, whose queries may hold secrets, or every step of theirs.
QUIET = ("httpx", "httpx2", "httpcore", "httpcore2", "amqp", "kombu", "urllib3")


def without_secrets(text: str) -> str:
    """The text with API keys, passwords in addresses and credentials hidden."""
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _instant(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(JsonFormatter):
    """A JSON object per line: `time`, `level`, `logger`, `message`, and what is known beside."""

    def __init__(self) -> None:
        super().__init__(
            ("asctime", "levelname", "name", "message"),
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        )

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """UTC, with milliseconds."""
        return _instant(record)

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Add what the context knows."""
        return {**log_data, **fields()}

    def format(self, record: logging.LogRecord) -> str:
        """The line, without secrets."""
        return without_secrets(super().format(record))


class TextLines(logging.Formatter):
    """A line for people, with what is known beside in brackets."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """UTC, with milliseconds."""
        return _instant(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The first line, before a traceback if there is one."""
        known = " ".join(f"{name}={value}" for name, value in fields().items())
        return super().formatMessage(record) + (f" [{known}]" if known else "")

    def format(self, record: logging.LogRecord) -> str:
        """The line, without secrets."""
        return without_secrets(super().format(record))


FORMATTERS: dict[LogFormat, type[logging.Formatter]] = {"json": JsonLines, "text": TextLines}


def configure_logging(settings: Settings) -> None:
    """Send the logs of this process to stderr, as the settings say."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"lines": {"()": FORMATTERS[settings.log_format]}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
            "root": {"level": settings.log_level, "handlers": ["stderr"]},
            "loggers": {
                "uvicorn": {"handlers": [], "propagate": True},
                "uvicorn.error": {"handlers": [], "propagate": True},
                # The service writes a line per request itself, with the request's id.
                "uvicorn.access": {"handlers": [], "propagate": False},
                **{name: {"level": "WARNING"} for name in QUIET},
            },
        }
    )
