"""API keys: making, listing and revoking them, and telling whom a key speaks for."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.callers import Caller, Scope
from app.database import Database, clock_ms, milliseconds
from app.models import ApiKey
from app.repositories.keys import KeyRepository, KnownKey
from app.security.keys import Key, new_key, parse_key
from app.services.audit import record

logger = logging.getLogger(__name__)

KNOWN_FOR_S = 5.0
"""How long a process trusts what it read of a key: a revoked key lets nobody in after that."""
MOST_KNOWN = 10_000
NOTE_USE_EVERY_MS = 60_000
DEFAULT_SCOPES = (Scope.SUBMIT, Scope.READ)


@dataclass(frozen=True)
class Visitor:
    """A caller whose key is valid, and how often a minute it may ask (None = as the settings
    say)."""

    caller: Caller
    requests_per_minute: int | None


class KeyRing:
    """Keys as whoever runs the service sees them, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        by: str,
        *,
        tenant: str,
        name: str,
        scopes: Iterable[Scope] = DEFAULT_SCOPES,
        lifetime_s: float | None = None,
    ) -> Key:
        """A new key. This is the only time that its secret is known."""
        key = new_key()
        words = " ".join(sorted(set(scopes)))
        lifetime_ms = None if lifetime_s is None else milliseconds(lifetime_s)
        with self._database.writing() as session:
            KeyRepository(session).add(
                key_id=key.id,
                secret_hash=key.secret_hash,
                tenant=tenant,
                name=name,
                scopes=words,
                lifetime_ms=lifetime_ms,
            )
            lasts = "for good" if lifetime_s is None else f"for {lifetime_s / 86400:g} days"
            detail = f"{name}: {words}, {lasts}"
            record(session, _person(by, tenant), "key created", key.id, detail)
        return key

    def all(self, tenant: str | None = None) -> tuple[list[ApiKey], int]:
        """The keys, of one tenant or of all, and the instant at which they were read."""
        with self._database.reading() as session:
            now = session.scalars(select(clock_ms())).one()
            return KeyRepository(session).all(tenant), now

    def revoke(self, by: str, key_id: str) -> bool:
        """Let nobody in with this key any more; False if there is no such key."""
        with self._database.writing() as session:
            key = KeyRepository(session).revoke(key_id)
            if key is not None:
                record(session, _person(by, key.tenant), "key revoked", key_id, key.name)
        return key is not None

    def is_valid(self, text: str) -> bool:
        """Whether this key would be let in now."""
        key = parse_key(text)
        with self._database.reading() as session:
            known = None if key is None else KeyRepository(session).find(key.id)
        return key is not None and known is not None and _opens(key, known)


class Doorkeeper:
    """Tells whom a key speaks for, and remembers it for a few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # By the hash of what was sent, so that no memory dump shows a key.
        self._known: dict[bytes, tuple[float, Visitor | None]] = {}
        self._salt = new_key().secret.encode()
        # Noting when a key was last used must not hold the request, nor fail it.
        self._notes = ThreadPoolExecutor(max_workers=1, thread_name_prefix="key-use")

    def remembered(self, text: str) -> tuple[bool, Visitor | None]:
        """Whether this key was looked up a moment ago, and what came of it."""
        until, visitor = self._known.get(self._digest(text), (0.0, None))
        return time.monotonic() < until, visitor

    async def still_opens(self, text: str) -> bool:
        """Whether this key, which opened something before, would do so now."""
        is_known, visitor = self.remembered(text)
        if not is_known:
            visitor = await run_in_threadpool(self._look_up_once, text)
        return visitor is not None

    def look_up(self, text: str) -> Visitor | None:
        """Whom this key speaks for; None if it is no valid key."""
        key = parse_key(text)
        known: KnownKey | None = None
        if key is not None:
            with self._database.reading() as session:
                known = KeyRepository(session).find(key.id)
        if key is None or known is None or not _opens(key, known):
            self._remember(text, None, KNOWN_FOR_S)
            return None
        scopes = frozenset(map(Scope, known.scopes.split()))
        caller = Caller(tenant=known.tenant, actor=key.id, scopes=scopes)
        visitor = Visitor(caller, known.requests_per_minute)
        left_s = KNOWN_FOR_S if known.left_ms is None else known.left_ms / 1000
        self._remember(text, visitor, min(KNOWN_FOR_S, left_s))
        if known.last_used_ago_ms is None or known.last_used_ago_ms > NOTE_USE_EVERY_MS:
            self._notes.submit(self._note_use, key.id)
        return visitor

    def close(self) -> None:
        """Wait for what is being written."""
        self._notes.shutdown(cancel_futures=True)

    def _look_up_once(self, text: str) -> Visitor | None:
        # Many streams with the same key ask at once; what one learned holds for the rest.
        is_known, visitor = self.remembered(text)
        return visitor if is_known else self.look_up(text)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._salt, text.encode(), "sha256")

    def _remember(self, text: str, visitor: Visitor | None, for_s: float) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[self._digest(text)] = (time.monotonic() + for_s, visitor)

    def _note_use(self, key_id: str) -> None:
        try:
            with self._database.writing() as session:
                KeyRepository(session).note_use(key_id, NOTE_USE_EVERY_MS)
        except SQLAlchemyError as error:
            logger.warning("that key %s was used could not be noted: %s", key_id, error)


def _opens(key: Key, known: KnownKey) -> bool:
    in_time = known.left_ms is None or known.left_ms > 0
    return key.has_hash(known.secret_hash) and in_time and not known.revoked


def _person(by: str, tenant: str) -> Caller:
    """Whoever works on the database directly, in the log of the tenant that it concerns."""
    return Caller(tenant=tenant, actor=by, scopes=frozenset())
