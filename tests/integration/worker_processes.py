"""Celery workers as processes, which are gone when the block that starts them ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
Worker = subprocess.Popen[bytes]
Start = Callable[..., Worker]


@contextmanager
def worker_starter(log: Path) -> Iterator[Start]:
    """Starts workers with these options and this environment, all of which write to one log."""
    workers: list[Worker] = []
    inherited = {key: value for key, value in os.environ.items() if "LOADMASTER" not in key}

    def start(*options: str, environment: Mapping[str, str]) -> Worker:
        with log.open("ab") as sink:
            worker = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "workers.celery_app", "worker", *options],
                env={**inherited, **environment},
                cwd=ROOT,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        workers.append(worker)
        return worker

    try:
        yield start
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
