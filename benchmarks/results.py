"""The page of results, from what the benchmarks wrote down.

    python -m benchmarks.results

Writes `docs/results.md` and names what is worse than in the run before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import parser_for
from benchmarks.recording import FOLDER, as_markdown

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MOST_TABLES = 8
PARTS: Mapping[str, Sequence[str]] = {
    "Pipeline schedules": (
        "models-a100",
        "models-h100",
        "choices",
        "zero-bubble",
        "heterogeneity",
        "pipeline",
        "ablation",
        "replanning-scale",
        "timing",
    ),
    "Sharding plans": ("sharding", "sharding-torch"),
    "Plans that run": ("torch-timing", "following", "run-callback"),
    "The service": ("service", "telemetry", "faults", "dashboard"),
    "Predictions against measurements": ("predictions",),
}


def main() -> int:
    """Write the page; 1 if a benchmark has left no record."""
    parser_for(__doc__).parse_args()
    records = kept_records()
    PAGE.write_text("\n".join(page(records)))
    for name, record in records.items():
        for sentence in record["worse"]:
            print(f"worse: {name}: {sentence}")
    missing = [name for names in PARTS.values() for name in names if name not in records]
    for name in missing:
        print(f"not measured: {name}", file=sys.stderr)
    return 1 if missing else 0


def kept_records() -> dict[str, Any]:
    """What the benchmarks wrote down, in the order of the page."""
    paths = {name: FOLDER / f"{name}.json" for names in PARTS.values() for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def page(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The lines of `docs/results.md`."""
    yield "# Results\n"
    yield (
        "What Loadmaster does, against what would be used instead. Each table says which command "
        "makes it anew, and when, where and with which versions it was made; published figures "
        "stand beside ours and are never a target that anything was tuned for. Records of "
        "2026-12-01 that say 0.7.0 were made by the code that became 0.8.0.\n"
    )
    worse = [(name, text) for name, record in records.items() for text in record["worse"]]
    if worse:
        yield "Worse than in the run before:\n"
        yield from (f"- {records[name]['title']}: {text}" for name, text in worse)
        yield ""
    yield "What is on this page:\n"
    yield from _contents(records)
    for part, names in PARTS.items():
        yield f"## {part}\n"
        for name in names:
            if name in records:
                yield from as_markdown(_shortened(records[name]), "###", images="images/results")
                yield f"- all of it: [{name}.md](../benchmarks/results/{name}.md)\n"


def _contents(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for part, names in PARTS.items():
        titles = [records[name]["title"] for name in names if name in records]
        links = ", ".join(f"[{title}](#{_anchor(title)})" for title in titles)
        yield f"- {part}: {links}"
    yield ""


def _anchor(title: str) -> str:
    """What a heading is called in links, as GitHub and others make it."""
    kept = [c for c in title.lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def _shortened(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record with its first table alone, if it has very many."""
    few = record["tables"] if len(record["tables"]) <= MOST_TABLES else record["tables"][:1]
    return {**record, "tables": few}


if __name__ == "__main__":
    sys.exit(main())
