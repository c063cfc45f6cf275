"""`loadmaster keys`, `tenants` and `audit`, on a database of each kind."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from starlette.testclient import TestClient

from app.callers import ALL_SCOPES, Scope
from app.database import Database
from app.security.keys import parse_key
from app.services.keys import KeyRing
from app.services.tenants import Tenants
from app.token_file import ensure_token_file
from client import cli
from client.administration import keys as keys_command

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Run:
    monkeypatch.setenv("LOADMASTER_DATABASE_URL", database_url)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(cli.main, arguments)

    return invoke


def made(result: Result) -> str:
    """The key that a command printed."""
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_key_that_is_made_opens_the_service(run: Run, keyed_client: TestClient) -> None:
    result = run("keys", "create", "--name", "laptop")
    text = made(result)
    key = parse_key(text)
    assert key is not None
    assert key.secret not in result.stderr
    headers = {"Authorization": f"Bearer {text}"}
    assert keyed_client.get("/v1/jobs", headers=headers).status_code == 200
    # Submit and read, but not admin.
    assert keyed_client.get("/v1/audit", headers=headers).status_code == 403


def test_listed_keys_show_everything_but_the_secret(run: Run) -> None:
    key = parse_key(made(run("keys", "create", "--name", "laptop", "--expires", "90d")))
    other = parse_key(made(run("keys", "create", "--tenant", "other", "--scope", "admin")))
    assert key is not None
    assert other is not None
    listed = run("keys", "list").stdout
    assert all(text in listed for text in (key.id, other.id, "laptop", "read submit", "valid"))
    assert key.secret not in listed
    assert key.secret_hash not in listed
    assert other.id not in run("keys", "list", "--tenant", "default").stdout


def test_revoked_and_expired_keys_are_listed_as_such(
    run: Run, database: Database, keyed_client: TestClient
) -> None:
    text = made(run("keys", "create"))
    key = parse_key(text)
    assert key is not None
    assert run("keys", "revoke", key.id).stdout == f"key {key.id}: revoked\n"
    headers = {"Authorization": f"Bearer {text}"}
    assert keyed_client.get("/v1/jobs", headers=headers).status_code == 401
    KeyRing(database).create("a test", tenant="default", name="short", lifetime_s=0.001)
    states = {line.split()[-1] for line in run("keys", "list").stdout.splitlines()[1:]}
    assert states == {"revoked", "expired"}
    assert run("keys", "revoke", key.id).exit_code == 0
    unknown = run("keys", "revoke", "0123456789ab")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "create", "--expires", "90"),
        ("keys", "create", "--expires", "0d"),
        ("keys", "create", "--expires", "999999999w"),
        ("keys", "create", "--scope", "root"),
        ("keys", "create", "--tenant", "a b"),
        ("keys", "create", "--tenant", "../x"),
        ("keys", "create", "--name", "a\nb"),
        ("tenants", "set", "a"),
        ("tenants", "set", "a", "--max-queued", "-1"),
        ("tenants", "set", "a", "--max-running", "0"),
        ("tenants", "set", "a", "--requests-per-minute", "many"),
    ],
)
def test_wrong_usage_changes_nothing(run: Run, database: Database, arguments: tuple[str]) -> None:
    assert run(*arguments).exit_code == 2
    assert KeyRing(database).all()[0] == []
    assert Tenants(database).all() == []


def test_scopes_of_the_command_are_those_there_are() -> None:
    assert set(keys_command.SCOPES) == {scope.value for scope in Scope}


def test_limits_of_a_tenant_are_set_one_by_one(run: Run, database: Database) -> None:
    assert run("tenants", "set", "lab", "--max-queued", "7", "--private-answers").exit_code == 0
    assert run("tenants", "set", "lab", "--max-running", "3").exit_code == 0
    (tenant,) = Tenants(database).all()
    assert (tenant.max_queued, tenant.max_running, tenant.requests_per_minute) == (7, 3, None)
    assert not tenant.shares_answers
    listed = run("tenants", "list").stdout.splitlines()[1].split()
    assert listed == ["lab", "7", "3", "default", "private"]
    options = ("--max-queued", "default", "--requests-per-minute", "0", "--shared-answers")
    assert run("tenants", "set", "lab", *options).exit_code == 0
    (tenant,) = Tenants(database).all()
    assert (tenant.max_queued, tenant.max_running, tenant.requests_per_minute) == (None, 3, 0)
    assert tenant.shares_answers


def test_audit_log_says_who_did_what(run: Run) -> None:
    key = parse_key(made(run("keys", "create", "--tenant", "lab")))
    assert key is not None
    run("keys", "revoke", key.id)
    run("tenants", "set", "other", "--max-queued", "7")
    lines = run("audit").stdout.splitlines()
    assert "limits changed" in lines[1]
    assert "key revoked" in lines[2]
    assert "key created" in lines[3]
    assert "@" in lines[3]
    assert key.secret not in "".join(lines)
    assert "other" not in run("audit", "--tenant", "lab").stdout
    assert len(run("audit", "--limit", "1").stdout.splitlines()) == 2


def test_database_has_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LOADMASTER_DATABASE_URL", raising=False)
    for command in (["keys", "create"], ["keys", "list"], ["tenants", "list"], ["audit"]):
        result = CliRunner().invoke(cli.main, [*command, "--data-dir", str(tmp_path)])
        assert result.exit_code == 2
        assert "there is no database" in result.stderr
        assert "Start the service once" in result.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "loadmaster.db").touch()
    result = CliRunner().invoke(cli.main, ["keys", "create", "--data-dir", str(tmp_path)])
    assert f"`loadmaster db migrate --data-dir {tmp_path}`" in result.stderr


def test_data_directory_names_the_database(
    monkeypatch: pytest.MonkeyPatch, sqlite_database_url: str
) -> None:
    folder = str(Path(sqlite_database_url.removeprefix("sqlite:///")).parent)
    monkeypatch.setenv("LOADMASTER_DATABASE_URL", "postgresql://nobody@/nothing")
    result = CliRunner().invoke(cli.main, ["keys", "create", "--data-dir", folder])
    assert parse_key(made(result))
    monkeypatch.delenv("LOADMASTER_DATABASE_URL")
    monkeypatch.setenv("LOADMASTER_DATA_DIR", folder)
    assert "valid" in CliRunner().invoke(cli.main, ["keys", "list"]).stdout


def test_token_file_is_made_once(database: Database, tmp_path: Path) -> None:
    keys, path = KeyRing(database), tmp_path / "token"
    assert ensure_token_file(path, keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text().strip()
    assert not ensure_token_file(path, keys)
    assert path.read_text().strip() == text
    (row,) = keys.all()[0]
    assert set(row.scopes.split()) == set(ALL_SCOPES)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense\n", b"\xff\xfe", b"lm_0123456789ab_" + b"A" * 43]
)
def test_token_file_without_a_valid_key_is_made_anew(
    database: Database, tmp_path: Path, content: bytes
) -> None:
    keys, path = KeyRing(database), tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o644)
    assert ensure_token_file(path, keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.is_valid(path.read_text().strip())
    key = parse_key(path.read_text().strip())
    assert key is not None
    keys.revoke("a test", key.id)
    assert ensure_token_file(path, keys)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("token")] == [
        "token"
    ]
