"""Locked packages have known, allowed licences that users can read; vulnerabilities are told."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts import audit
from scripts.audit import AuditFailed, Unreachable, faults_of_licences, vulnerabilities
from scripts.licences import PAGE, UnknownLicence, known_licences, licence_of, page_anew
from scripts.locked import GROUPS, ROOT, Locked, bundled, installed_licence, locked, policy
from tests.dockerfile import read_dockerfile

TEXT = PAGE.read_text()
RULES = policy()


def test_the_page_is_what_the_locks_and_the_installed_packages_say() -> None:
    assert page_anew(TEXT, sys.path) == TEXT, "run: python -m scripts.licences"


def test_every_locked_package_is_under_an_allowed_licence() -> None:
    assert faults_of_licences(TEXT, RULES) == []


def test_a_package_that_is_not_listed_is_told() -> None:
    listed = re.search(r"^\| `celery` .*\n", TEXT, re.MULTILINE)
    assert listed is not None
    [fault] = faults_of_licences(TEXT.replace(listed[0], ""), RULES)
    assert "celery" in fault
    assert "scripts.licences" in fault


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "unheard of"])
def test_a_licence_that_is_not_allowed_is_told(licence: str) -> None:
    page = re.sub(r"(\| `celery` \| [^|]+ \|)[^|]+\|", rf"\1 {licence} |", TEXT)
    [fault] = faults_of_licences(page, RULES)
    assert f"is under {licence}" in fault


def test_one_of_several_alternatives_has_to_be_allowed_and_all_of_several_licences() -> None:
    assert RULES.allows("any", "GPL-3.0-only OR MIT")
    assert RULES.allows("any", "MIT AND Apache-2.0 WITH LLVM-exception")
    assert not RULES.allows("any", "MIT AND GPL-3.0-only")


def test_exceptions_hold_for_the_package_and_the_licence_they_were_made_for() -> None:
    assert RULES.allows("cbcbox", "EPL-2.0")
    assert not RULES.allows("cbcbox", "AGPL-3.0-only")
    assert not RULES.allows("celery", "EPL-2.0")
    names = {package.name for group in GROUPS for package in locked(group)}
    assert RULES.exceptions.keys() <= names
    assert RULES.stated.keys() <= names


def test_what_asks_for_more_than_a_notice_is_explained() -> None:
    explained = TEXT.partition("## In the service")[0]
    for name, reason in RULES.exceptions.items():
        licence = reason.partition(":")[0]
        assert name.removesuffix("-bin").removesuffix("-binary") in explained.lower()
        assert any(words in explained for words in (licence, licence.split("-")[0]))


def test_a_licence_comes_from_the_metadata(tmp_path: Path) -> None:
    def install(name: str, *lines: str) -> Locked:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        text = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *lines, ""])
        (folder / "METADATA").write_text(text)
        return Locked(name, "1.0")

    where = [str(tmp_path)]
    assert installed_licence(install("one", "License-Expression: MIT AND 0BSD"), where) == (
        "MIT AND 0BSD"
    )
    classifier = "Classifier: License :: OSI Approved :: Apache Software License"
    assert installed_licence(install("two", classifier), where) == "Apache-2.0"
    assert installed_licence(install("three", "License: BSD"), where) is None
    assert installed_licence(Locked("four", "1.0"), where) is None
    with pytest.raises(UnknownLicence, match="three"):
        licence_of(Locked("three", "1.0"), where, {})


def test_bundled_packages_are_those_whose_texts_the_dashboard_has() -> None:
    for part in ("static", "report"):
        texts = (ROOT / "app" / "dashboard" / part / "licenses.md").read_text()
        has = {Locked(*found) for found in re.findall(r"^## (\S+) - (\S+) \(", texts, re.MULTILINE)}
        assert has <= {package for package, _ in bundled()}
        assert "Apache ECharts" in (ROOT / "NOTICE").read_text()


def test_the_image_is_listed_as_it_is_made() -> None:
    listed = TEXT.partition("<!-- image: made by scripts.licences -->")[2]
    listed = listed.partition("<!-- end -->")[0]
    _, runtime = read_dockerfile()
    assert f"**Base image**: `{runtime.image}`" in listed
    assert "**Debian packages** added to it: none" in listed
    runs = " ".join(each for stage in read_dockerfile() for each in stage.all_of("RUN"))
    assert "apt" not in runs
    copied = " ".join(each for stage in read_dockerfile() for each in stage.all_of("COPY"))
    assert {"LICENSE", "NOTICE", PAGE.name} <= set(copied.split())
    named = dict(re.findall(r"`([^\s`]+) ([^\s`]+)`", listed))
    known = known_licences(TEXT)
    assert all(Locked(name, version) in known for name, version in named.items())
    # One version of each, and not what the image removes.
    own = {package.name for package in locked("runtime")}
    assert own - named.keys() == {"async-timeout", "tzdata", "pip", "setuptools"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "pip-audit"


def answer(program: Path, document: Any, words: str = "", status: int = 0) -> None:
    """Let the program give this answer."""
    text = document if isinstance(document, str) else json.dumps({"dependencies": document})
    code = f"import sys; print({text!r}); print({words!r}, file=sys.stderr); sys.exit({status})"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)


FOUND = {
    "name": "celery",
    "version": "5.7.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["5.7.1"]}],
}


def test_a_vulnerability_is_told_until_it_is_reviewed(program: Path) -> None:
    answer(program, [FOUND, {"name": "click", "version": "8.5.1", "vulns": []}], status=1)
    assert vulnerabilities(program, RULES) == ["celery 5.7.0: PYSEC-1 (fixed in 5.7.1)"]
    reviewed = replace(RULES, vulnerabilities={"CVE-1": "that part is not used"})
    assert vulnerabilities(program, reviewed) == []


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "requests.exceptions.ConnectionError: Max retries exceeded"),
        ("", "ERROR:pip_audit._cli:Could not connect: Connection refused"),
        ([{"name": "click", "skip_reason": "Dependency not found on PyPI"}], ""),
    ],
)
def test_a_service_that_is_not_reached_is_no_fault(
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    document: Any,
    words: str,
) -> None:
    answer(program, document, words, status=1)
    with pytest.raises(Unreachable):
        vulnerabilities(program, RULES)
    monkeypatch.setattr(audit, "pip_audit", lambda: program)
    monkeypatch.setattr("sys.argv", ["audit.py"])
    assert audit.main() == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    assert "could not be asked for" in said.out
    assert said.err == ""


def test_another_failure_is_one(program: Path) -> None:
    answer(program, "", "KeyError: 'dependencies'", status=1)
    with pytest.raises(AuditFailed, match="KeyError"):
        vulnerabilities(program, RULES)


def test_a_found_vulnerability_fails_the_check(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(program, [FOUND], status=1)
    monkeypatch.setattr(audit, "pip_audit", lambda: program)
    monkeypatch.setattr("sys.argv", ["audit.py"])
    assert audit.main() == 1
    assert "PYSEC-1" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["audit.py", "--licences"])
    assert audit.main() == 0
