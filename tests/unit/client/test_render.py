"""The terminal shows what the result says."""

from __future__ import annotations

from typing import Any

import pytest

from client.render import certificate_lines, infeasibility_lines
from tests.unit.client.results import GIB, row, two_device_result
from tests.unit.client.screen import line_with, shown


def test_comparison_has_own_row_with_figures_of_the_schedule() -> None:
    own = line_with("Loadmaster", shown(two_device_result()))
    assert "65.000" in own
    assert "2.00" in own  # GiB at the peak
    assert "30.8 %" in own  # 90 ms of work on 2 devices in 65 ms
    assert "yes" in own


def test_comparison_marks_out_of_memory_and_hypothetical_rows() -> None:
    output = shown(two_device_result())
    assert "OOM" in line_with("GPipe", output)
    assert "+7.7 %" in line_with("1F1B", output)
    assert "%" not in line_with("GPipe", output).partition("25.0 %")[0]
    assert "ZB-V *" in output
    assert "* needs another placement" in output
    assert "OOM" not in line_with("1F1B", output)


def test_limit_and_placements_are_named_where_they_matter() -> None:
    result = two_device_result()
    assert "OOM =" not in shown(result)
    assert "as_posted" not in shown(result)
    result["problem"]["devices"][0]["activation_memory_bytes"] = 3 * GIB
    result["problem"]["devices"][1]["activation_memory_bytes"] = 4 * GIB
    # A hypothetical row has the limits of the problem that it stands beside.
    result["comparison"][2]["placement"] = "v_shape"
    assert "OOM = out of memory: 3.00 to 4.00 GiB of a device are left" in shown(result)
    assert "other placements" not in shown(result)
    result["comparison"][0]["placement"] = "v_shape"
    in_words = " ".join(shown(result).split())
    assert "in the placement of the plan, 3.00 to 4.00 GiB of a device are left" in in_words
    assert "; other placements leave other amounts" in in_words
    assert "1F1B (v_shape)" in shown(result)
    assert "Loadmaster (as_posted)" in shown(result)


def missing(name: str, reason: str, placement: str = "as_posted") -> dict[str, Any]:
    """A row without a schedule."""
    return {
        "name": name,
        "placement": placement,
        "hypothetical": False,
        "makespan_ns": None,
        "steady_span_ns": None,
        "bubble_ratio": None,
        "peak_memory_bytes": None,
        "offloads": None,
        "fits": False,
        "reason": reason,
    }


def test_rows_without_a_schedule_say_why_in_one_line_for_each_reason() -> None:
    result = two_device_result()
    nothing, late = "no stage can offload anything", "not computed: the time was up"
    result["comparison"] += [
        missing("PO-H", nothing),
        missing("GIS", late),
        missing("PO-F", nothing),
        missing("PipeOffload", nothing),
    ]
    output = shown(result)
    assert f"\nPO-H, PO-F, PipeOffload: {nothing}\n" in output
    assert f"\nGIS: {late}\n" in output
    assert output.count("PO-H") == output.count("GIS") == 1


def test_placement_is_named_where_a_schedule_is_missing_in_that_one_only() -> None:
    result = two_device_result()
    result["comparison"] += [
        {**row("PipeOffload", 80, fits=True), "placement": "one_chunk", "reason": None},
        missing("PipeOffload", "not computed", "v_shape"),
        missing("GIS", "not computed", "one_chunk"),
        missing("GIS", "not computed", "v_shape"),
    ]
    assert "\nPipeOffload (v_shape), GIS: not computed\n" in shown(result)


def test_result_without_comparison_is_shown() -> None:
    result = two_device_result()
    result["comparison"] = []
    assert "65.000" in shown(result)


def test_steady_span_gets_a_column_of_its_own() -> None:
    result = two_device_result()
    result["certificate"]["objective"] = "steady_span"
    assert "Span" in shown(result)


def wide_result() -> dict[str, Any]:
    """Long names and long figures."""
    result = two_device_result()
    result["provenance"]["placement"] = "interleaved_4"
    result["comparison"] = [
        {**row("PipeOffload", 46572, fits=True), "placement": "interleaved_4"},
        {**row("Interleaved 1F1B", 46573, fits=False, peak=64), "placement": "v_shape"},
    ]
    return result


def table_of(output: str) -> list[str]:
    lines = output.splitlines()
    return lines[: next(i for i, line in enumerate(lines) if line.startswith("device 0"))]


@pytest.mark.parametrize(
    ("width", "dropped"),
    [(76, 0), (75, 1), (63, 1), (62, 2), (55, 2), (54, 3), (40, 3)],
)
def test_narrow_terminal_drops_the_least_important_columns(width: int, dropped: int) -> None:
    lines = table_of(shown(wide_result(), width))
    table = "\n".join(lines)
    assert all(len(line) <= width for line in lines)
    for words in ("46572.000", "46573.000", "64.00", "Fits", "OOM", "yes", "(interleaved_4)"):
        assert words in table
    present = [heading in table for heading in ("Slower", "loads ", "Bubble")]
    assert present == [False] * dropped + [True] * (3 - dropped)


