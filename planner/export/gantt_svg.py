"""A pipeline schedule as a Gantt chart in SVG: a static picture, without scripts or styles.

A row per device with the operations that compute, and below it a thin one each for offloads and
reloads where there are any. Few operations are drawn one by one, with their micro-batch and, for
who points at one, its times. Of many each column of the picture shows what takes most of its time,
so that a picture stays below some 2 MB whatever the schedule.

Needs no package, so that whoever looks at a plan loads nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from planner.export.format import Document, Format, Source
from planner.export.schedule_csv import schedule_of_best, with_schedule

WIDTH, LABELS, MARGIN = 1000, 74, 8
CHART = WIDTH - LABELS - MARGIN
MOST_BOXES = 2000
"""More operations than these are not drawn one by one."""
MOST_COLUMNS = 60_000
"""Of all rows together, where operations are not drawn one by one."""
HEIGHT_WANTED = 480
TALLEST_ROW, LOWEST_ROW = 26, 6
THIN = 0.4
"""Height of a row of offloads or reloads, as a share of a row that computes."""
TICKS = 5
NS_PER_MS = 1e6
CHARACTER = 6.2
"""Width of a character of the labels in operations."""

# The colours of Okabe and Ito (2008), told apart by people of any colour vision; as the dashboard
# has them.
COLOURS: Mapping[str, tuple[str, str]] = {
    "F": ("#0072b2", "#ffffff"),
    "B": ("#009e73", "#000000"),
    "W": ("#e69f00", "#000000"),
    "O": ("#cc79a7", "#000000"),
    "R": ("#56b4e9", "#000000"),
}
WORDS: Mapping[str, str] = {
    "F": "forward",
    "B": "backward for the input",
    "W": "backward for the weights",
    "O": "offload",
    "R": "reload",
}
COPIES = ("O", "R")
IDLE, SURFACE, TEXT = "#eceff3", "#ffffff", "#1c232d"


class Box(NamedTuple):
    """An operation on a device."""

    device: int
    op: str
    stage: int
    micro_batch: int
    start_ns: int
    end_ns: int


class Row(NamedTuple):
    """Where a row of the chart lies, and what is in it."""

    y: float
    height: float
    boxes: Sequence[Box]


class Span(NamedTuple):
    """What of time the chart shows."""

    start_ns: int
    end_ns: int

    def x(self, at_ns: int) -> float:
        """Where an instant lies in the picture."""
        return LABELS + CHART * (at_ns - self.start_ns) / (self.end_ns - self.start_ns)


def gantt_svg(document: Document) -> str:
    """The chart of a pipeline schedule's answer, or of a timeline."""
    boxes, devices, makespan_ns = _read(document)
    start_ns = min((box.start_ns for box in boxes), default=0)
    last_ns = max((box.end_ns for box in boxes), default=0)
    span = Span(start_ns, max(start_ns + makespan_ns, last_ns, start_ns + 1))
    rows, labels, bottom = _rows(boxes, devices)
    if len(boxes) <= MOST_BOXES:
        shapes = [shape for row in rows for box in row.boxes for shape in _box(box, row, span)]
    else:
        columns = max(1, min(CHART, MOST_COLUMNS // len(rows)))
        shapes = [shape for row in rows for shape in _paths(row, span, columns)]
    seconds_ms = (span.end_ns - span.start_ns) / NS_PER_MS
    title = f"Pipeline schedule of {devices} devices, {seconds_ms:.3f} ms"
    height = bottom + 44
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_short(height)}" '
            f'width="{WIDTH}" height="{_short(height)}" role="img" '
            f'font-family="sans-serif" font-size="11" fill="{TEXT}">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{_short(height)}" fill="{SURFACE}"/>',
            *(_background(row) for row in rows),
            *labels,
            *shapes,
            *_axis(span, bottom),
            *_legend(boxes, bottom + 34),
            "</svg>",
        )
    )


def _read(document: Document) -> tuple[list[Box], int, int]:
    """The operations by device and start, the number of devices, and the makespan."""
    if "problem" in document:
        problem, schedule = document["problem"], document["schedule"]
        ops: Iterable[tuple[Any, ...]] = (
            (op["op"], op["stage"], op["micro_batch"], op["start_ns"], op["end_ns"])
            for op in schedule["ops"]
        )
        stages, makespan_ns = problem["stages"], schedule["makespan_ns"]
    else:
        columns = document["ops"]
        names = ("op", "stage", "micro_batch", "start_ns", "end_ns")
        ops = zip(*(columns[name] for name in names), strict=True)
        stages, makespan_ns = document["stages"], document["makespan_ns"]
    device_of = [stage["device"] for stage in stages]
    boxes = [Box(device_of[stage], kind, stage, *rest) for kind, stage, *rest in ops]
    boxes.sort(key=lambda box: (box.device, box.start_ns))
    devices = max(max(device_of, default=-1) + 1, len(document.get("devices", ())))
    return boxes, devices, makespan_ns


