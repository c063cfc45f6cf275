"""What a solve solves apart from its options, and how to find solves of similar problems.

Solves that are stored already get their `problem_hash` from their spec, and their `lower_bound_ns`
becomes the bound of the whole request. Shapes and profiles are left to solves to come.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BATCH = 200

SOLVES = sa.table(
    "solves",
    sa.column("id", sa.String),
    sa.column("spec", sa.Text),
    sa.column("state", sa.String),
    sa.column("result", sa.Text),
    sa.column("lower_bound_ns", sa.BigInteger),
    sa.column("problem_hash", sa.String),
)


def upgrade() -> None:
    op.add_column("solves", sa.Column("problem_hash", sa.String(64), nullable=True))
    op.add_column("solves", sa.Column("shape_hash", sa.String(64), nullable=True))
    op.add_column("solves", sa.Column("profile", sa.Text(), nullable=True))
    _fill_in()
    op.create_index("ix_solves_problem_hash", "solves", ["problem_hash"])
    op.create_index("ix_solves_shape", "solves", ["shape_hash", "created_at"])


def downgrade() -> None:
    op.drop_index("ix_solves_shape", "solves")
    op.drop_index("ix_solves_problem_hash", "solves")
    for column in ("profile", "shape_hash", "problem_hash"):
        op.drop_column("solves", column)


def _fill_in() -> None:
    """Read what is stored in batches: specs and results may be large."""
    connection = op.get_bind()
    after = ""
    while True:
        rows = connection.execute(
            sa.select(SOLVES.c.id, SOLVES.c.spec, SOLVES.c.state, SOLVES.c.result)
            .where(SOLVES.c.id > after)
            .order_by(SOLVES.c.id)
            .limit(BATCH)
        ).all()
        if not rows:
            return
        for solve_id, spec, state, result in rows:
            values: dict[str, Any] = {"problem_hash": problem_hash(json.loads(spec))}
            bound_ns = request_bound_ns(json.loads(result)) if state == "succeeded" else None
            if bound_ns is not None:
                values["lower_bound_ns"] = bound_ns
            connection.execute(sa.update(SOLVES).where(SOLVES.c.id == solve_id).values(**values))
        after = rows[-1].id


def problem_hash(spec: dict[str, Any]) -> str:
    """The hash of a stored spec's candidates, as the planner of this revision computes it."""
    shortage = spec.get("static_shortage")
    identity = {
        "kind": spec["kind"],
        "candidates": [
            [candidate["placement"], _without_names(candidate["problem"])]
            for candidate in spec["candidates"]
        ],
        "shortage_of": None if shortage is None else spec["source"],
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def request_bound_ns(result: dict[str, Any]) -> int | None:
    """The least of the placements' bounds in a stored result; None if it does not list them."""
    placements = result.get("certificate", {}).get("placements", [])
    return min((entry["lower_bound_ns"] for entry in placements), default=None)


def _without_names(problem: dict[str, Any]) -> dict[str, Any]:
    unnamed = {key: value for key, value in problem.items() if key != "name"}
    for part in ("devices", "stages", "hosts"):
        if part in unnamed:
            unnamed[part] = [
                {key: value for key, value in entry.items() if key != "name"}
                for entry in unnamed[part]
            ]
    return unnamed
