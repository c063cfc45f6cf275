"""The Gantt chart as SVG: what it shows, that it is well-formed, and how large it gets."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections import Counter
from typing import Any

import pytest

from planner.export.format import Source
from planner.export.gantt_svg import (
    BEST_GANTT_SVG,
    COLOURS,
    GANTT_SVG,
    MOST_BOXES,
    gantt_svg,
)
from tests.unit.client.results import two_device_result

SVG = "{http://www.w3.org/2000/svg}"


def answer(devices: int, micro_batches: int, *, offloads: bool = False) -> dict[str, Any]:
    """Devices that compute F, B and W in turn without a pause, and copy beside that."""
    ops = []
    for device in range(devices):
        for index, (micro_batch, kind) in enumerate(itertools.product(range(micro_batches), "FBW")):
            start_ns = 100 * index
            own = {"stage": device, "micro_batch": micro_batch, "start_ns": start_ns}
            ops.append({"op": kind, **own, "end_ns": start_ns + 100})
            if offloads and kind == "F":
                ops.append({"op": "O", **own, "end_ns": start_ns + 50})
    stages = [{"device": device} for device in range(devices)]
    makespan_ns = max(op["end_ns"] for op in ops)
    return {"problem": {"stages": stages}, "schedule": {"ops": ops, "makespan_ns": makespan_ns}}


def shapes(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


def boxes(svg: str) -> list[ElementTree.Element]:
    """The operations that are drawn one by one."""
    return [box for box in shapes(svg, "rect") if box.find(f"{SVG}title") is not None]


def test_every_operation_is_where_and_when_it_runs() -> None:
    drawn = boxes(gantt_svg(answer(2, 3)))
    assert len(drawn) == 18
    assert Counter(box.get("fill") for box in drawn) == {COLOURS[k][0]: 6 for k in "FBW"}
    assert len({box.get("y") for box in drawn}) == 2
    width = float(drawn[0].get("width") or 0)
    first = float(drawn[0].get("x") or 0)
    starts = [float(box.get("x") or 0) for box in drawn[:9]]
    assert starts == [pytest.approx(first + index * width, abs=0.1) for index in range(9)]
    title = drawn[4].find(f"{SVG}title")
    assert title is not None
    assert title.text is not None
    assert title.text.startswith("backward for the input, stage 0, micro-batch 1: 0.000 to")


def test_copies_have_rows_of_their_own_and_idle_devices_too() -> None:
    rows = {box.get("y") for box in boxes(gantt_svg(answer(2, 3, offloads=True)))}
    assert len(rows) == 4
    empty = {"problem": {"stages": [{"device": 3}]}, "schedule": {"ops": [], "makespan_ns": 0}}
    labels = [text.text for text in shapes(gantt_svg(empty), "text")]
    assert [label for label in labels if (label or "").startswith("device")] == [
        f"device {device}" for device in range(4)
    ]


def test_a_timeline_is_drawn_as_its_schedule() -> None:
    own = answer(2, 2)
    names = ("op", "stage", "micro_batch", "start_ns", "end_ns")
    ops = sorted(own["schedule"]["ops"], key=lambda op: (op["stage"], op["start_ns"]))
    timeline = {
        "ops": {name: [op[name] for op in ops] for name in names},
        "stages": own["problem"]["stages"],
        "devices": [{}, {}],
        "makespan_ns": own["schedule"]["makespan_ns"],
    }
    assert gantt_svg(timeline) == gantt_svg(own)


@pytest.mark.parametrize(("devices", "micro_batches"), [(4, 2000), (512, 16), (3000, 1)])
def test_pictures_of_many_operations_stay_small(devices: int, micro_batches: int) -> None:
    svg = gantt_svg(answer(devices, micro_batches))
    assert devices * micro_batches * 3 > MOST_BOXES
    assert not boxes(svg)
    assert len(svg) < 2**21


def test_columns_show_what_takes_most_of_their_time() -> None:
    """Long forwards, short backwards: a column of many of both shows the forwards."""
    ops = []
    for index in range(3000):
        for kind, (start_ns, end_ns) in {"F": (0, 70), "B": (70, 100)}.items():
            at_ns = 100 * index
            own = {"stage": 0, "micro_batch": index}
            ops.append({"op": kind, **own, "start_ns": at_ns + start_ns, "end_ns": at_ns + end_ns})
    schedule = {"ops": ops, "makespan_ns": 300_000}
    svg = gantt_svg({"problem": {"stages": [{"device": 0}]}, "schedule": schedule})
    fills = {path.get("fill") for path in shapes(svg, "path") if path.get("fill")}
    assert fills == {COLOURS["F"][0]}


def test_it_has_no_script_and_no_style() -> None:
    svg = gantt_svg(answer(2, 3, offloads=True))
    tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
    assert tags == {f"{SVG}{tag}" for tag in ("svg", "title", "rect", "text", "path")}
    assert "style" not in svg
    assert "href" not in svg


def test_as_a_format_it_writes_schedules_only() -> None:
    result = two_device_result()
    source = Source("pipeline", result)
    assert GANTT_SVG.part(result) is result
    assert GANTT_SVG.write(result, source).startswith("<svg")
    assert BEST_GANTT_SVG.part({"best": {"schedule": result}}) is result
    assert GANTT_SVG.part({"infeasibility": {}}) is None


def test_copies_of_many_operations_show_though_they_are_short() -> None:
    svg = gantt_svg(answer(2, 500, offloads=True))
    fills = {path.get("fill") for path in shapes(svg, "path") if path.get("fill")}
    assert COLOURS["O"][0] in fills
