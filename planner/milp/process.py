"""A solver executable as a supervised child: its own group, killed with us, stopped on request."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from planner.errors import SolverCrash
from planner.milp.output import OutputLines
from planner.process_guard import die_with_parent

POLL_S = 0.1
GRACE_S = 1.2
"""How long a solver may take to end after SIGINT before it is killed."""

Interrupt = Literal["stop", "time_limit"]


@dataclass(frozen=True)
class ProcessEnd:
    """How a child ended after `elapsed_s`. `interrupted` says why it was signalled, if it was."""

    returncode: int
    interrupted: Interrupt | None
    killed: bool
    elapsed_s: float
    log_tail: list[str]


def run_supervised(
    arguments: Sequence[str | Path],
    *,
    time_limit_s: float,
    should_stop: Callable[[], bool],
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd:
    """Run an executable to its end, the time limit or a stop request, whichever is first.

    The limit and a stop send SIGINT, which lets the solver write what it has; SIGKILL follows
    after a grace period. Raises `SolverCrash` if it cannot be started.
    """
    begun = time.monotonic()
    deadline = begun + time_limit_s
    try:
        child = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise SolverCrash(f"{arguments[0]} cannot be started: {error}", []) from error
    interrupted: Interrupt | None = None
    kill_at = float("inf")
    killed = False
    with child:
        try:
            assert child.stdout is not None
            output = OutputLines(child.stdout.fileno(), on_line)
            while output.is_open or child.poll() is None:
                output.pump(POLL_S if output.is_open else POLL_S / 10)
                now = time.monotonic()
                if interrupted is None and (now >= deadline or should_stop()):
                    interrupted = "time_limit" if now >= deadline else "stop"
                    os.killpg(child.pid, signal.SIGINT)
                    kill_at = now + GRACE_S
                elif now >= kill_at and not killed:
                    killed = True
                    os.killpg(child.pid, signal.SIGKILL)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    elapsed_s = time.monotonic() - begun
    return ProcessEnd(child.returncode, interrupted, killed, elapsed_s, list(output.tail))