def _rows(boxes: Iterable[Box], devices: int) -> tuple[list[Row], list[str], float]:
    """The rows, their labels, and where the lowest one ends."""
    lanes: dict[tuple[int, str], list[Box]] = defaultdict(list)
    for box in boxes:
        lanes[box.device, box.op if box.op in COPIES else ""].append(box)
    height = min(TALLEST_ROW, max(LOWEST_ROW, HEIGHT_WANTED / max(1, devices)))
    # Names of rows that are lower than a line of text would lie on each other.
    labelled_every = max(1, -(-12 // int(height)))
    rows, labels, y = [], [], float(MARGIN)
    for device in range(devices):
        rows.append(Row(y, height, lanes[device, ""]))
        if device % labelled_every == 0:
            labels.append(_text(MARGIN, y + min(height, 12) - 2, f"device {device}"))
        y += height + 1
        for kind in COPIES:
            if lanes[device, kind]:
                rows.append(Row(y, THIN * height, lanes[device, kind]))
                y += THIN * height + 1
        y += 0.15 * height
    return rows, labels, y


def _box(box: Box, row: Row, span: Span) -> Iterator[str]:
    """One operation, with its micro-batch where there is room for it."""
    x, end = span.x(box.start_ns), span.x(box.end_ns)
    fill, colour = COLOURS[box.op]
    times = " to ".join(
        f"{(at_ns - span.start_ns) / NS_PER_MS:.3f}" for at_ns in (box.start_ns, box.end_ns)
    )
    words = f"{WORDS[box.op]}, stage {box.stage}, micro-batch {box.micro_batch}: {times} ms"
    yield (
        f'<rect x="{_short(x)}" y="{_short(row.y)}" width="{_short(max(end - x, 0.3))}" '
        f'height="{_short(row.height)}" fill="{fill}" stroke="{SURFACE}" stroke-width="0.4">'
        f"<title>{words}</title></rect>"
    )
    label = str(box.micro_batch)
    if row.height >= 11 and end - x >= CHARACTER * len(label) + 2:
        middle, base = (x + end) / 2, row.y + row.height / 2 + 3.5
        yield (
            f'<text x="{_short(middle)}" y="{_short(base)}" font-size="10" fill="{colour}" '
            f'text-anchor="middle" pointer-events="none">{label}</text>'
        )


def _paths(row: Row, span: Span, columns: int) -> Iterator[str]:
    """The row by columns: a path for each kind of operation."""
    parts: dict[str, list[str]] = defaultdict(list)
    kinds = _kinds(row.boxes, span, columns)
    height = _short(row.height)
    first = 0
    for column in range(1, columns + 1):
        if column < columns and kinds[column] == kinds[first]:
            continue
        kind = kinds[first]
        if kind is not None:
            x, width = LABELS + CHART * first / columns, CHART * (column - first) / columns
            parts[kind].append(
                f"M{_short(x)} {_short(row.y)}h{_short(width)}v{height}h-{_short(width)}z"
            )
        first = column
    for kind, path in parts.items():
        yield f'<path fill="{COLOURS[kind][0]}" d="{"".join(path)}"/>'


def _kinds(boxes: Iterable[Box], span: Span, columns: int) -> list[str | None]:
    """What takes most of each column; None where it is idle for more than half of its time. Copies,
    which are short and far apart, show wherever there is one."""
    duration_ns = span.end_ns - span.start_ns
    # Counted in units of 1/columns of a nanosecond, which keeps everything whole.
    busy = [0] * columns
    longest = [0] * columns
    kinds: list[str | None] = [None] * columns
    for box in boxes:
        left = (box.start_ns - span.start_ns) * columns
        right = (box.end_ns - span.start_ns) * columns
        for column in range(left // duration_ns, min(columns - 1, right // duration_ns) + 1):
            edge = column * duration_ns
            overlap = min(right, edge + duration_ns) - max(left, edge)
            busy[column] += overlap
            if overlap > longest[column]:
                longest[column], kinds[column] = overlap, box.op
    return [
        kind if kind in COPIES or 2 * busy[column] >= duration_ns else None
        for column, kind in enumerate(kinds)
    ]


def _background(row: Row) -> str:
    return (
        f'<rect x="{LABELS}" y="{_short(row.y)}" width="{CHART}" '
        f'height="{_short(row.height)}" fill="{IDLE}"/>'
    )


def _axis(span: Span, y: float) -> Iterator[str]:
    """Times from the start of the iteration, in ms."""
    for tick in range(TICKS + 1):
        at_ns = (span.end_ns - span.start_ns) * tick // TICKS
        x = span.x(span.start_ns + at_ns)
        anchor = "start" if tick == 0 else "end" if tick == TICKS else "middle"
        unit = " ms" if tick == TICKS else ""
        yield (
            f'<path d="M{_short(x)} {_short(y)}v4" stroke="{TEXT}"/>'
            f'<text x="{_short(x)}" y="{_short(y + 15)}" text-anchor="{anchor}">'
            f"{at_ns / NS_PER_MS:.3f}{unit}</text>"
        )


def _legend(boxes: Iterable[Box], y: float) -> Iterator[str]:
    """The kinds of operations that there are."""
    used = {box.op for box in boxes}
    x = float(LABELS)
    for kind, (fill, _) in COLOURS.items():
        if kind in used:
            words = f"{kind} {WORDS[kind]}"
            swatch = f'x="{_short(x)}" y="{_short(y - 9)}" width="10" height="10"'
            yield f'<rect {swatch} fill="{fill}"/>{_text(x + 14, y, words)}'
            x += 34 + CHARACTER * len(words)


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{_short(x)}" y="{_short(y)}">{words}</text>'


def _short(value: float) -> str:
    """With two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def write(answer: Document, _: Source) -> str:
    """The chart as a file."""
    return f"{gantt_svg(answer)}\n"


GANTT_SVG = Format(
    name="svg",
    title="Gantt chart (SVG)",
    media_type="image/svg+xml",
    extension="svg",
    carries="Every operation on its device or link over time; of more than 2,000 what takes most "
    "of each column of the picture.",
    leaves_out="Memory over time, transfers between stages, and what ranks have to wait for.",
    part=with_schedule,
    write=write,
)
BEST_GANTT_SVG = replace(
    GANTT_SVG, title="Gantt chart of the best plan's schedule (SVG)", part=schedule_of_best
)
