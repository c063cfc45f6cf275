"""Connections to PostgreSQL that do not wait for ever for a server that hangs.

A server that is stopped, or a machine that is gone, closes no connection, and the kernel goes on
acknowledging what is sent: only the client can tell that no answer comes.
"""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

Answer = TypeVar("Answer")
LOOK_EVERY_S = 0.1


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed if a statement is not answered within `patience_s`."""

    patience_s: float | None = None

    def wait(
        self,
        gen: PQGen[Answer],
        interval: float = LOOK_EVERY_S,
        timeout: float | None = None,
    ) -> Answer:
        """Raises `psycopg.OperationalError` once the patience is over."""
        try:
            return super().wait(gen, interval, self.patience_s if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                # The answer may still come, to a question that nobody remembers.
                self.pgconn.finish()
            raise


def connect(patience_s: float, *arguments: Any, **options: Any) -> BoundedConnection:
    """A new connection."""
    connection = BoundedConnection.connect(*arguments, **options)
    connection.patience_s = patience_s
    return connection
