"""The text chart puts every operation where its time is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.gantt import gantt_chart, legend, without_trailing_blanks
from tests.unit.client.results import MS, two_device_result


def rows(result: dict[str, Any], width: int) -> list[str]:
    chart = gantt_chart(result["problem"], result["schedule"], width)
    return without_trailing_blanks(chart).plain.splitlines()


def test_rows_of_a_small_schedule() -> None:
    # 65 columns of 1 ms each after a label of 9.
    assert rows(two_device_result(), 74) == [
        "device 0 " + "F" * 20 + "·" * 10 + "B" * 10 + "W" * 5 + "·" * 5 + "B" * 10 + "W" * 5,
        " " * 9 + "0         1                   0         0         1         1",
        "       O " + " " * 20 + "1",
        "       R " + " " * 40 + "1",
        "device 1 " + "·" * 10 + "F" * 10 + "B" * 10 + "F" * 10 + "B" * 10 + "·" * 15,
        " " * 9 + "          0         0         1         1",
        " " * 9 + "0" + "65.000 ms".rjust(64),
    ]


def test_transfer_rows_only_where_a_device_offloads() -> None:
    result = two_device_result()
    kept = [op for op in result["schedule"]["ops"] if op["op"] not in "OR"]
    result["schedule"]["ops"] = kept
    assert len(rows(result, 74)) == 5
    assert "offload" not in legend(result["problem"], result["schedule"])


def test_further_stages_of_a_device_have_small_letters() -> None:
    result = two_device_result()
    result["problem"]["stages"][1]["device"] = 0
    result["problem"]["devices"] = [{}]
    result["schedule"]["ops"] = [op for op in result["schedule"]["ops"] if op["op"] == "F"][:3]
    result["schedule"]["ops"][2].update(start_ns=20 * MS, end_ns=30 * MS)
    assert "F" * 20 + "f" * 10 in rows(result, 74)[0]
    assert "small letters" in legend(result["problem"], result["schedule"])


def test_label_keeps_its_last_digits_where_the_block_is_narrow() -> None:
    result = two_device_result()
    result["schedule"]["ops"] = [
        {"op": "F", "stage": 0, "micro_batch": 127, "start_ns": 0, "end_ns": 2 * MS},
        {"op": "F", "stage": 0, "micro_batch": 128, "start_ns": 2 * MS, "end_ns": 65 * MS},
    ]
    assert rows(result, 74)[1].strip().startswith("27128")


@pytest.mark.parametrize("width", [10, 40, 80, 117, 240])
def test_eight_devices_with_32_micro_batches_fit_any_width(width: int) -> None:
    stages = [{"device": d, "forward_ns": MS, "backward_input_ns": MS} for d in range(8)]
    ops = []
    for d in range(8):
        for m in range(32):
            ops.append(("F", d, m, (d + 2 * m) * MS, (d + 2 * m + 1) * MS))
            start = 16 - d + 2 * m + (d % 2 == 0)
            ops.append(("B", d, m, start * MS, (start + 1) * MS))
    result = {
        "problem": {"micro_batches": 32, "devices": [{}] * 8, "stages": stages},
        "schedule": {
            "ops": [
                {"op": op, "stage": s, "micro_batch": m, "start_ns": a, "end_ns": b}
                for op, s, m, a, b in ops
            ],
            "makespan_ns": max(op[4] for op in ops),
        },
    }
    lines = rows(result, width)
    assert len(lines) == 17
    assert {len(line) for line in lines[::2]} == {max(width, 29)}
    assert all(len(line) <= max(width, 29) and line == line.rstrip() for line in lines)


def test_colour_of_an_operation_goes_on_behind_its_number() -> None:
    result = two_device_result()
    chart = gantt_chart(result["problem"], result["schedule"], 74).plain.splitlines()
    assert chart[1] == rows(result, 74)[1] + " " * 4
    assert chart[2] == rows(result, 74)[2] + " " * 9
    assert chart[5].endswith("1" + " " * 9)


def test_legend_says_what_a_character_stands_for() -> None:
    result = two_device_result()
    assert legend(result["problem"], result["schedule"]).splitlines() == [
        "F forward  B backward for the input  W backward for the weights",
        "O offload  R reload",
        "Each character shows what takes most of its time; short operations may not show.",
    ]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=12))
def test_every_column_shows_an_operation_or_idleness(pairs: list[tuple[int, int]]) -> None:
    ops: list[dict[str, Any]] = []
    now = 0
    for m, (idle_ns, duration_ns) in enumerate(pairs):
        start = now + (idle_ns if m else 0)
        now = start + duration_ns
        ops.append({"op": "F", "stage": 0, "micro_batch": m, "start_ns": start, "end_ns": now})
    problem = {"micro_batches": len(ops), "devices": [{}], "stages": [{"device": 0}]}
    # At one column per nanosecond the chart is exact.
    line = rows({"problem": problem, "schedule": {"ops": ops, "makespan_ns": now}}, now + 9)[0][9:]
    if now >= 20:
        expected = "".join(
            "F" if any(op["start_ns"] <= t < op["end_ns"] for op in ops) else "·"
            for t in range(now)
        )
        assert line == expected
