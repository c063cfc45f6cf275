"""A process that looks at one run again and again, waiting for nobody, until its input ends:
`python -m tests.integration.run_keeper_process RUN_ID`, with the settings in the environment."""

from __future__ import annotations

import sys
import threading

from app.database import Database
from app.settings import Settings
from tests.integration.following import keeper_of


def main(run_id: str) -> None:
    """Print the first look, and at the end how many looks others were quicker for."""
    settings = Settings()
    database = Database(settings)
    looker = keeper_of(database, settings)._looker
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    overtaken = 0
    looker.look(run_id)
    print("looks", flush=True)
    while not is_over.wait(0.001):
        overtaken += not looker.look(run_id)
    print(overtaken, flush=True)
    database.dispose()


if __name__ == "__main__":
    main(sys.argv[1])
