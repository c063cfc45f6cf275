"""How processes end: none outlives its parent (the parent-death signal, with a check for the race
before it), and what killed one has a name."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
# Loaded here, since between fork and exec nothing may be loaded safely.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Have the kernel SIGKILL this process when the thread that forked it ends (prctl(2)).

    `parent` is the process that is expected to be the parent; if it is gone already, this process
    ends at once. Where the kernel has no such signal only that check remains, and a pipe to the
    parent has to do the rest.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def signal_in_words(number: int) -> str:
    """What a signal is called; of those for real-time use only two have a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
