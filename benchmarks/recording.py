"""What a benchmark keeps of a run, and what has got worse since the run before.

A benchmark makes one `Record` and hands it to `keep`, which writes `results/NAME.json` and
`results/NAME.md`. `python -m benchmarks.results` makes `docs/results.md` of all records.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from benchmarks.environment import environment_lines

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title; `note` says what the columns are of, and what follows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a later run is compared with.

    A change for the worse of more than `noise` times the value, or of more than `least` in its own
    unit, whichever is more, is pointed out.
    """

    name: str
    value: float
    unit: str
    better: Literal["less", "more"]
    noise: float = 0.02
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """A run of a benchmark: `command` makes it anew, `images` are files of `docs/images/results`,
    and `environment` is `environment_now()` of before it began."""

    title: str
    command: str
    note: str
    tables: Sequence[Table]
    figures: Sequence[Figure]
    environment: Mapping[str, str]
    images: Sequence[str] = ()


def keep(name: str, record: Record, folder: Path = FOLDER) -> list[str]:
    """Write a record down; print and return what is worse than in the record that it replaces."""
    path = folder / f"{name}.json"
    before = json.loads(path.read_text())["figures"] if path.exists() else ()
    worse = list(worsened(before, record.figures))
    document = as_document(record, worse)
    folder.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (folder / f"{name}.md").write_text("\n".join(as_markdown(document, "#")))
    for sentence in worse:
        print(f"worse: {sentence}", file=sys.stderr)
    return worse


def show(record: Record) -> None:
    """Print a record, whether or not it is kept."""
    print("\n".join(as_markdown(as_document(record), "#")))


def as_document(record: Record, worse: Sequence[str] = ()) -> dict[str, Any]:
    """What is written of a record that was made today."""
    return {"date": datetime.now(UTC).date().isoformat(), **asdict(record), "worse": [*worse]}


def worsened(before: Sequence[Mapping[str, Any]], after: Sequence[Figure]) -> Iterator[str]:
    """What is worse than it was, one sentence each; a figure that is gone counts too."""
    named = {figure.name: figure for figure in after}
    for old in before:
        new = named.get(old["name"])
        if new is None:
            yield f"{old['name']}: was {_with_unit(old['value'], old['unit'])}, is not measured now"
            continue
        loss = new.value - old["value"] if new.better == "less" else old["value"] - new.value
        if loss > max(new.noise * abs(old["value"]), new.least):
            was, now = (_with_unit(value, new.unit) for value in (old["value"], new.value))
            yield f"{new.name}: was {was}, is {now}"


def as_markdown(document: Mapping[str, Any], heading: str, images: str = "") -> Iterator[str]:
    """The lines of a record that was written down; `images` is the folder of its pictures as seen
    from the page, and without it there are none."""
    yield f"{heading} {document['title']}\n"
    yield f"{document['note']}\n"
    for image in document["images"] if images else ():
        yield f"![{document['title']}]({images}/{image})\n"
    for table in document["tables"]:
        if table["title"]:
            yield f"{heading}# {table['title']}\n"
        if table["note"]:
            yield f"{table['note']}\n"
        yield as_line(table["columns"])
        yield as_line(["---"] * len(table["columns"]))
        yield from (as_line(row) for row in table["rows"])
        yield ""
    for sentence in document["worse"]:
        yield f"**Worse than in the run before: {sentence}.**\n"
    yield f"- again: `{document['command']}`"
    yield f"- date: {document['date']}"
    yield from environment_lines(document["environment"])
    yield ""


def as_line(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _with_unit(value: float, unit: str) -> str:
    return f"{value:,.4g} {unit}".rstrip()
