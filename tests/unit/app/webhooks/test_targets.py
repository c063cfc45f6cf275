"""Which addresses of receivers are taken, and what they lead to when something is sent."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from app.errors import InvalidRequest
from app.schemas.webhooks import WebhookFields
from app.services.submission import WebhookTarget
from app.services.webhooks.addresses import Address
from app.services.webhooks.targets import AddressRefused, Endpoint, WebhookTargets
from app.settings import Settings

SECRET = "0123456789abcdef"


def targets(resolve: object = None, **settings: object) -> WebhookTargets:
    return WebhookTargets(Settings(**settings), *([resolve] if resolve else []))  # type: ignore[arg-type]


def accept(url: str, secret: str | None = SECRET, **settings: object) -> WebhookTarget:
    found = targets(**settings).accept(
        WebhookFields(url=url, secret=None if secret is None else SecretStr(secret))
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:ffff:7f00:1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[::]/",
        "http://0.0.0.0/",
        "http://0/",
        "http://10.0.0.1:8080/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/latest/meta-data/",
        "http://224.0.0.1/",
        "http://localhost/",
        "http://localhost./",
        "http://LOCALHOST:8080/",
        "http://a.localhost/",
        "http://hooks.example@127.0.0.1/",
        "http://127.0.0.1#@hooks.example/",
        "http://127.0.0.1\\@hooks.example/",
        "http:127.0.0.1/",
        "http:///127.0.0.1/",
    ],
)
def test_other_machines_behind_this_one_are_no_receivers(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        accept(url)
    assert refused.value.errors[0].path == "webhook.url"
    assert refused.value.errors[0].remedy


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example",
        "//hooks.example/",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "gopher://hooks.example/",
        "https://",
        "https://user@hooks.example/",
        "https://user:word@hooks.example/",
        "https://:word@hooks.example/",
        "https://hooks.example:22/",
        "https://hooks.example:0/",
        "https://hooks.example:1023/",
        "https://hooks.example:65536/",
        "https://256.0.0.1/",
        "https://[::1/",
        f"https://{'a' * 254}/",
        "https://a b/",
    ],
)
def test_malformed_addresses_are_refused(url: str) -> None:
    with pytest.raises((InvalidRequest, ValidationError)):
        accept(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://hooks.example/a?b=c", "https://hooks.example:443"),
        ("http://hooks.example", "http://hooks.example:80"),
        ("HTTPS://Hooks.Example:8443/x", "https://hooks.example:8443"),
        ("https://bücher.example/", "https://xn--bcher-kva.example:443"),
        ("https://8.8.8.8/", "https://8.8.8.8:443"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]:443"),
    ],
)
def test_public_addresses_are_taken(url: str, origin: str) -> None:
    taken = accept(url)
    assert taken.origin == origin
    assert Endpoint.of(taken.url).url == taken.url
    assert SECRET not in repr(taken)


def test_what_follows_a_number_sign_is_not_sent() -> None:
    assert accept("https://hooks.example/a?b#c").url == "https://hooks.example:443/a?b"


def test_a_secret_is_needed_unless_the_service_has_one() -> None:
    with pytest.raises(InvalidRequest) as refused:
        accept("https://hooks.example/", None)
    assert refused.value.errors[0].path == "webhook.secret"
    assert "16 characters" in refused.value.errors[0].remedy
    assert accept("https://hooks.example/", None, webhook_secret=SECRET).secret is None


@pytest.mark.parametrize("secret", ["brief", "whsec_c2hvcnQ=", "whsec_***not*base64***"])
def test_a_secret_that_is_too_short_is_refused(secret: str) -> None:
    with pytest.raises(ValidationError) as refused:
        accept("https://hooks.example/", secret)
    assert secret not in str(refused.value.errors(include_input=False, include_url=False))


def test_private_addresses_can_be_allowed_but_not_the_clouds_metadata() -> None:
    for url in ("http://10.0.0.1/", "http://localhost:8080/", "http://[::1]/"):
        accept(url, webhook_allow_private=True)
    with pytest.raises(InvalidRequest):
        accept("http://169.254.169.254/", webhook_allow_private=True)


def test_single_hosts_can_be_allowed() -> None:
    allowed = ("Hooks.internal", "10.1.0.0/16", "localhost")
    found = targets(lambda host, port: [ip_address("10.9.9.9")], webhook_allowed_hosts=allowed)
    assert found.addresses_of(Endpoint.of("http://hooks.internal/")) == [ip_address("10.9.9.9")]
    assert found.addresses_of(Endpoint.of("http://localhost/")) == [ip_address("10.9.9.9")]
    assert found.addresses_of(Endpoint.of("http://10.1.2.3/")) == [ip_address("10.1.2.3")]
    for url in ("http://other.internal/", "http://x.hooks.internal/", "http://10.2.2.3/"):
        with pytest.raises(AddressRefused):
            found.addresses_of(Endpoint.of(url))


def test_one_private_address_of_a_name_spoils_it() -> None:
    def resolve(host: str, port: int) -> Sequence[Address]:
        return [ip_address("8.8.8.8"), ip_address("::ffff:10.0.0.1")]

    with pytest.raises(AddressRefused, match="leads to an address that is not public"):
        targets(resolve).addresses_of(Endpoint.of("https://hooks.example/"))


def test_a_name_is_looked_up_anew_each_time() -> None:
    answers = iter([[ip_address("8.8.8.8")], [ip_address("127.0.0.1")]])
    rebinding = targets(lambda host, port: next(answers))
    endpoint = Endpoint.of("https://hooks.example/")
    assert rebinding.addresses_of(endpoint) == [ip_address("8.8.8.8")]
    with pytest.raises(AddressRefused):
        rebinding.addresses_of(endpoint)


@given(st.text(max_size=60) | st.from_regex(r"https?://[^/]{1,40}/?.*", fullmatch=True))
def test_any_text_is_read_or_refused(url: str) -> None:
    try:
        endpoint = Endpoint.of(url)
    except AddressRefused:
        return
    assert endpoint.scheme in ("http", "https")
    assert endpoint.port in (80, 443) or 1024 <= endpoint.port <= 65535
    assert "@" not in endpoint.host
    assert Endpoint.of(endpoint.url) == endpoint
