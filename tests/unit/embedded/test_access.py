"""Nobody is let in without a key over a network unless that is asked for in so many words."""

from __future__ import annotations

from typing import Any

import pytest

from embedded.access import Access, Authentication, decide_access
from embedded.errors import StartError

OFF, KEYS = Access("off"), Access("keys")
ASKED: dict[str, Any] = {
    "is_loopback": True,
    "authentication": None,
    "token_file": False,
    "anyone_on_the_network": False,
}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, OFF),
        ({"authentication": "off"}, OFF),
        ({"authentication": "keys"}, KEYS),
        ({"anyone_on_the_network": True}, OFF),
        ({"token_file": True}, Access("keys", token_file=True)),
        ({"token_file": True, "authentication": "keys"}, Access("keys", token_file=True)),
        ({"is_loopback": False, "authentication": "keys"}, KEYS),
        ({"is_loopback": False, "token_file": True}, Access("keys", token_file=True)),
        (
            {"is_loopback": False, "anyone_on_the_network": True},
            Access("off", anyone_on_the_network=True),
        ),
        (
            {"is_loopback": False, "anyone_on_the_network": True, "authentication": "keys"},
            KEYS,
        ),
    ],
)
def test_access_follows_from_the_options(asked: dict[str, Any], expected: Access) -> None:
    assert decide_access(**{**ASKED, **asked}) == expected


@pytest.mark.parametrize("authentication", [None, "off"])
def test_network_without_keys_is_refused(authentication: Authentication | None) -> None:
    with pytest.raises(StartError, match="--authentication keys") as refused:
        decide_access(**{**ASKED, "is_loopback": False, "authentication": authentication})
    assert "--allow-anyone-on-the-network" in str(refused.value)


def test_contradiction_is_refused() -> None:
    with pytest.raises(StartError, match="--token-file"):
        decide_access(**{**ASKED, "token_file": True, "authentication": "off"})


def test_children_are_told() -> None:
    settings = Access("off", anyone_on_the_network=True).environment({}, "gpu-box")
    assert settings == {
        "LOADMASTER_AUTHENTICATION": "off",
        "LOADMASTER_ALLOW_ANYONE_ON_THE_NETWORK": "true",
        "LOADMASTER_REQUESTS_PER_MINUTE": "0",
        "LOADMASTER_ALLOWED_HOSTS": '["gpu-box"]',
    }


def test_settings_of_the_environment_are_kept() -> None:
    own = {"LOADMASTER_REQUESTS_PER_MINUTE": "10", "LOADMASTER_ALLOWED_HOSTS": '["a"]'}
    settings = OFF.environment(own, "gpu-box")
    assert settings["LOADMASTER_REQUESTS_PER_MINUTE"] == "10"
    assert settings["LOADMASTER_ALLOWED_HOSTS"] == '["a", "gpu-box"]'
    assert "LOADMASTER_ALLOWED_HOSTS" not in OFF.environment(own, "127.0.0.1")
    with pytest.raises(StartError, match="JSON list"):
        OFF.environment({"LOADMASTER_ALLOWED_HOSTS": "a,b"}, "gpu-box")
