"""What the client raises, and the exit status that each becomes.

ClientError            base; its text is one line for the person at the terminal
├── InputError         a file or an option is wrong                       exit status 2
├── ServiceUnreachable no service answers at the address                  exit status 3
└── ApiError           the service answered with a problem (RFC 9457)     exit status 1
"""

from __future__ import annotations

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
    """A file or an option is wrong. Names the field and what would be accepted."""

    exit_status = EXIT_INPUT

    def __init__(self, path: str, message: str, remedy: str = "") -> None:
        self.path = path
        self.message = message
        self.remedy = remedy
        super().__init__(f"{path}: {message}" + (f" {remedy}" if remedy else ""))


class ServiceUnreachable(ClientError):
    """No service answers at the address."""

    exit_status = EXIT_UNREACHABLE


class ApiError(ClientError):
    """The service refused a request: its status, the field at fault and the remedy."""

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
