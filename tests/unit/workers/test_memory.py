"""What a process and all that it started hold."""

from __future__ import annotations

import os
import subprocess
import sys

from workers.memory import held_bytes

MIB = 1 << 20
FORKS = """
import os, sys, time
held = b"x" * (100 << 20)
if os.fork() == 0:
    time.sleep(600)
print("there", flush=True)
time.sleep(600)
"""


def test_what_is_shared_counts_once_when_it_matters() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            # Both hold the same 100 MiB.
            assert 200 * MIB < held_bytes(process.pid, 1000 * MIB) < 300 * MIB
            assert 100 * MIB < held_bytes(process.pid, 150 * MIB) < 150 * MIB
        finally:
            os.killpg(process.pid, 9)


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert held_bytes(process.pid, 0) == 0
