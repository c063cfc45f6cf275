"""What is asked of a service about runs: each request as a description, for whoever sends it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from client.errors import InputError
from client.library.requests import LARGEST_PAGE, Call

RUNS_PATH = "/v1/runs"


def create(body: Mapping[str, Any], key: str) -> Call:
    """Begin a run; with the `key` the request can be sent again and makes nothing twice."""
    return Call("POST", RUNS_PATH, headers={"Idempotency-Key": key}, body=body)


def runs(limit: int, filters: Mapping[str, str], cursor: str | None) -> Call:
    """A page of the runs that match, the newest first."""
    params: dict[str, str | int] = {**filters, "limit": min(limit, LARGEST_PAGE)}
    if cursor is not None:
        params["cursor"] = cursor
    return Call("GET", RUNS_PATH, params)


def run(run_id: str) -> Call:
    """How a run stands."""
    return Call("GET", _path(run_id))


def change(run_id: str, changes: Mapping[str, Any]) -> Call:
    """Other settings or another shape."""
    return Call("PATCH", _path(run_id), body=changes)


def stop(run_id: str) -> Call:
    """Follow a run no longer."""
    return Call("DELETE", _path(run_id))


def purge(run_id: str) -> Call:
    """Forget a run that is stopped."""
    return Call("DELETE", _path(run_id), {"purge": "true"})


def plan(run_id: str) -> Call:
    """Its newest plan."""
    return Call("GET", f"{_path(run_id)}/plan")


def news(run_id: str, etag: str | None, wait_s: int) -> Call:
    """How its newest plan stands, without the plan, and with an `etag` only where that has changed;
    the service may wait so long for there to be something to say."""
    headers = {} if etag is None else {"If-None-Match": etag}
    if wait_s:
        headers["Prefer"] = f"wait={wait_s}"
    path = f"{_path(run_id)}/plan"
    return Call("GET", path, {"brief": "true"}, headers, longest_wait_s=wait_s)


def plan_version(run_id: str, version: int) -> Call:
    """Its plan of this number."""
    return Call("GET", f"{_path(run_id)}/plan/{version}")


def acknowledge(run_id: str, version: int, rank: int, iteration: int) -> Call:
    """A rank, at this iteration, is ready to switch to a version."""
    body = {"rank": rank, "iteration": iteration}
    return Call("POST", f"{_path(run_id)}/plan/{version}/ack", body=body)


def telemetry(run_id: str, iterations: Sequence[Mapping[str, Any]]) -> Call:
    """What was measured of some iterations. Those that are known already change nothing."""
    return Call("POST", f"{_path(run_id)}/telemetry", body={"iterations": iterations})


def diagnosis(run_id: str) -> Call:
    """What its telemetry says is wrong, and what to do."""
    return Call("GET", f"{_path(run_id)}/diagnosis")


def proposals(run_id: str) -> Call:
    """Other numbers of micro-batches and other partitions that would make it faster."""
    return Call("GET", f"{_path(run_id)}/proposals")


def _path(run_id: str) -> str:
    """Raises `InputError` for what is no id."""
    if not run_id.strip("."):
        # A client takes dots for steps in the path, and would ask for something else.
        raise InputError("ID", f"{run_id!r} is no run's.", "`loadmaster runs list` lists them.")
    return f"{RUNS_PATH}/{urllib.parse.quote(run_id, safe='')}"
