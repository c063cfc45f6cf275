"""`loadmaster slurm`: the script reaches sbatch as it is, and the key only its environment."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from client import cli, slurm
from client.errors import EXIT_ERROR, EXIT_INPUT
from client.library.service import Service

SCRIPT = "#!/bin/bash\necho done\n"
RECORDER = """\
#!/bin/sh
printf '%s\\n' "$@" > {folder}/arguments
cat > {folder}/script
printf '%s' "${{LOADMASTER_API_KEY:-none}}" > {folder}/key
exit {status}
"""


def _answer(request: httpx.Request) -> httpx.Response:
    assert request.url.path == "/v1/jobs/j1/export/slurm"
    return httpx.Response(200, text=SCRIPT)


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    transport = httpx.MockTransport(_answer)
    monkeypatch.setattr(slurm, "connect", lambda server: Service(server, transport=transport))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LOADMASTER_API_KEY", "key of the client")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["slurm", *arguments])


def sbatch(folder: Path, status: int = 0) -> None:
    """A stand-in that keeps what it gets."""
    program = folder / "sbatch"
    program.write_text(RECORDER.format(folder=folder, status=status).replace("cat", "/bin/cat"))
    program.chmod(0o755)


def test_the_script_is_printed_as_it_is() -> None:
    result = run("script", "j1")
    assert (result.exit_code, result.stdout) == (0, SCRIPT)


def test_options_go_before_the_script_and_the_program_behind_it(tmp_path: Path) -> None:
    sbatch(tmp_path)
    result = run("submit", "j1", "-p", "gpu", "-h", "--server=x", "--", "train.py", "--lr", "1 2")
    assert result.exit_code == 0
    given = (tmp_path / "arguments").read_text().splitlines()
    assert given == ["-p", "gpu", "-h", "--server=x", "/dev/stdin", "train.py", "--lr", "1 2"]
    assert (tmp_path / "script").read_text() == SCRIPT


def test_the_key_is_in_the_environment_and_nowhere_else(tmp_path: Path) -> None:
    sbatch(tmp_path)
    (tmp_path / "file").write_text("key of the file\n")
    result = run("submit", "--api-key-file", str(tmp_path / "file"), "j1", "--", "train.py")
    assert result.exit_code == 0
    assert (tmp_path / "key").read_text() == "key of the file"
    assert "key of" not in (tmp_path / "arguments").read_text() + result.output


def test_what_sbatch_refuses_is_refused(tmp_path: Path) -> None:
    sbatch(tmp_path, status=7)
    assert run("submit", "j1", "--", "train.py").exit_code == 7


@pytest.mark.parametrize(
    ("server", "is_warned"), [("http://127.0.0.1:8400", True), ("https://plans.example", False)]
)
def test_an_address_that_nodes_cannot_reach_is_said(
    tmp_path: Path, server: str, is_warned: bool
) -> None:
    sbatch(tmp_path)
    result = run("submit", "--server", server, "j1", "--", "train.py")
    assert ("by which nodes reach it" in result.stderr) is is_warned


def test_without_sbatch_one_line_says_where_to_go() -> None:
    result = run("submit", "j1", "--", "train.py")
    assert result.exit_code == EXIT_ERROR
    assert "sbatch is not on this machine's PATH" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("rest", [["train.py"], ["--"], []])
def test_without_a_program_nothing_is_submitted(tmp_path: Path, rest: list[str]) -> None:
    sbatch(tmp_path)
    result = run("submit", "j1", *rest)
    assert (result.exit_code, "PROGRAM: is missing" in result.stderr) == (EXIT_INPUT, True)
    assert not (tmp_path / "script").exists()
