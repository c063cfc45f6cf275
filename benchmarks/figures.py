"""Line charts and distributions as SVG files, which show in light and in dark.

A benchmark describes a `Chart` and hands it to `draw`; the file name that comes back belongs into
`Record.images`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from benchmarks.labels import CHARACTER, Point, placed

IMAGES = Path(__file__).parents[1] / "docs" / "images" / "results"
WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, BOTTOM = 72, 24, 58
LINE_HEIGHT = 20
LIGHT = ("#1d5fc4", "#c2410c", "#0f766e", "#7e22ce", "#a16207", "#be185d", "#4d7c0f", "#475569")
DARK = ("#7cb0ff", "#fb923c", "#5eead4", "#c99bff", "#facc15", "#f9a8d4", "#bef264", "#cbd5e1")
STEP_DASHES = (None, "9 3", "3 3", "12 3 3 3")
STYLE = """
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--text); }
.title { font-weight: 600; font-size: 15px; }
.name { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.paper { fill: var(--paper); }
.grid { stroke: var(--grid); }
.axis { stroke: var(--text); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """`title` names quantity and unit; the axis reaches over all points and over `reaches`.
    A logarithmic one takes values above 0 only."""

    title: str
    reaches: Sequence[float] = ()
    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind: joined by a `line`, which has no markers if it is dashed, by `steps` (the
    value holds until the next point), or single `dots`, beside which `names` stand, one each, if
    given."""

    label: str
    points: Sequence[Point]
    kind: Literal["line", "steps", "dots"] = "line"
    is_dashed: bool = False
    names: Sequence[str] = ()

    @property
    def has_markers(self) -> bool:
        """Whether each point is marked."""
        return self.kind == "dots" or (self.kind == "line" and not self.is_dashed)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture; `description` is what a reader who does not see it should know."""

    title: str
    description: str
    x: Axis
    y: Axis
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class _Scale:
    """From a value to a pixel."""

    lowest: float
    highest: float
    first_px: float
    last_px: float
    is_logarithmic: bool
    ticks: Sequence[float]

    def __call__(self, value: float) -> float:
        position: Callable[[float], float] = math.log if self.is_logarithmic else float
        first, last = position(self.lowest), position(self.highest)
        share = (position(value) - first) / (last - first)
        return round(self.first_px + share * (self.last_px - self.first_px), 1)


def draw(name: str, chart: Chart, folder: Path = IMAGES) -> str:
    """Write `NAME.svg` into the folder of pictures and return its file name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(as_svg(chart) + "\n")
    return f"{name}.svg"


def distribution(label: str, values: Sequence[float]) -> Series:
    """The share of values, in percent, that are at most x: steps from 0 to 100."""
    ordered = sorted(values)
    points = [(value, 100 * (i + 1) / len(ordered)) for i, value in enumerate(ordered)]
    return Series(label, [(ordered[0], 0.0), *points], "steps")


def as_svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    picture = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH} {HEIGHT}",
            "role": "img",
            "aria-labelledby": "title description",
        },
    )
    SubElement(picture, "title", id="title").text = chart.title
    SubElement(picture, "desc", id="description").text = chart.description
    SubElement(picture, "style").text = _style(len(chart.series))
    SubElement(picture, "rect", {"class": "paper", "width": "100%", "height": "100%"})
    _text(picture, chart.title, 16, 26, {"class": "title"})
    top = _legend(picture, chart.series) + 2 * LINE_HEIGHT
    x = _scale(chart.x, [x for s in chart.series for x, _ in s.points], LEFT, WIDTH - RIGHT)
    y = _scale(chart.y, [y for s in chart.series for _, y in s.points], HEIGHT - BOTTOM, top)
    _axes(picture, chart, x, y)
    for i, series in enumerate(chart.series):
        if series.kind != "dots":
            _line(picture, series, i, x, y)
    for i, series in enumerate(chart.series):
        for px, py in series.points if series.has_markers else ():
            _marker(picture, i, x(px), y(py))
    _names(picture, chart.series, x, y)
    ElementTree.indent(picture, " ")
    return ElementTree.tostring(picture, encoding="unicode")


def _style(count: int) -> str:
    """Colours of the parts and of so many series, in light and in dark."""

    def colours(paper: str, text: str, grid: str, palette: Sequence[str]) -> str:
        named = {"paper": paper, "text": text, "grid": grid}
        named |= {f"s{i}": palette[i % len(palette)] for i in range(count)}
        return "".join(f"--{name}: {value};" for name, value in named.items())

    classes = "".join(
        f".s{i} {{ stroke: var(--s{i}); }} .m{i} {{ fill: var(--s{i}); }}\n" for i in range(count)
    )
    light = colours("#ffffff", "#1f2937", "#e2e6ec", LIGHT)
    dark = colours("#14181f", "#e5e9f0", "#2d3542", DARK)
    return (
        f"\nsvg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
        f"{STYLE}{classes}"
    )


def _legend(picture: Element, series: Sequence[Series]) -> float:
    """One entry per series, from left to right in as many lines as it takes; where it ends."""
    left, top = 16.0, 26.0 + 1.2 * LINE_HEIGHT
    for i, entry in enumerate(series):
        width = 34 + CHARACTER * len(entry.label) + 16
        if left > 16 and left + width > WIDTH:
            left, top = 16.0, top + LINE_HEIGHT
        middle = top - 4.5
        if entry.kind != "dots":
            _stroke(picture, [(left, middle), (left + 26, middle)], i, entry)
        if entry.has_markers:
            _marker(picture, i, left + 13, middle)
        _text(picture, entry.label, left + 34, top)
        left += width
    return top


def _scale(axis: Axis, values: Sequence[float], first_px: float, last_px: float) -> _Scale:
    """An axis over all values, with ticks at round numbers."""
    reached = [*values, *axis.reaches]
    lowest, highest = min(reached), max(reached)
    if axis.is_logarithmic:
        lowest, highest = lowest / 1.04, highest * 1.04
        ticks = [t for t in _logarithmic_ticks(lowest, highest) if lowest <= t <= highest]
        return _Scale(lowest, highest, first_px, last_px, True, ticks)
    if lowest == highest:
        lowest, highest = lowest - 0.5, highest + 0.5
    step = _round_step((highest - lowest) / 6)
    first, last = math.floor(lowest / step + 1e-9), math.ceil(highest / step - 1e-9)
    ticks = [i * step for i in range(first, last + 1)]
    return _Scale(ticks[0], ticks[-1], first_px, last_px, False, ticks)


def _round_step(least: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= least * (1 - 1e-9))


def _logarithmic_ticks(lowest: float, highest: float) -> Iterator[float]:
    decades = math.log10(highest / lowest)
    steps: Sequence[float] = (1,) if decades > 3 else (1, 2, 5)
    if decades < 1:
        steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    for exponent in range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1):
        yield from (step * 10.0**exponent for step in steps)


def _axes(picture: Element, chart: Chart, x: _Scale, y: _Scale) -> None:
    """Grid, ticks with their numbers, and the titles: that of y stands above its axis."""
    bottom, top = y.first_px, y.last_px
    for tick in y.ticks:
        _segment(picture, "grid", (LEFT, y(tick)), (WIDTH - RIGHT, y(tick)))
        _text(picture, _number(tick), LEFT - 8, y(tick) + 4.5, {"text-anchor": "end"})
    for tick in x.ticks:
        _segment(picture, "grid", (x(tick), top), (x(tick), bottom))
        _text(picture, _number(tick), x(tick), bottom + 20, {"text-anchor": "middle"})
    _segment(picture, "axis", (LEFT, bottom), (WIDTH - RIGHT, bottom))
    _segment(picture, "axis", (LEFT, top), (LEFT, bottom))
    _text(picture, chart.y.title, 16, top - 12)
    _text(picture, chart.x.title, WIDTH - RIGHT, HEIGHT - 14, {"text-anchor": "end"})


def _line(picture: Element, series: Series, number: int, x: _Scale, y: _Scale) -> None:
    points = [(x(px), y(py)) for px, py in series.points]
    if series.kind == "steps":
        corners = [(after[0], before[1]) for before, after in pairwise(points)]
        points = [points[0]] + [
            point for pair in zip(corners, points[1:], strict=True) for point in pair
        ]
    _stroke(picture, points, number, series)


def _stroke(picture: Element, points: Sequence[Point], number: int, series: Series) -> None:
    """Lines have markers to tell them apart; steps, which have none, differ in their dashes."""
    path = " ".join(f"{px:g},{py:g}" for px, py in points)
    line = SubElement(picture, "polyline", {"class": f"line s{number}", "points": path})
    dashes = STEP_DASHES[number % len(STEP_DASHES)] if series.kind == "steps" else None
    if dashes or series.is_dashed:
        line.set("stroke-dasharray", dashes or "6 4")


def _segment(picture: Element, kind: str, start: Point, end: Point) -> None:
    (x1, y1), (x2, y2) = start, end
    ends = {"x1": f"{x1:g}", "y1": f"{y1:g}", "x2": f"{x2:g}", "y2": f"{y2:g}"}
    SubElement(picture, "line", {"class": kind} | ends)


def _marker(picture: Element, number: int, x: float, y: float) -> None:
    """Series differ in shape as well as in colour."""
    shapes = (
        ((0, -4), (4, 0), (0, 4), (-4, 0)),
        ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        ((0, -4.5), (4.5, 3.5), (-4.5, 3.5)),
        ((0, 4.5), (4.5, -3.5), (-4.5, -3.5)),
    )
    kind = {"class": f"m{number}"}
    if number % 5 == 0:
        SubElement(picture, "circle", kind | {"cx": f"{x:g}", "cy": f"{y:g}", "r": "4"})
        return
    corners = " ".join(f"{x + dx:g},{y + dy:g}" for dx, dy in shapes[number % 5 - 1])
    SubElement(picture, "polygon", kind | {"points": corners})


def _names(picture: Element, series: Sequence[Series], x: _Scale, y: _Scale) -> None:
    """Each name beside its dot."""
    at = [[(x(px), y(py)) for px, py in entry.points] for entry in series]
    dots = [
        point for entry, own in zip(series, at, strict=True) if entry.has_markers for point in own
    ]
    lines = [own for entry, own in zip(series, at, strict=True) if entry.kind != "dots"]
    named = [
        pair
        for entry, own in zip(series, at, strict=True)
        if entry.names
        for pair in zip(own, entry.names, strict=True)
    ]
    inside = (LEFT, y.last_px, WIDTH - RIGHT, y.first_px)
    for (_, name), (left, base) in zip(named, placed(named, dots, lines, inside), strict=True):
        _text(picture, name, left, base, {"class": "name"})


def _text(
    picture: Element, text: str, x: float, y: float, more: dict[str, str] | None = None
) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    SubElement(picture, "text", place | (more or {})).text = text


def _number(value: float) -> str:
    return f"{round(value, 10):,.6g}".replace("-", "−")
