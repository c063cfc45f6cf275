"""What ended a solver is told in words."""

from __future__ import annotations

import signal

import pytest

from workers.supervise import _death


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (-signal.SIGKILL, "killed by SIGKILL (out of memory?)"),
        (-signal.SIGSEGV, "killed by SIGSEGV."),
        (-(signal.SIGRTMIN + 3), f"killed by signal {signal.SIGRTMIN + 3}."),
        (3, "exit code 3"),
    ],
)
def test_every_end_has_words(exit_code: int, words: str) -> None:
    assert words in _death(exit_code)
