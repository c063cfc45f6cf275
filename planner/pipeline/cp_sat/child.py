"""The child process of `improve_with_cp_sat`: a task on its input, messages on its output.

The end of its input is the request to stop.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from planner.errors import OrderError
from planner.pipeline.cp_sat.messages import Task, outcome_document, to_line
from planner.pipeline.schedule import Schedule


class _Sender:
    """A report that sends what it is told as messages."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "wb")

    def send(self, kind: str, value: Any) -> None:
        """One message, at once."""
        self._stream.write(to_line({"kind": kind, "value": value}))
        self._stream.flush()

    def log(self, line: str) -> None:
        """A live log line."""
        self.send("log", line)

    def bound(self, name: str, value: float) -> None:
        """A better bound."""
        self.send("bound", (name, value))

    def incumbent(self, schedule: Schedule) -> None:
        """A better schedule."""
        self.send("incumbent", schedule.to_document(None))


def main() -> None:
    """Solve the task that comes in."""
    # A terminal's interrupt reaches the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever the solver prints must not come between the messages.
    sender = _Sender(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    line = sys.stdin.buffer.readline()
    if not line:
        return
    stop = threading.Event()

    def wait_for_end_of_input() -> None:
        # Below Python's buffer, whose lock must be free when the process exits.
        while os.read(sys.stdin.fileno(), 1):
            pass
        stop.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    # Only now, since it loads OR-Tools: the parent waits until its task has been read.
    from planner.pipeline.cp_sat.search import improve_here

    task = Task.read(json.loads(line))
    try:
        outcome = improve_here(
            task.problem, task.start, task.settings, sender, stop.is_set, sender.incumbent
        )
    except OrderError as error:
        sender.send("infeasible", str(error))
    else:
        sender.send("outcome", outcome_document(outcome))


if __name__ == "__main__":
    main()
