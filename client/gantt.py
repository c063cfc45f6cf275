"""A schedule as a chart of text, one row per device and as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.style import Style
from rich.text import Text

IDLE = "·"
NARROWEST_CHART = 20
STYLES = {
    "F": Style(color="white", bgcolor="blue"),
    "B": Style(color="black", bgcolor="green"),
    "W": Style(color="black", bgcolor="yellow"),
    "O": Style(color="white", bgcolor="magenta"),
    "R": Style(color="black", bgcolor="cyan"),
}
LEGEND = "F forward  B backward for the input  W backward for the weights"
TRANSFER_LEGEND = "O offload  R reload"
CHUNK_LEGEND = "small letters: further stages on the device"
RESOLUTION_LEGEND = (
    "Each character shows what takes most of its time; short operations may not show."
)


@dataclass(frozen=True)
class _Block:
    """One operation in a lane."""

    letter: str
    label: str
    style: Style
    start_ns: int
    end_ns: int


def gantt_chart(problem: Mapping[str, Any], schedule: Mapping[str, Any], width: int) -> Text:
    """The chart of a schedule document.

    Each device has a row of operations over a row of micro-batch numbers (their last digits
    where an operation is too narrow), and a row each for offloads and reloads if it has any.
    A column that is idle for more than half of its time is shown idle, every other one by the
    operation that takes most of it.
    """
    ops = schedule["ops"]
    start_ns = min(op["start_ns"] for op in ops)
    end_ns = max(
        start_ns + schedule["makespan_ns"],
        max(op["end_ns"] for op in ops),
        start_ns + 1,
    )
    label_width = max(len(_device_label(problem, d)) for d in range(len(problem["devices"]))) + 1
    columns = max(NARROWEST_CHART, width - label_width)
    chart = Text(no_wrap=True, overflow="crop")
    for d in range(len(problem["devices"])):
        lanes = _lanes_of_device(problem, ops, d)
        label = _device_label(problem, d).ljust(label_width)
        for name, blocks in lanes.items():
            cells = _cells(blocks, start_ns, end_ns, columns)
            if name == "compute":
                chart.append(label)
                _append_row(chart, cells, _letters(cells))
                chart.append(" " * label_width)
            else:
                chart.append(name.rjust(label_width - 1) + " ")
            _append_row(chart, cells, _labels(cells))
    chart.append(_axis(end_ns - start_ns, label_width, columns))
    return chart


def _device_label(problem: Mapping[str, Any], device: int) -> str:
    return f"device {device}" if len(problem["devices"]) <= 10 else f"device {device:2}"


def _lanes_of_device(
    problem: Mapping[str, Any], ops: Iterable[Mapping[str, Any]], device: int
) -> dict[str, list[_Block]]:
    stages = [s for s, stage in enumerate(problem["stages"]) if stage["device"] == device]
    chunk_of = {stage: chunk for chunk, stage in enumerate(stages)}
    lanes: dict[str, list[_Block]] = {"compute": [], "O": [], "R": []}
    for op in ops:
        chunk = chunk_of.get(op["stage"])
        if chunk is None:
            continue
        kind = op["op"]
        style = STYLES[kind]
        block = _Block(
            letter=kind.lower() if chunk else kind,
            label=str(op["micro_batch"]),
            style=style + Style(bold=True) if chunk else style,
            start_ns=op["start_ns"],
            end_ns=op["end_ns"],
        )
        lanes[kind if kind in lanes else "compute"].append(block)
    return {name: blocks for name, blocks in lanes.items() if blocks or name == "compute"}


def _cells(
    blocks: Sequence[_Block], start_ns: int, end_ns: int, columns: int
) -> list[_Block | None]:
    """The operation that each column shows; None where it is idle for the most part."""
    duration_ns = end_ns - start_ns
    cells: list[_Block | None] = [None] * columns
    # Counted in units of 1/columns of a nanosecond, which keeps everything whole.
    idle = [duration_ns] * columns
    longest = [0] * columns
    for block in blocks:
        left = (block.start_ns - start_ns) * columns
        right = (block.end_ns - start_ns) * columns
        for column in range(left // duration_ns, min(columns - 1, right // duration_ns) + 1):
            edge = column * duration_ns
            overlap = min(right, edge + duration_ns) - max(left, edge)
            idle[column] -= overlap
            if overlap > longest[column]:
                longest[column] = overlap
                cells[column] = block
    return [cell if 2 * idle[c] <= duration_ns else None for c, cell in enumerate(cells)]


def _letters(cells: Sequence[_Block | None]) -> str:
    return "".join(IDLE if cell is None else cell.letter for cell in cells)


def _labels(cells: Sequence[_Block | None]) -> str:
    """Micro-batch numbers at the start of each block, shortened to their last digits."""
    row = [" "] * len(cells)
    column = 0
    while column < len(cells):
        block = cells[column]
        end = column + 1
        while end < len(cells) and cells[end] is block:
            end += 1
        if block is not None:
            for offset, character in enumerate(block.label[-(end - column) :]):
                row[column + offset] = character
        column = end
    return "".join(row)


def _append_row(chart: Text, cells: Sequence[_Block | None], characters: str) -> None:
    """Append a row without the blanks at its end; an operation keeps its colour to its end."""
    end = len(cells)
    while end and cells[end - 1] is None and characters[end - 1] == " ":
        end -= 1
    for cell, character in zip(cells[:end], characters, strict=False):
        chart.append(character, Style(dim=True) if cell is None else cell.style)
    chart.append("\n")


def _axis(duration_ns: int, label_width: int, columns: int) -> str:
    end = f"{duration_ns / 1e6:.3f} ms"
    return " " * label_width + "0" + end.rjust(columns - 1)


def legend(problem: Mapping[str, Any], schedule: Mapping[str, Any]) -> str:
    """What the letters of this chart mean, and what it leaves out."""
    further = []
    if any(op["op"] == "O" for op in schedule["ops"]):
        further.append(TRANSFER_LEGEND)
    if len(problem["stages"]) > len({stage["device"] for stage in problem["stages"]}):
        further.append(CHUNK_LEGEND)
    lines = [LEGEND, "  ".join(further), RESOLUTION_LEGEND]
    return "\n".join(line for line in lines if line)


def without_trailing_blanks(chart: Text) -> Text:
    """The chart where no colour shows: no row ends with blanks."""
    return Text(
        "\n".join(line.rstrip() for line in chart.plain.splitlines()),
        no_wrap=chart.no_wrap,
        overflow=chart.overflow,
    )
