"""Answers as Python objects, and what notebooks show of them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from client.errors import Infeasible
from client.library.job import Batch, Job
from client.library.retries import NO_RETRIES
from client.library.service import Service
from client.library.views import (
    PipelineSchedule,
    ShardingPlan,
    Status,
    Timeline,
    TrainingPlan,
    result_of,
)
from tests.unit.client.fake_service import FakeService, job
from tests.unit.client.results import sharding_result, training_result, two_device_result


def test_a_schedule_has_its_figures() -> None:
    document = two_device_result()
    schedule = result_of("pipeline", document)
    assert isinstance(schedule, PipelineSchedule)
    assert schedule.makespan_ns == document["schedule"]["makespan_ns"]
    assert schedule.lower_bound_ns == document["certificate"]["lower_bound_ns"]
    assert schedule.gap == document["certificate"]["gap"]
    assert schedule.proven is document["certificate"]["proven_optimal"]
    assert schedule.ops == document["schedule"]["ops"]
    assert schedule.document is document
    assert f"{schedule.makespan_ns / 1e6:.3f} ms" in repr(schedule)


def test_a_schedule_shows_its_gantt() -> None:
    schedule = PipelineSchedule(two_device_result())
    assert ElementTree.fromstring(schedule._repr_svg_()).tag.endswith("svg")
    assert schedule.svg() in schedule._repr_html_()
    assert "<script" not in schedule._repr_html_()


def test_a_sharding_plan_has_a_strategy_for_each_operator() -> None:
    document = sharding_result()
    plan = result_of("sharding", document)
    assert isinstance(plan, ShardingPlan)
    names = [own["name"] for own in document["plan"]["operators"]]
    assert [list(strategies) for strategies in plan.strategies] == [names]
    assert names[0] in plan._repr_html_()


def test_a_training_plan_leads_to_the_next_request() -> None:
    document = training_result()
    plan = result_of("training", document)
    assert isinstance(plan, TrainingPlan)
    assert plan.step_time_ns == document["best"]["step_time_ns"]
    assert plan.training == document["best"]["training"]
    assert len(plan.plans) == len(document["plans"])
    assert (plan.schedule is None) == (not document["best"].get("schedule"))
    assert "<table>" in plan._repr_html_()


def test_that_nothing_fits_is_an_error_with_the_way_out() -> None:
    document = {"infeasibility": {"summary": "Too little.", "remedies": [1]}}
    with pytest.raises(Infeasible, match="Too little") as infeasible:
        result_of("pipeline", document)
    assert infeasible.value.document is document
    assert infeasible.value.infeasibility["remedies"] == [1]


def test_a_status_knows_the_figures_of_every_kind() -> None:
    running = job("running", best_objective_bytes=7, lower_bound_bytes=5, gap=0.2, phase="ILP")
    status = Status(running)
    assert (status.best, status.bound, status.gap, status.phase) == (7, 5, 0.2, "ILP")
    assert not status.is_over
    assert Status(job("succeeded", best_makespan_ns=9)).best == 9
    assert Status(job("cancelled")).is_over


def service_of(fake: FakeService) -> Service:
    return Service("http://service", transport=fake.transport, retries=NO_RETRIES)


def test_a_stored_answer_is_not_asked_for_again() -> None:
    fake = FakeService()
    known = {"id": "j1", "state": "succeeded", "cache": "hit"}
    own = Job[PipelineSchedule](service_of(fake), "pipeline", known, two_device_result())
    assert own.result().makespan_ns > 0
    assert own.wait().state == "succeeded"
    assert not fake.requests


def test_a_job_shows_its_plan_once_it_has_one() -> None:
    fake = FakeService()
    fake.on("GET", "/v1/jobs/j1/result", two_device_result())
    running = Job[PipelineSchedule](service_of(fake), "pipeline", job("running", phase="<b>"))
    assert running._repr_html_() == "<p>job j1: running: &lt;b&gt;</p>"
    assert not fake.requests
    over = Job[PipelineSchedule](service_of(fake), "pipeline", job("succeeded"))
    assert "<svg" in over._repr_html_()
    over._repr_html_()
    assert len(fake.requests) == 1


def test_an_export_and_a_timeline_have_their_addresses() -> None:
    fake = FakeService()
    fake.on("GET", "/v1/jobs/j1/export/csv", "device,op")
    timeline = {
        "schedule": "1F1B",
        "makespan_ns": 5,
        "stages": [{"device": 0}],
        "devices": [{}],
        "ops": {name: [] for name in ("op", "stage", "micro_batch", "start_ns", "end_ns")},
    }
    fake.on("GET", "/v1/jobs/j1/timeline", timeline)
    own = Job[PipelineSchedule](service_of(fake), "pipeline", job("succeeded"))
    assert own.export("csv") == '"device,op"'
    shown = own.timeline({"name": "1F1B", "placement": "one_chunk"})
    assert isinstance(shown, Timeline)
    assert "<svg" in shown._repr_svg_()
    assert dict(fake.requests[1].url.params) == {"schedule": "1F1B", "placement": "one_chunk"}


def test_texts_of_a_batch_are_escaped() -> None:
    fake = FakeService()
    row = {"position": 0, "job_id": "j1", "name": "<img>", "kind": "pipeline", "state": "queued"}
    fake.on("GET", "/v1/batches/b1", {"id": "b1", "over": False, "comparison": [row]})
    batch = Batch(service_of(fake), {"id": "b1"})
    assert "<img>" not in batch._repr_html_()
    assert "&lt;img&gt;" in batch._repr_html_()
    assert [own.id for own in batch.jobs()] == ["j1"]
