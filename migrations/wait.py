"""``python -m migrations.wait``: wait until the database has this version's schema, or a newer one.

For those who start beside the migration instead of after it. What is missing is written to the log.
"""

from __future__ import annotations

import sys
import time

from app.database import Database
from app.observability.logs import configure_logging
from app.services.schema_state import schema_state
from app.settings import Settings

PATIENCE_S = 1800.0
PAUSE_S = 2.0


def wait(settings: Settings, patience_s: float = PATIENCE_S) -> bool:
    """Whether the schema came in time."""
    database = Database(settings)
    deadline = time.monotonic() + patience_s
    try:
        while schema_state(database) not in ("ok", "newer"):
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE_S)
    finally:
        database.dispose()
    return True


if __name__ == "__main__":
    own = Settings()
    configure_logging(own)
    sys.exit(0 if wait(own) else 1)
