"""Answers in the formats of other programs: each says what the answer says."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from planner.errors import CannotExport
from planner.export import chrome_trace, registry, schedule_csv
from planner.export.csv_text import csv_text
from planner.export.format import Source
from planner.export.registry import FORMATS, export, formats_of

OPS = [
    {"op": "F", "stage": 1, "micro_batch": 0, "start_ns": 4001, "end_ns": 7001},
    {"op": "F", "stage": 0, "micro_batch": 0, "start_ns": 0, "end_ns": 3000},
    {"op": "O", "stage": 0, "micro_batch": 0, "start_ns": 3000, "end_ns": 3500},
    {"op": "B", "stage": 1, "micro_batch": 0, "start_ns": 7001, "end_ns": 11001},
    {"op": "R", "stage": 0, "micro_batch": 0, "start_ns": 11001, "end_ns": 11501},
    {"op": "B", "stage": 0, "micro_batch": 0, "start_ns": 12001, "end_ns": 16001},
]
STAGE = {"forward_ns": 3000, "backward_input_ns": 4000, "activation_bytes": 64}
PIPELINE: dict[str, Any] = {
    "problem": {
        "micro_batches": 1,
        "devices": [{"host_link": "a"}, {}],
        "stages": [
            {"device": 0, **STAGE, "offload_bytes": 48, "offload_ns": 500, "reload_ns": 500},
            {"device": 1, **STAGE},
        ],
        "transfers": [{"forward_ns": 1001, "backward_ns": 1000}],
    },
    "schedule": {"ops": OPS, "makespan_ns": 16001},
}
OPERATOR = {
    "name": "up",
    "kind": "linear",
    "strategy": "d2-r1-c2",
    "data": 2,
    "row": 1,
    "column": 2,
    "spare": 1,
    "layers": 3,
    "redundant_bytes": 10,
    "communication_bytes": 5,
    "memory_bytes": 40,
}
PLAN = {
    "rank": 1,
    "devices": 8,
    "tensor_parallel": 2,
    "pipeline_parallel": 4,
    "data_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "sequence_parallel": True,
    "interleaving": 1,
    "micro_batch_size": 1,
    "micro_batches": 8,
    "zero_stage": 1,
    "recomputation": "none",
    "offload": False,
    "step_time_ns": 70,
    "samples_per_s": 1.5,
    "tokens_per_s": 3.0,
    "mfu": 0.5,
    "peak_bytes": 9,
    "limit_bytes": 10,
    "headroom_bytes": 1,
    "verified": {"step_time_ns": 71},
    "schedule": {"makespan_ns": 69},
}
TRAINING: dict[str, Any] = {"plans": [PLAN, {**PLAN, "rank": 2, "schedule": None}], "best": {}}
NOTHING_FITS = {"problem": None, "infeasibility": {}}


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def written(kind: str, answer: dict[str, Any], name: str) -> str:
    return export(Source(kind, answer), name)[1]


def names(kind: str, answer: dict[str, Any]) -> list[str]:
    return [own.name for own, _ in formats_of(Source(kind, answer))]


def test_a_schedule_is_a_row_per_operation_by_start() -> None:
    rows = table(written("pipeline", PIPELINE, "csv"))
    assert tuple(rows[0]) == schedule_csv.COLUMNS
    assert [row["op"] for row in rows] == ["F", "O", "F", "B", "R", "B"]
    first, third = rows[0], rows[2]
    assert (first["device"], first["start_ns"], first["end_ns"]) == ("0", "0", "3000")
    assert (third["device"], third["stage"], third["duration_ns"]) == ("1", "1", "3000")


def test_a_sharding_plan_is_a_row_per_operator_of_each_stage() -> None:
    one = {"plan": {"operators": [OPERATOR]}}
    (row,) = table(written("sharding", one, "csv"))
    assert row == {"stage": "0", **{name: str(value) for name, value in OPERATOR.items()}}
    two = {"stages": [one, {"plan": {"operators": [OPERATOR, OPERATOR]}}]}
    assert [row["stage"] for row in table(written("sharding", two, "csv"))] == ["0", "1", "1"]


def test_a_training_plan_is_a_row_per_plan() -> None:
    first, second = table(written("training", TRAINING, "csv"))
    assert (first["rank"], first["tensor_parallel"], first["mfu"]) == ("1", "2", "0.5")
    assert (first["sequence_parallel"], first["offload"]) == ("true", "false")
    assert (first["verified_step_time_ns"], first["schedule_makespan_ns"]) == ("71", "69")
    assert second["schedule_makespan_ns"] == ""


def test_a_trace_has_a_process_per_device_and_a_thread_per_lane() -> None:
    trace = json.loads(written("pipeline", PIPELINE, "chrome-trace"))
    assert trace["displayTimeUnit"] == "ns"
    events = trace["traceEvents"]
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    # A device that offloads nothing has no lanes for that.
    assert named == {(0, 0): "compute", (0, 1): "offload", (0, 2): "reload", (1, 0): "compute"}
    processes = [event["args"] for event in events if event["name"] == "process_name"]
    assert processes == [{"name": "device 0"}, {"name": "device 1"}]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(OPS)
    (span,) = (event for event in spans if event["pid"] == 1 and event["name"] == "F0")
    assert (span["ts"], span["dur"], span["tid"]) == (4.001, 3.0, 0)
    assert (span["cat"], span["args"]) == ("forward", {"stage": 1, "micro_batch": 0})
    assert {span["tid"] for span in spans if span["cat"] == "reload"} == {2}


def test_a_trace_counts_the_memory_of_each_device() -> None:
    events = json.loads(written("pipeline", PIPELINE, "chrome-trace"))["traceEvents"]
    counted = [
        (event["ts"], event["args"]["bytes"])
        for event in events
        if event["ph"] == "C" and event["pid"] == 0
    ]
    assert counted == [(0.0, 64), (3.5, 16), (11.001, 64), (12.001, 64), (16.001, 0)]
    assert {event["name"] for event in events if event["ph"] == "C"} == {chrome_trace.MEMORY}


def test_the_times_of_a_trace_are_exact() -> None:
    late = {"op": "F", "stage": 0, "micro_batch": 0, "start_ns": 2**52, "end_ns": 2**52 + 1}
    answer = {**PIPELINE, "schedule": {"ops": [late], "makespan_ns": 2**52 + 1}}
    events = json.loads(written("pipeline", answer, "chrome-trace"))["traceEvents"]
    (span,) = (event for event in events if event["ph"] == "X")
    assert (round(span["ts"] * 1000), round(span["dur"] * 1000)) == (2**52, 1)


def test_a_training_plan_has_its_best_schedule_too_where_there_is_one() -> None:
    assert names("training", TRAINING) == ["csv"]
    solved = {**TRAINING, "best": {"schedule": PIPELINE}}
    assert names("training", solved)[:3] == ["csv", "schedule-csv", "chrome-trace"]
    own = written("pipeline", PIPELINE, "csv")
    assert written("training", solved, "schedule-csv") == own
    trace = written("pipeline", PIPELINE, "chrome-trace")
    assert written("training", solved, "chrome-trace") == trace


def test_what_an_older_answer_lacks_is_an_empty_cell() -> None:
    (plan,) = table(written("training", {"plans": [{"step_time_ns": 7}]}, "csv"))
    assert (plan["step_time_ns"], plan["rank"], plan["verified_step_time_ns"]) == ("7", "", "")
    one = {"plan": {"operators": [{"name": "up"}]}}
    (operator,) = table(written("sharding", one, "csv"))
    assert (operator["name"], operator["spare"]) == ("up", "")


@pytest.mark.parametrize("kind", FORMATS)
def test_where_nothing_fits_there_is_nothing_to_write(kind: str) -> None:
    assert names(kind, NOTHING_FITS) == []
    with pytest.raises(CannotExport, match="no plan"):
        written(kind, NOTHING_FITS, "csv")


def test_an_unknown_format_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(CannotExport, match=r"csv, chrome-trace"):
        written("pipeline", PIPELINE, "no-such-format")


def test_a_plan_that_a_format_cannot_carry_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing = replace(schedule_csv.SCHEDULE_CSV, hindrance=lambda part, source: "Too wide.")
    monkeypatch.setattr(registry, "FORMATS", {"pipeline": (refusing, chrome_trace.CHROME_TRACE)})
    assert [hindrance for _, hindrance in formats_of(Source("pipeline", PIPELINE))] == [
        "Too wide.",
        None,
    ]
    with pytest.raises(CannotExport, match="Too wide"):
        written("pipeline", PIPELINE, "csv")
    with pytest.raises(CannotExport, match=r"as chrome-trace\."):
        written("pipeline", PIPELINE, "no-such-format")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("pipeline", {"schedule": {}, "problem": {}}),
        ("sharding", {"plan": {}}),
        ("training", {"plans": [{}], "best": {"rank": 2, "training": {}, "schedule": None}}),
    ],
)
def test_an_answer_that_lacks_something_is_refused_with_the_way_out(
    kind: str, answer: dict[str, Any]
) -> None:
    for own in FORMATS[kind]:
        if own.part(answer) is None or own.name == "csv":
            continue
        with pytest.raises(CannotExport):
            written(kind, answer, own.name)
    assert all(
        isinstance(hindrance, str | None) for _, hindrance in formats_of(Source(kind, answer))
    )


def test_a_format_that_is_tried_is_written_once_for_all_that_ask() -> None:
    tries = []

    def write(part: Any, source: Source) -> str:
        tries.append(source)
        if len(part) > 1:
            raise CannotExport("Too long.")
        return "text"

    own = replace(schedule_csv.SCHEDULE_CSV, hindrance=None, write=write)
    source = Source("pipeline", PIPELINE)
    assert own.why_not({"a": 1}, source) is None
    assert own.file({"a": 1}, source) == own.file({"a": 1}, source) == "text"
    other = Source("pipeline", PIPELINE)
    assert own.why_not({"a": 1, "b": 2}, other) == "Too long."
    with pytest.raises(CannotExport, match="Too long"):
        own.file({"a": 1, "b": 2}, other)
    assert tries == [source, other]


def test_every_format_says_what_it_carries_and_leaves_out() -> None:
    for own in (own for formats in FORMATS.values() for own in formats):
        assert own.carries.endswith(".")
        assert own.leaves_out.endswith(".")


def test_names_of_formats_are_fit_for_addresses_and_files() -> None:
    for formats in FORMATS.values():
        assert len({own.name for own in formats}) == len(formats)
        for own in formats:
            assert own.name.replace("-", "").isalnum()
            assert own.extension.replace(".", "").replace("-", "").isalnum()
            assert (own.name + own.extension).isascii()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_text_is_a_formula(text: str) -> None:
    (row,) = table(csv_text(("name", "size"), [(text, -1)]))
    # A number may be negative.
    assert row == {"name": f"'{text}", "size": "-1"}


def test_separators_and_quotes_stay_in_their_cells() -> None:
    text = csv_text(("a", "b"), [('x,"y"\nz', None)])
    assert text == 'a,b\r\n"x,""y""\nz",\r\n'


def test_exporting_loads_no_solver() -> None:
    code = (
        "import sys, planner.export.registry; "
        "print({'numpy', 'numba', 'ortools', 'mip'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
