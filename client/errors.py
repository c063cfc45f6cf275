"""What the client raises, and the exit status that each becomes.

ClientError                base; its text is one line for people
├── InputError             a file, an option or an argument is wrong              exit status 2
├── ServiceUnreachable     no service answers at the address                      exit status 3
├── IncompatibleServer     a service answers whose version does not fit           exit status 1
├── WaitTimeout            a job was not over in time (a `TimeoutError` too)      exit status 1
├── Infeasible             proven that nothing fits; has the way out              exit status 4
└── ApiError               the service, or the planner in its place, refused      exit status 1
    └── NoPlan             the job is over and there is no plan                   exit status 5
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXIT_ERROR = 1
EXIT_INPUT = 2
EXIT_UNREACHABLE = 3
EXIT_INFEASIBLE = 4
EXIT_NO_PLAN = 5
EXIT_INTERRUPTED = 130


class ClientError(Exception):
    """Something that ends a command with one line on stderr."""

    exit_status = EXIT_ERROR


class InputError(ClientError):
    """A file, an option or an argument is wrong. Names it and what would be accepted."""

    exit_status = EXIT_INPUT

    def __init__(self, path: str, message: str, remedy: str = "") -> None:
        self.path = path
        self.message = message
        self.remedy = remedy
        super().__init__(f"{path}: {message}" + (f" {remedy}" if remedy else ""))


class ServiceUnreachable(ClientError):
    """No service answers at the address."""

    exit_status = EXIT_UNREACHABLE


class IncompatibleServer(ClientError):
    """The service's version and this client's do not go together. Says which to update."""


class WaitTimeout(ClientError, TimeoutError):
    """A job or a batch was not over in the time that was given to it. It goes on."""


class Infeasible(ClientError):
    """Nothing fits, which is proven. `document` is the whole result, `infeasibility` what is
    missing and what would help."""

    exit_status = EXIT_INFEASIBLE

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.infeasibility: Mapping[str, Any] = document["infeasibility"]
        summary = str(self.infeasibility.get("summary") or "Nothing fits into memory.")
        super().__init__(f"{summary} `infeasibility` says what is missing and what would help.")


class ApiError(ClientError):
    """A request was refused: its status, the field at fault and the remedy."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        code: str = "",
        path: str = "",
        remedy: str = "",
    ) -> None:
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.path = path
        self.remedy = remedy
        text = f"{path}: {detail or title}" if path else detail or title
        super().__init__(" ".join(f"{text} {remedy}".split()))


class NoPlan(ApiError):
    """The job failed, or was cancelled before it had a plan; `code` says how."""

    exit_status = EXIT_NO_PLAN
