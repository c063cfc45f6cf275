"""`loadmaster demo`: the whole service started, used once and stopped again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

import planner
from client.errors import EXIT_INTERRUPTED, ClientError, ServiceUnreachable
from client.library.service import Service
from client.solving import answer_of, finish, time_limit_s
from embedded.child import last_line, spawn
from embedded.data_dir import read_holder

DEFAULT_DEMO_DIR = Path("loadmaster-demo")
EXAMPLE = Path(planner.__file__).parent / "examples" / "gpt-14.2b-8xA100-40GB.json"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 12.0


def run_demo(console: Console, data_dir: Path, limit_s: float | None) -> int:
    """Solve the example on a service of its own; returns the exit status."""
    body: dict[str, Any] = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    if limit_s is not None:
        body["solver"] = {**body.get("solver", {}), "time_limit_s": limit_s}
    console.print(f"starting the service in {data_dir}", markup=False)
    with _service(data_dir) as url, Service(url) as client:
        console.print(f"posting {body.get('name', EXAMPLE.name)} to {url}", markup=False)
        try:
            submission = client.submit("pipeline", body)
            result = answer_of(client, submission, console, time_limit_s(body))
        except KeyboardInterrupt:
            console.print("\ninterrupted; run it again to go on from the best plan so far")
            return EXIT_INTERRUPTED
        status = finish(console, "pipeline", result, data_dir / "result.json")
    program = os.path.relpath(Path(sys.executable).parent / "loadmaster")
    console.print(
        f"The service is stopped. To keep one running: {program} serve",
        markup=False,
        soft_wrap=True,
    )
    return status


@contextmanager
def _service(data_dir: Path) -> Iterator[str]:
    """`loadmaster serve` on a free port, as a child that dies with this process."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = data_dir / "serve.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "client", "serve", "--port", "0", "--authentication", "off"]
    process = spawn(
        [*command, "--data-dir", str(data_dir.absolute())],
        log=log,
        environment=os.environ,
        working_dir=data_dir,
    )
    try:
        yield _wait_until_ready(process, data_dir, log)
    except ServiceUnreachable as error:
        if process.poll() is None:
            raise
        raise _ended(log) from error
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], data_dir: Path, log: Path) -> str:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _ended(log)
        holder = read_holder(data_dir)
        if holder.get("pid") == process.pid and holder.get("ready"):
            return str(holder["url"])
        time.sleep(0.05)
    raise ClientError(f"the service did not start within {START_WITHIN_S:.0f} s; see {log}")


def _ended(log: Path) -> ClientError:
    reason = last_line(log).removeprefix("error: ")
    return ClientError(f"the service ended: {reason or 'it said nothing'}")
