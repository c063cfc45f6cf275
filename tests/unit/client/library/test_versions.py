"""Which services are refused, and what they are told apart by."""

from __future__ import annotations

import httpx
import pytest

from client.errors import ApiError, IncompatibleServer
from client.library.retries import NO_RETRIES
from client.library.service import Service
from client.library.versions import NEEDED, VERSION_HEADER, check_version
from planner.version import __version__
from tests.unit.client.fake_service import job


def answering(version: str | None, status: int = 200) -> Service:
    headers = {} if version is None else {VERSION_HEADER: version}
    transport = httpx.MockTransport(
        lambda _: httpx.Response(status, json=job("running"), headers=headers)
    )
    return Service("http://service", transport=transport, retries=NO_RETRIES)


def test_this_version_and_later_ones_fit() -> None:
    major, minor = NEEDED
    for version in (__version__, f"{major}.{minor}.0", f"{major}.{minor + 7}.1", f"{NEEDED}.0rc1"):
        assert answering(version).status("j1")["state"] == "running"


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        (f"{NEEDED.major}.{NEEDED.minor - 1}.9", "Update the service, or install `loadmaster=="),
        (f"{NEEDED.major + 1}.0.0", "Update this client"),
        (None, f"older than Loadmaster {NEEDED}"),
        ("nginx", "which is none"),
    ],
)
def test_others_are_refused_with_the_remedy(version: str | None, remedy: str) -> None:
    with pytest.raises(IncompatibleServer, match=remedy):
        answering(version).status("j1")


def test_an_older_major_version_is_the_services_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.library.versions.NEEDED", NEEDED._replace(major=2))
    with pytest.raises(IncompatibleServer, match="Update the service"):
        check_version("http://service", "1.9.0")


def test_refusals_of_what_is_in_between_are_told_as_they_are() -> None:
    with pytest.raises(ApiError):
        answering(None, status=403).status("j1")
    with pytest.raises(IncompatibleServer):
        answering("9.0.0", status=404).status("j1")
