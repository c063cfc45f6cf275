"""The database's own record of every result that is stored, made by a trigger."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

from sqlalchemy import create_engine, text

STATEMENTS = {
    "postgresql": (
        "CREATE TABLE stored_results (solve_id text, attempt int, result text)",
        """CREATE FUNCTION note_result() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO stored_results VALUES (NEW.id, NEW.attempt, NEW.result);
            RETURN NULL; END $$""",
        """CREATE TRIGGER note_result AFTER UPDATE ON solves FOR EACH ROW
            WHEN (NEW.result IS DISTINCT FROM OLD.result) EXECUTE FUNCTION note_result()""",
    ),
    "sqlite": (
        "CREATE TABLE stored_results (solve_id text, attempt int, result text)",
        """CREATE TRIGGER note_result AFTER UPDATE ON solves WHEN NEW.result IS NOT OLD.result
            BEGIN INSERT INTO stored_results VALUES (NEW.id, NEW.attempt, NEW.result); END""",
    ),
}


class Watch:
    """Watches the results of one database, from now on."""

    def __init__(self, database_url: str) -> None:
        self._engine = create_engine(database_url, pool_pre_ping=True)
        with self._engine.begin() as connection:
            for statement in STATEMENTS[self._engine.dialect.name]:
                connection.execute(text(statement))

    def solves(self) -> dict[str, int]:
        """How many solves are in each state."""
        statement = "SELECT state, count(*) FROM solves GROUP BY state"
        with self._engine.connect() as connection:
            return dict(connection.execute(text(statement)).all())

    def troubles(self) -> dict[str, int]:
        """What it took: attempts beyond the first, lost workers, crashes, and the most attempts."""
        statement = (
            "SELECT sum(attempt - 1), sum(losses), sum(crashes), max(attempt), max(losses) "
            "FROM solves"
        )
        names = ("repeated", "losses", "crashes", "most_attempts", "most_losses")
        with self._engine.connect() as connection:
            return dict(zip(names, connection.execute(text(statement)).one(), strict=True))

    def check(self) -> None:
        """Every solve has a result, and nobody ever wrote another one over it."""
        written = defaultdict(list)
        with self._engine.connect() as connection:
            for solve_id, attempt, result in connection.execute(
                text("SELECT solve_id, attempt, result FROM stored_results")
            ):
                written[solve_id].append((attempt, hashlib.sha256(result.encode()).hexdigest()))
            ids = connection.execute(text("SELECT id FROM solves")).scalars().all()
            counts = Counter(len(written[solve_id]) for solve_id in ids)
        assert counts == {1: len(ids)}, {k: v for k, v in written.items() if len(v) != 1}

    def close(self) -> None:
        self._engine.dispose()
