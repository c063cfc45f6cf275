"""Out of memory and no feasible plan: what the numbers support, and what a way out costs."""

from __future__ import annotations

from planner.diagnoses.names import Cause, State, Symptom
from tests.unit.diagnoses.cases import (
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

OOM, NO_PLAN = Symptom.OUT_OF_MEMORY, Symptom.NO_FEASIBLE_PLAN
TOO_LARGE = {
    "model": "Llama-3-70B",
    "cluster": "8xA100-40GB",
    "training": {"micro_batches": 16, "tensor_parallel": 4, "pipeline_parallel": 2},
}
FITTING = {
    "model": "GPT-2",
    "cluster": "8xA100-40GB",
    "training": {"micro_batches": 8, "pipeline_parallel": 4},
}


def peaks(document, peak, limit=1000):
    return telemetry(document, change=setting(peak_memory_bytes=peak, memory_limit_bytes=limit))


def test_a_peak_near_the_limit_supports_a_plan_that_is_too_large() -> None:
    document = problem()
    body = {"problem": document, "schedule": schedule_of(document)}
    assert state(Cause.PLAN_EXCEEDS_MEMORY, OOM, **body, telemetry=peaks(document, 960)) == (
        State.SUPPORTED
    )
    assert state(Cause.PLAN_EXCEEDS_MEMORY, OOM, **body, telemetry=peaks(document, 500)) == (
        State.RULED_OUT
    )
    assert state(Cause.PLAN_EXCEEDS_MEMORY, OOM) == State.POSSIBLE


def test_the_way_out_is_a_plan_that_holds_less_with_what_it_costs() -> None:
    document = offloading(limit=400)
    plan = schedule_of(document)

    def change(_, s, own):
        own |= {"peak_memory_bytes": 500 if s else 1100, "memory_limit_bytes": 1000}

    rows = telemetry(document, change=change)
    found = finding(Cause.PLAN_EXCEEDS_MEMORY, OOM, problem=document, schedule=plan, telemetry=rows)
    assert [(own["stage"], own["threshold"]) for own in for_of(found)] == [(0, 1000)]
    way_out = remedy(found, "offload_more")
    # 950 bytes of 1000 are safe: the device has to give back 150 of what it held.
    held = plan["peak_memory_bytes"][0]
    changes = way_out["request_changes"]
    assert changes == {"problem.devices.0.activation_memory_bytes": held - 150}
    effect = way_out["predicted_effect"]
    assert effect["quantity"] == "peak_memory_bytes"
    assert effect["after"] <= effect["before"] - 150
    assert way_out["predicted_cost"]["before"] == plan["makespan_ns"]
    assert way_out["predicted_cost"]["after"] >= plan["makespan_ns"]


def test_where_no_plan_holds_so_much_less_it_says_so() -> None:
    document = problem(limit=800)
    body = {"problem": document, "schedule": schedule_of(document)}
    found = finding(Cause.PLAN_EXCEEDS_MEMORY, OOM, **body, telemetry=peaks(document, 100_000))
    way_out = remedy(found, "offload_more")
    assert way_out["predicted_effect"] is None
    assert "does not fit" in way_out["no_prediction"]


def test_a_plan_beyond_the_problems_own_limits_is_enough() -> None:
    document = problem()
    plan = schedule_of(document)
    assert max(plan["peak_memory_bytes"]) > 100
    body = {"problem": problem(limit=100), "schedule": plan}
    found = finding(Cause.PLAN_EXCEEDS_MEMORY, OOM, **body)
    assert found["state"] == "supported"
    assert remedy(found, "offload_more")["predicted_effect"]["after"] <= 100


def test_training_changes_come_with_peak_and_step_time() -> None:
    found = finding(Cause.MODEL_STATES_TOO_LARGE, OOM, **TOO_LARGE)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] > for_of(found)[0]["threshold"]
    fits = finding(Cause.MODEL_STATES_TOO_LARGE, NO_PLAN, **FITTING)
    assert fits["state"] == "ruled_out"
    assert state(Cause.MODEL_STATES_TOO_LARGE, OOM) == State.POSSIBLE
    tight = {
        "model": "GPT-14.2B",
        "cluster": "8xA100-40GB",
        "training": {"micro_batches": 16, "micro_batch_size": 4, "pipeline_parallel": 8},
    }
    ways = finding(Cause.PLAN_EXCEEDS_MEMORY, OOM, **tight)["remedies"]
    changes = [way for way in ways if way["remedy"] == "change_training"]
    assert changes
    for way in changes:
        assert way["predicted_effect"]["change"] < 0
        assert way["predicted_cost"]["quantity"] == "iteration_ns"
        assert way["request_changes"]


