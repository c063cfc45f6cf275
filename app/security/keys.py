"""How an API key is written: `lm_<id>_<secret>`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

SECRET_BYTES = 32
_FORM = re.compile(r"lm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Key:
    """A key as its owner holds it. The id is no secret; the secret is never shown by `repr`."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as it is sent."""
        return f"lm_{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> str:
        """What is stored. The secret has 256 random bits, so that no slow hash is needed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def has_hash(self, stored: str) -> bool:
        """Whether this is the key whose hash is stored, in a time that says nothing of it."""
        return hmac.compare_digest(self.secret_hash, stored)


def new_key() -> Key:
    """A key nobody has had."""
    secret = base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")
    return Key(secrets.token_hex(6), secret)


def parse_key(text: str) -> Key | None:
    """The key that this text is; None if it is none."""
    match = _FORM.fullmatch(text)
    return None if match is None else Key(*match.groups())


def holds_key(text: str) -> bool:
    """Whether a key, or one with a few characters wrong, stands somewhere in this text."""
    return "lm_" in text and re.search(r"lm_[0-9a-f]{12}_", text) is not None
