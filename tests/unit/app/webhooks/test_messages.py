"""The signature of what is sent."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.webhooks.messages import signed_headers


def test_the_signature_is_that_of_standard_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    # The example of https://github.com/standard-webhooks/standard-webhooks.
    monkeypatch.setattr("time.time", lambda: 1614265330.9)
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        b'{"test": 2432232314}',
    )
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.text(min_size=16, max_size=200), st.binary())
def test_any_text_is_a_key(secret: str, body: bytes) -> None:
    headers = signed_headers("id", f"x{secret}", body)
    signed = f"id.{headers['webhook-timestamp']}.".encode() + body
    expected = hmac.new(f"x{secret}".encode(), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
