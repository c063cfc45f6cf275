"""Rows as the first release stored them: a solve in every state, with jobs, tags and log lines."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, text

Row = dict[str, Any]

SPEC = {
    "kind": "pipeline",
    "source": None,
    "static_shortage": None,
    "candidates": [
        {
            "placement": "as_posted",
            "problem": {
                "name": "a name",
                "micro_batches": 1,
                "devices": [{"name": "d0"}],
                "stages": [{"device": 0, "forward_ns": 3, "backward_input_ns": 4}],
            },
        }
    ],
    "options": {"engine": "cbc", "note": "ünïcode ✓ 'quoted' \"twice\" \\n"},
}
RESULT = {
    "certificate": {"verified": True, "placements": [{"lower_bound_ns": 55}]},
    "schedule": {"ops": [], "makespan_ns": 60},
}
QUEUED: Row = {
    "kind": "pipeline",
    "engine": "cbc",
    "solver_version": "0.1.0",
    "spec": json.dumps(SPEC),
    "operations": 2**40,
    "time_limit_ms": 5000,
    "state": "queued",
    "priority": 5,
    "reusable": True,
    "stop_requested": False,
    "attempt": 0,
    "crashes": 0,
    "losses": 0,
    "not_before": 0,
    "created_at": 1_700_000_000_000,
    "spent_ms": 0,
    "proven_optimal": False,
}
STARTED: Row = {
    "attempt": 3,
    "crashes": 1,
    "losses": 1,
    "worker": "host:1",
    "started_at": 1_700_000_001_000,
    "heartbeat_at": 1_700_000_002_000,
    "dispatched_at": 1_700_000_000_500,
    "spent_ms": 1234,
    "best_objective_ns": 60,
    # As the second revision takes it from the result, so that the way back loses nothing.
    "lower_bound_ns": 55,
    "incumbent": json.dumps({"placement": "as_posted"}),
    "started_from": json.dumps({"origin": {"kind": "same_problem"}}),
    "progress_at": 1_700_000_001_500,
}
OVER: Row = {**STARTED, "finished_at": 1_700_000_009_000}
SOLVES: dict[str, Row] = {
    "queued": {"priority": 9},
    "retried": {"attempt": 2, "losses": 2, "not_before": 1_700_000_003_000},
    "running": {**STARTED, "state": "running", "lease_until": 1_700_000_012_000},
    "stopping": {
        **STARTED,
        "state": "running",
        "lease_until": 1_700_000_012_000,
        "stop_requested": True,
        "reusable": False,
        "phase": "local search",
    },
    "succeeded": {
        **OVER,
        "state": "succeeded",
        "result": json.dumps(RESULT),
        "proven_optimal": True,
    },
    "retired": {**OVER, "state": "succeeded", "result": json.dumps(RESULT), "reusable": False},
    "infeasible": {**OVER, "state": "infeasible", "result": json.dumps({"infeasibility": {}})},
    "cancelled": {**OVER, "state": "cancelled", "result": None},
    "failed": {**OVER, "state": "failed", "error": json.dumps({"code": "solver_crashed"})},
}


def insert_first_release(connection: Connection) -> None:
    """Fill the tables of revision 0001."""
    for solve_id, columns in SOLVES.items():
        _insert(connection, "solves", {"id": solve_id, "spec_hash": solve_id, **QUEUED, **columns})
        for position, cache in enumerate(("miss", "joined")):
            job_id = f"{solve_id}-{position}"
            cancelled = solve_id in ("cancelled", "stopping")
            _insert(
                connection,
                "jobs",
                {
                    "id": job_id,
                    "solve_id": solve_id,
                    "tenant": "default",
                    "name": f"job {position}" if position else None,
                    "priority": 5,
                    "cache": cache,
                    "created_at": 1_700_000_000_000 + position,
                    "cancelled_at": 1_700_000_004_000 if cancelled else None,
                    "stops_solve": cancelled and position == 1,
                },
            )
            _insert(connection, "job_tags", {"job_id": job_id, "tag": f"tag {position}"})
        for seq in range(3):
            line = {"solve_id": solve_id, "seq": seq, "at": 1, "line": f"line {seq} ✓"}
            _insert(connection, "solve_log_lines", line)


def _insert(connection: Connection, table: str, values: Row) -> None:
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)
