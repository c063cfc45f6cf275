"""Nobody outlives its parent: the parent-death signal, with a check for the race before it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when the thread that forked it ends.

    Ends the process at once if the parent is gone already. Where the kernel has no such signal
    only that check remains, and the pipe to the parent has to do the rest.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
