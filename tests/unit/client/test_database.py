"""`loadmaster` for use over a network loads nothing that only the service needs."""

from __future__ import annotations

import subprocess
import sys

from click.testing import CliRunner

from client.cli import main

SERVICE_ONLY = ("sqlalchemy", "alembic", "celery", "fastapi", "prometheus_client")


def test_the_command_loads_no_library_of_the_service() -> None:
    script = f"import sys, client.cli; print([n for n in {SERVICE_ONLY} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_commands_of_the_database_are_listed() -> None:
    done = CliRunner().invoke(main, ["db", "--help"])
    assert done.exit_code == 0
    for name in ("migrate", "prune", "backup", "check"):
        assert f"\n  {name} " in done.output