def test_one_micro_batch_alone_that_does_not_fit_is_proven() -> None:
    found = finding(Cause.ONE_MICRO_BATCH_TOO_LARGE, NO_PLAN, problem=problem(limit=90))
    assert found["state"] == "supported"
    assert [(e["value"], e["threshold"]) for e in found["evidence"]] == [(100, 90)] * 4
    more = remedy(found, "device_memory")
    assert more["request_changes"]["problem.devices.0.activation_memory_bytes"] == 100
    # With room for one micro-batch the pipeline works one at a time: 8 x 4 x 30 ms.
    assert more["predicted_effect"]["after"] <= 8 * 4 * 30_000_000
    assert state(Cause.ONE_MICRO_BATCH_TOO_LARGE, NO_PLAN, problem=problem(limit=100)) == (
        State.RULED_OUT
    )
    assert state(Cause.ONE_MICRO_BATCH_TOO_LARGE, NO_PLAN) == State.POSSIBLE


def test_memory_beyond_the_estimate_is_outside_of_the_plan() -> None:
    def body(peak):
        return {
            **FITTING,
            "telemetry": [
                {
                    "iteration": 20,
                    "stages": [{"stage": 0, "peak_memory_bytes": peak, "memory_limit_bytes": peak}],
                }
            ],
        }

    cause = Cause.MEMORY_OUTSIDE_THE_PLAN
    found = finding(cause, OOM, **body(30 * 2**30))
    assert found["state"] == "supported"
    assert state(cause, OOM, **body(2**20)) == State.RULED_OUT
    assert state(cause, OOM, problem=problem()) == State.POSSIBLE


def test_little_allocated_memory_supports_fragmentation() -> None:
    document = problem()
    cause = Cause.ALLOCATOR_FRAGMENTATION
    found = finding(cause, OOM, telemetry=peaks(document, 700))
    assert found["state"] == "supported"
    assert "memory_stats" in found["checks"][0]["command"]
    assert remedy(found, "expandable_segments")["no_prediction"]
    assert state(cause, OOM, telemetry=peaks(document, 990)) == State.RULED_OUT
    assert state(cause, OOM) == State.POSSIBLE


def test_hosts_that_cannot_hold_what_must_go_out() -> None:
    def on_host(memory):
        document = offloading(stages=2, limit=150)
        document["devices"] = [{"activation_memory_bytes": 150, "host": 0}]
        document["stages"] = [{**stage, "device": 0} for stage in document["stages"]]
        return {**document, "hosts": [{"memory_bytes": memory}]}

    cause = Cause.HOST_MEMORY_SHORT
    found = finding(cause, NO_PLAN, problem=on_host(10))
    assert found["state"] == "supported"
    assert remedy(found, "host_memory")["request_changes"]
    document = on_host(1000)
    body = {"problem": document, "schedule": schedule_of(document)}
    assert state(cause, OOM, **body) == State.RULED_OUT
    assert state(cause, OOM, problem=document) == State.POSSIBLE
    assert state(cause, OOM, problem=problem()) == State.RULED_OUT
    assert state(cause, OOM) == State.POSSIBLE
