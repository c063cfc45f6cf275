"""Below a path of a proxy: requests with and without the prefix, and links that can be followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.integration.fakes import resolve_fake, resolve_fake_sharding, resolve_fake_training
from tests.integration.following import FOLLOW, PROBLEM, RUNS
from tests.integration.helpers import ADDRESS

PREFIX = "/tools/loadmaster"


@pytest.fixture
def proxied(settings: Settings) -> Iterator[TestClient]:
    """The API as it is when a proxy serves it below a path."""
    below = settings.model_copy(update={"root_path": PREFIX})
    app = create_app(below, resolve_fake, resolve_fake_sharding, resolve_fake_training)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


# What a proxy that strips its prefix passes on, and what one that does not.
@pytest.mark.parametrize("sent", ["", PREFIX])
def test_links_have_the_prefix_and_can_be_followed(proxied: TestClient, sent: str) -> None:
    response = proxied.post(f"{sent}{ADDRESS}", json={"script": "answer"})
    assert response.status_code == 202
    links = response.json()["links"]
    assert response.headers["Location"] == links["self"]
    assert all(link.startswith(f"{PREFIX}/v1/jobs/") for link in links.values())
    path = links["self"] if sent else links["self"].removeprefix(PREFIX)
    view = proxied.get(path)
    assert view.status_code == 200
    assert view.json()["links"] == links


def test_links_of_a_run_have_the_prefix_too(settings: Settings) -> None:
    below = settings.model_copy(update={"root_path": PREFIX})
    with TestClient(create_app(below)) as proxied:
        made = proxied.post(f"{PREFIX}{RUNS}", json={"problem": PROBLEM, "follow": FOLLOW})
        links = made.json()["links"]
        assert made.headers["Location"] == links["self"]
        assert all(link.startswith(f"{PREFIX}/v1/") for link in links.values())
        assert proxied.get(links["self"]).json()["links"] == links
        assert proxied.get(links["job"]).status_code == 200
        assert proxied.get(links["plan"]).headers["Location"] == links["plan"]


@pytest.mark.parametrize("sent", ["", PREFIX])
def test_health_and_documentation_are_below_it_too(proxied: TestClient, sent: str) -> None:
    assert proxied.get(f"{sent}/healthz").status_code == 200
    page = proxied.get(f"{sent}/docs")
    assert f"{PREFIX}/openapi.json" in page.text
    document = proxied.get(f"{sent}/openapi.json").json()
    assert document["servers"] == [{"url": PREFIX}]
    # The page's own policy, which lets it load its scripts, is found by the path.
    policy = "Content-Security-Policy"
    assert page.headers.get(policy) == proxied.get("/docs").headers.get(policy)


def test_problems_name_the_path_that_the_client_used(proxied: TestClient) -> None:
    problem = proxied.get(f"{PREFIX}/v1/jobs/none").json()
    assert problem["instance"] == f"{PREFIX}/v1/jobs/none"


def test_another_path_is_not_taken_for_the_prefix(proxied: TestClient) -> None:
    assert proxied.get(f"{PREFIX}er/healthz").status_code == 404


def test_the_prefix_alone_is_the_root(proxied: TestClient) -> None:
    """Browsers go on to the dashboard from there, whether the path ends with a slash or not."""
    page = {"Accept": "text/html"}
    for path in (PREFIX, f"{PREFIX}/", f"{PREFIX}/dashboard"):
        found = proxied.get(path, headers=page, follow_redirects=False)
        assert (found.status_code, found.headers["Location"]) == (307, f"{PREFIX}/dashboard/")


def test_the_prefix_is_taken_off_once(proxied: TestClient) -> None:
    problem = proxied.get(f"{PREFIX}{PREFIX}/healthz")
    assert problem.status_code == 404
    assert problem.json()["instance"] == f"{PREFIX}{PREFIX}/healthz"


def test_without_a_prefix_links_have_none(client: TestClient) -> None:
    body = client.post(ADDRESS, json={"script": "answer"}).json()
    assert body["links"]["self"] == f"/v1/jobs/{body['id']}"


@pytest.mark.parametrize("path", ["loadmaster", "/loadmaster/", "/a b", "//x"])
def test_a_prefix_of_another_form_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="root_path"):
        Settings(root_path=path)