def test_no_terminal_is_too_narrow_for_figures() -> None:
    table = "\n".join(table_of(shown(wide_result(), 12)))
    for words in ("46572.000", "64.00", "OOM"):
        assert words in table


def test_narrow_terminal_keeps_the_span_where_that_counts() -> None:
    result = wide_result()
    result["certificate"]["objective"] = "steady_span"
    table = table_of(shown(result, 40))
    assert "Span" in "\n".join(table)
    assert "Makespan" not in "\n".join(table)
    assert all(len(line) <= 40 for line in table)


def test_chart_without_colours_has_no_blanks_at_the_end_of_a_row() -> None:
    output = shown(two_device_result())
    chart = output[output.index("device 0") : output.index("F forward")].splitlines()
    assert len(chart) == 7
    assert [line for line in chart if line != line.rstrip()] == []


def test_certificate_with_a_gap_names_bound_and_verifier() -> None:
    lines = certificate_lines(two_device_result()["certificate"])
    assert lines[0].startswith("Verified by planner.pipeline.verify")
    assert "between 60.000 ms (bound: critical path) and the 65.000 ms" in lines[1]
    assert "7.69 %" in lines[1]
    assert "arrival and work 55.000 ms" in lines[2]


def test_bounds_that_say_nothing_are_left_out() -> None:
    certificate = two_device_result()["certificate"]
    certificate["bounds"].append({"name": "fill idle", "value_ns": 0})
    assert not any("fill idle" in line for line in certificate_lines(certificate))


def test_certificate_of_an_optimal_schedule() -> None:
    certificate = {**two_device_result()["certificate"], "proven_optimal": True}
    assert certificate_lines(certificate)[1] == (
        "Proven optimal: no schedule has a makespan below 65.000 ms (bound: critical path)."
    )


def test_certificate_says_whether_late_ranks_can_run_out_of_memory() -> None:
    certificate = two_device_result()["certificate"]
    certificate |= {"memory_safe_under_jitter": True, "memory_safety": "proven for any durations"}
    assert certificate_lines(certificate)[-1] == "Safe under jitter: proven for any durations."
    certificate |= {"memory_safe_under_jitter": False, "memory_safety": "device 0: 9 bytes"}
    assert certificate_lines(certificate)[-1] == "NOT safe under jitter: device 0: 9 bytes."


def test_jitter_is_shown_where_it_was_measured() -> None:
    result = two_device_result()
    assert "samples" not in shown(result)
    result["robustness"] = {"jitter": 0.1, "samples": 200, "p50_ns": 66_000_000}
    result["robustness"] |= {"p95_ns": 68_500_000}
    assert "every duration up to 10 % shorter or longer (200 samples)" in shown(result)
    assert "median 66.000 ms, 95 % within 68.500 ms" in shown(result, width=200)


def test_certificate_of_a_plan_kept_from_a_lost_worker() -> None:
    kept = {**two_device_result()["certificate"], "bound_name": None, "bounds": []}
    assert "between 60.000 ms and the 65.000 ms found" in certificate_lines(kept)[1]
    nothing = {**kept, "lower_bound_ns": None, "gap": None}
    assert "nothing is proven" in certificate_lines(nothing)[1]


def test_infeasibility_names_device_bytes_and_remedies() -> None:
    lines = infeasibility_lines(
        {
            "summary": "No schedule fits even with micro-batch 0 alone.",
            "devices": [1, 3],
            "micro_batches": [0, 1],
            "bytes": [3 * GIB, 4 * GIB],
            "limit_bytes": [GIB, GIB],
            "smallest_limit_bytes": [2 * GIB, 4 * GIB],
            "remedies": [
                {"remedy": "offload", "fits": True, "detail": "Offload stage 1."},
                {"remedy": "more stages", "fits": False, "detail": "Too large still."},
                {"remedy": "recomputation", "fits": None, "detail": "Post a model."},
            ],
            "hosts": [{"host": 0, "limit_bytes": 5, "smallest_limit_bytes": 7}],
        }
    )
    text = "\n".join(lines)
    assert lines[0] == "Infeasible: no schedule fits on devices 1, 3."
    assert "Micro-batches that do not fit even alone: 0, 1." in lines
    assert f"limit 1.000 GiB ({GIB} bytes)" in line_with("device 1:", text)
    assert f"without offloading 3.000 GiB ({3 * GIB} bytes)" in line_with("device 1:", text)
    assert f"would do 4.000 GiB ({4 * GIB} bytes)" in line_with("device 3:", text)
    assert "(7 bytes)" in line_with("host 0:", text)
    assert "  offload: yes. Offload stage 1." in lines
    assert "  more stages: no. Too large still." in lines
    assert "  recomputation: cannot be told from here. Post a model." in lines


def test_infeasible_result_is_rendered_as_such() -> None:
    output = shown({"problem": None, "infeasibility": {"devices": [1], "bytes": [5]}})
    assert "Infeasible" in output
    assert "device 1" in output
