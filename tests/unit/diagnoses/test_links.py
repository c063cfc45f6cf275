"""PCIe: busy links, slow copies, shared links, too many offloads."""

from __future__ import annotations

import pytest

from planner.diagnoses.names import Cause, State, Symptom
from tests.unit.diagnoses.cases import (
    MS,
    Body,
    finding,
    for_of,
    offloading,
    problem,
    remedy,
    schedule_of,
    setting,
    state,
    telemetry,
)

PCIE = Symptom.PCIE_BOTTLENECK


def interleaved(**fields: int) -> Body:
    """Two devices with two stages each, which have to offload."""
    document = offloading(stages=4, limit=150, **fields)
    document["devices"] = [{"activation_memory_bytes": 150}] * 2
    document["stages"] = [{**stage, "device": s % 2} for s, stage in enumerate(document["stages"])]
    return document


DOCUMENT = interleaved()
PLAN = schedule_of(DOCUMENT)
WITH_PLAN = {"problem": DOCUMENT, "schedule": PLAN}


def test_the_plan_of_these_tests_offloads() -> None:
    assert any(op["op"] == "O" for op in PLAN["ops"])


def test_a_link_that_is_busy_for_long_is_saturated() -> None:
    cause = Cause.OFFLOAD_LINK_SATURATED
    found = finding(
        cause, PCIE, **WITH_PLAN, telemetry=telemetry(DOCUMENT, change=setting(link_busy_share=0.9))
    )
    assert found["state"] == "supported"
    assert {own["threshold"] for own in for_of(found)} == {0.85}
    assert any("dcgmi dmon -e 1009,1010" in check["command"] for check in found["checks"])
    rows = remedy(found, "overlap_copies")["figures"]
    assert [row["offload_time_factor"] for row in rows] == [0.7, 0.8, 0.9, 1.0]
    assert rows[-1]["iteration_ns"] == PLAN["makespan_ns"]
    times = [row["iteration_ns"] for row in rows]
    assert times == sorted(times)
    fewer = remedy(found, "fewer_offloads")
    assert fewer["predicted_effect"]["before"] == PLAN["makespan_ns"]
    assert fewer["request_changes"] == {"solver.offload_strategy": "conservative"}
    nothing = {"ops": [op for op in PLAN["ops"] if op["op"] not in "OR"]}
    busy = telemetry(DOCUMENT, change=setting(link_busy_share=0.9))
    other = finding(cause, PCIE, problem=DOCUMENT, schedule=nothing, telemetry=busy)
    assert (other["state"], other["remedies"]) == ("ruled_out", [])
    assert "not activations" in other["summary"]
    idle = telemetry(DOCUMENT, change=setting(link_busy_share=0.2))
    assert state(cause, PCIE, **WITH_PLAN, telemetry=idle) == State.RULED_OUT
    assert state(cause, PCIE, problem=problem()) == State.RULED_OUT
    assert state(cause, PCIE) == State.POSSIBLE


def test_without_telemetry_the_plan_says_how_busy_links_are() -> None:
    found = finding(Cause.OFFLOAD_LINK_SATURATED, PCIE, **WITH_PLAN)
    assert found["state"] in ("supported", "ruled_out")
    assert all("by the plan" in own["what"] for own in found["evidence"])


def test_copies_slower_than_planned_point_at_the_link() -> None:
    cause = Cause.LINK_SLOWER_THAN_PLANNED
    slow = telemetry(DOCUMENT, change=setting(offload_ns=24 * MS))
    found = finding(cause, PCIE, **WITH_PLAN, telemetry=slow)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(2.0)
    effect = remedy(found, "restore_link")["predicted_effect"]
    assert effect["after"] == PLAN["makespan_ns"] < effect["before"]
    assert state(cause, PCIE, **WITH_PLAN, telemetry=telemetry(DOCUMENT)) == State.RULED_OUT
    assert state(cause, PCIE, **WITH_PLAN) == State.POSSIBLE
    assert state(cause, PCIE, problem=problem()) == State.RULED_OUT


def test_a_shared_link_is_compared_with_links_of_their_own() -> None:
    shared = interleaved(offload_ns=25 * MS, reload_ns=25 * MS)
    shared["devices"] = [{**device, "host_link": "pcie"} for device in shared["devices"]]
    body = {"problem": {**shared, "host_link_duplex": "half"}}
    body["schedule"] = schedule_of(body["problem"])
    found = finding(Cause.SHARED_HOST_LINK, PCIE, **body)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == 2
    assert remedy(found, "own_links")["predicted_effect"]["change"] < 0
    assert state(Cause.SHARED_HOST_LINK, PCIE, **WITH_PLAN) == State.RULED_OUT
    assert state(Cause.SHARED_HOST_LINK, PCIE) == State.POSSIBLE


def test_copies_at_half_of_the_rate_are_not_pinned_or_far() -> None:
    model = {"model": "GPT-2", "cluster": "2xA100-40GB", "training": {"micro_batches": 8}}

    def body(share: float) -> Body:
        # A GPU of this cluster has 32 GB/s; the activation is of 100 bytes x 10^7.
        size = 10**9
        document = interleaved(activation_bytes=size, offload_bytes=size)
        document["devices"] = [{}, {}]
        time_ns = round(size / (peak * share) * 1e9)
        rows = telemetry(document, change=setting(offload_ns=time_ns, reload_ns=time_ns))
        return {**model, "problem": document, "telemetry": rows}

    from planner.cost.hardware import read_cluster

    peak = read_cluster("2xA100-40GB").gpu.pcie_bytes_per_s
    cause = Cause.SLOW_HOST_COPIES
    assert state(cause, PCIE, **body(0.3)) == State.SUPPORTED
    assert state(cause, PCIE, **body(0.6)) == State.POSSIBLE
    assert state(cause, PCIE, **body(0.8)) == State.RULED_OUT
    assert state(cause, PCIE, **WITH_PLAN) == State.POSSIBLE


def test_offloads_that_cost_time_are_too_many() -> None:
    slow = interleaved(offload_ns=60 * MS, reload_ns=60 * MS)
    body = {"problem": slow, "schedule": {"ops": PLAN["ops"]}}
    found = finding(Cause.TOO_MANY_OFFLOADS, PCIE, **body)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] > 0.05
    assert remedy(found, "fewer_offloads")["predicted_effect"]
    assert state(Cause.TOO_MANY_OFFLOADS, PCIE, problem=problem()) == State.RULED_OUT
    assert state(Cause.TOO_MANY_OFFLOADS, PCIE, problem=DOCUMENT) == State.POSSIBLE
