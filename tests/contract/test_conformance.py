"""The service answers as its OpenAPI document says, whatever it is asked: schemathesis."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.settings import Settings
from tests.chaos.form import by_form
from tests.contract.solving import SolvedAtOnce
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.keys import headers_of

# Rules that concern several fields are not in the document, and some bodies are too large.
ALSO_EXPECTED_OF_POSITIVE_DATA = ("409", "410", "413", "422")
SEED = 1
CASES = 2_000


@dataclass
class Findings:
    """What came of a run."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, event: Any) -> None:
        if isinstance(event, events.NonFatalError | events.FatalError):
            self.faults.append(repr(getattr(event, "value", None) or event.exception))
        if not isinstance(event, events.ScenarioFinished):
            return
        recorder = event.recorder
        self.cases += len(recorder.cases)
        self.statuses.update(
            seen.response.status_code for seen in recorder.interactions.values() if seen.response
        )
        self.faults += [
            f"{recorder.cases[case_id].value.operation.label}: {check.name}: "
            f"{check.failure_info.failure}\n{check.failure_info.code_sample}"
            for case_id, checks in recorder.checks.items()
            for check in checks
            if check.failure_info is not None
            and not _is_of_a_cancelled(check.name, check.failure_info.code_sample)
        ]


def _is_of_a_cancelled(check: str, requests: str) -> bool:
    """Whether a check takes for removed what was only cancelled: `DELETE` keeps it unless it is
    told to purge."""
    return check == "use_after_free" and "purge=true" not in requests.lower()


@pytest.fixture
def settings(sqlite_template: Path, tmp_path: Path) -> Settings:
    """Of a service with limits low enough to be reached."""
    copy = tmp_path / "loadmaster.db"
    shutil.copy(sqlite_template, copy)
    return Settings(
        database_url=f"sqlite:///{copy}",
        data_dir=tmp_path,
        requests_per_minute=0,
        max_wait_s=0.2,
        max_body_bytes=100_000,
        webhook_secret="a secret of the tests",
        **WITHOUT_KEYS,
    )


@pytest.fixture
def app(settings: Settings) -> Iterator[SolvedAtOnce]:
    """The service with the planner's own readers, without a broker."""
    solved = SolvedAtOnce(create_app(settings), settings)
    yield solved
    solved.close()


@pytest.mark.timeout(600)
def test_examples_and_some_of_what_the_document_allows(app: SolvedAtOnce) -> None:
    findings = run(app, examples=2, coverage=False)
    assert not findings.faults, "\n\n".join(findings.faults)
    assert findings.cases >= 100
    assert {200, 202, 422} <= findings.statuses.keys()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_cases(app: SolvedAtOnce) -> None:
    findings = run(app, examples=by_form(2, 20), coverage=True)
    print(findings.cases, dict(findings.statuses))
    assert not findings.faults, "\n\n".join(findings.faults)
    assert findings.cases >= CASES
    expected = {200, 202, 204, 404, 405, 409, 413, 415, 422}
    # Where a stream of events is asked for behind its end, which few cases do.
    expected |= by_form(set(), {410})
    assert expected <= findings.statuses.keys()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_service_that_asks_for_keys(settings: Settings) -> None:
    keyed = {"authentication": "keys", "allow_anyone_on_the_network": False, "allowed_hosts": ()}
    settings = settings.model_copy(update=keyed)
    database = Database(settings)
    headers = headers_of(database, *Scope)
    database.dispose()
    app = SolvedAtOnce(create_app(settings), settings)
    findings = run(app, examples=3, coverage=False, headers=headers)
    app.close()
    assert not findings.faults, "\n\n".join(findings.faults)
    assert {200, 202, 401} <= findings.statuses.keys()


def run(
    app: SolvedAtOnce, *, examples: int, coverage: bool, headers: dict[str, str] | None = None
) -> Findings:
    """All checks on all operations; the same cases each time."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "headers": headers or {},
            # Streams of jobs that stay queued are left after this time.
            "request-timeout": 20.0,
            "generation": {"max-examples": examples, "deterministic": True, "no-shrink": True},
            "phases": {"coverage": {"enabled": coverage}},
            "checks": {
                "negative_data_rejection": {
                    "expected-statuses": ["400", "401", "403", "404", "405", "413", "415", "422"]
                },
                "positive_data_acceptance": {
                    "expected-statuses": [
                        "2xx", "3xx", "401", "403", "404", "429", *ALSO_EXPECTED_OF_POSITIVE_DATA,
                    ]
                }
            },
        }
    )  # fmt: skip
    findings = Findings()
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    for event in from_schema(schema).execute():
        findings.add(event)
    return findings
