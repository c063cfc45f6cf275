"""Pictures are SVG that reads the same in light, in dark and aloud."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from benchmarks.figures import Axis, Chart, Series, as_svg, distribution, draw

NAMESPACE = "{http://www.w3.org/2000/svg}"
LINE = Series("ours", [(1, 10), (2, 20), (4, 30)])


MEMORY, TIME = Axis("memory, GiB"), Axis("ms")


def chart(*series: Series, x: Axis = MEMORY, y: Axis = TIME) -> Chart:
    return Chart("Makespan <ms> & memory", "It falls.", x, y, series)


def parts(picture: Chart, tag: str) -> list[Element]:
    return list(ElementTree.fromstring(as_svg(picture)).iter(NAMESPACE + tag))


def texts(picture: Chart) -> list[str]:
    return [text.text or "" for text in parts(picture, "text")]


def corners(line: Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in line.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def drawn(picture: Chart, number: int) -> list[Element]:
    """The lines of a series: its entry in the legend, then itself."""
    return [p for p in parts(picture, "polyline") if f"s{number}" in p.attrib["class"].split()]


def test_a_screen_reader_finds_title_and_description() -> None:
    picture = chart(LINE)
    root = ElementTree.fromstring(as_svg(picture))
    named = {e.attrib["id"]: e.text for e in root.iter() if "id" in e.attrib}
    assert root.attrib["role"] == "img"
    assert [named[i] for i in root.attrib["aria-labelledby"].split()] == [
        "Makespan <ms> & memory",
        "It falls.",
    ]


def test_dark_has_a_colour_of_its_own_for_everything_that_light_has() -> None:
    (style,) = parts(chart(LINE, LINE), "style")
    light, dark = (style.text or "").split("@media (prefers-color-scheme: dark)")
    for name in ("--paper:", "--text:", "--grid:", "--s0:", "--s1:"):
        light_value, dark_value = (
            part.split(name)[1].split(";")[0].strip() for part in (light, dark)
        )
        assert light_value != dark_value, name


def test_axes_have_titles_and_round_ticks_over_all_points() -> None:
    found = texts(chart(LINE, x=Axis("memory, GiB", reaches=(0,))))
    assert {"memory, GiB", "ms", "ours"} <= set(found)
    assert {"0", "1", "2", "3", "4"} <= set(found)
    assert {"10", "15", "20", "25", "30"} <= set(found)


def test_a_point_lies_where_the_ticks_say() -> None:
    picture = chart(LINE)
    at = {text.text: text for text in parts(picture, "text")}
    _, line = drawn(picture, 0)
    first, middle, last = corners(line)
    assert first[0] == float(at["1"].attrib["x"])
    assert last[0] == float(at["4"].attrib["x"])
    # A number stands a little below the line that it names.
    assert middle[1] == pytest.approx(float(at["20"].attrib["y"]) - 4.5, abs=0.2)


def test_equal_factors_are_equally_far_apart_on_a_logarithmic_axis() -> None:
    line = Series("ours", [(0, 1000), (1, 2000), (2, 4000)])
    picture = chart(line, y=Axis("ms", is_logarithmic=True))
    (_, a), (_, b), (_, c) = corners(drawn(picture, 0)[1])
    assert a - b == pytest.approx(b - c, abs=0.2)
    assert "2,000" in texts(picture)


def test_a_distribution_rises_from_0_to_100_by_steps() -> None:
    found = distribution("gain", [3.0, 1.0, 2.0, 2.0])
    assert found.points == [(1.0, 0.0), (1.0, 25.0), (2.0, 50.0), (2.0, 75.0), (3.0, 100.0)]
    _, line = drawn(chart(found), 0)
    steps = corners(line)
    pairs = list(pairwise(steps))
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairs)
    assert any(a[0] < b[0] for a, b in pairs)


def test_series_can_be_told_apart_without_colours() -> None:
    dashes = [
        drawn(chart(*(distribution(str(i), [1, 2]) for i in range(4))), i)[0].get(
            "stroke-dasharray"
        )
        for i in range(4)
    ]
    assert len(set(dashes)) == 4
    bound = Series("bound", LINE.points, is_dashed=True)
    picture = chart(LINE, bound)
    assert drawn(picture, 0)[1].get("stroke-dasharray") is None
    assert drawn(picture, 1)[1].get("stroke-dasharray") is not None
    dots = Series("classic", LINE.points, "dots")
    picture = chart(LINE, bound, dots, Series("late", LINE.points))
    # Of the first series and its legend; the dashed one has none.
    assert len(parts(picture, "circle")) == 4
    shapes = {p.attrib["class"]: len(corners(p)) for p in parts(picture, "polygon")}
    assert set(shapes) == {"m2", "m3"}
    assert shapes["m2"] != shapes["m3"]


def test_names_of_dots_that_are_close_do_not_cover_each_other() -> None:
    points = [(1.0, 10.0), (1.01, 10.0), (1.02, 10.0), (9.0, 90.0)]
    names = ["1F1B", "ZB-H1", "V-Half", "at the right edge"]
    dots = Series("classic", points, "dots", names=names)
    placed = [t for t in parts(chart(dots), "text") if t.get("class") == "name"]
    assert [t.text for t in placed] == names
    boxes = []
    for text in placed:
        left, base = float(text.attrib["x"]), float(text.attrib["y"])
        boxes.append((left, base - 11, left + 6 * len(text.text or ""), base))
    for i, one in enumerate(boxes):
        assert one[2] < 760
        for other in boxes[:i]:
            apart = one[0] >= other[2] or other[0] >= one[2]
            assert apart or one[1] >= other[3] or other[1] >= one[3]
    assert not drawn(chart(dots), 0)


def test_a_flat_line_and_a_single_point_can_be_drawn() -> None:
    assert len(drawn(chart(Series("flat", [(1, 5), (2, 5)])), 0)) == 2
    assert parts(chart(Series("one", [(1, 5)], "dots")), "circle")


def test_a_picture_is_written_under_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    assert draw("curve", chart(LINE), folder) == "curve.svg"
    assert (folder / "curve.svg").read_text().startswith("<svg")
