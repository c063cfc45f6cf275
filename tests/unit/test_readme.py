"""README.md and its Chinese translation say the same, and lead to the same pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()


def blocks(text: str) -> list[str]:
    return re.findall(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(text), flags=re.MULTILINE)]


def links(text: str) -> list[str]:
    found = re.findall(r"\]\(([^)]+)\)|(https?://[\w.:/]*\w/?)", prose(text))
    named = [link or address for link, address in found]
    return sorted(link for link in named if link not in ("README.md", "README.zh-CN.md"))


def calls(text: str) -> list[list[str]]:
    """What stands as code in the first column of each row of tables."""
    rows = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    return [re.findall(r"`([^`]+)`", row) for row in rows]


def results(text: str) -> str:
    return re.split(r"^## ", text, flags=re.MULTILINE)[5]


def figures(text: str) -> list[str]:
    """The numbers of the results."""
    return sorted(re.findall(r"\d+(?:\.\d+)*", re.sub(r"\]\([^)]*\)", "", results(text))))


@pytest.mark.parametrize("part", [blocks, headings, links, calls, figures])
def test_both_have_the_same(part: Callable[[str], list[object]]) -> None:
    assert part(CHINESE) == part(ENGLISH)
    assert part(ENGLISH)


def test_every_figure_of_the_results_is_in_its_record() -> None:
    lines = re.split(r"^- ", results(ENGLISH), flags=re.MULTILINE)[1:]
    assert len(lines) == 5
    for line in lines:
        [record] = re.findall(r"\]\((benchmarks/results/[a-z-]+\.md)\)", line)
        # The numbers in names of schedules, like ZB-1p, are no figures.
        said = set(re.findall(r"(?<![\w.-])\d+(?:\.\d+)*", line))
        known = set(re.findall(r"\d+(?:\.\d+)*", (ROOT / record).read_text()))
        assert said <= known, (record, said - known)


def test_each_leads_to_the_other() -> None:
    assert "](README.zh-CN.md)" in ENGLISH
    assert "](README.md)" in CHINESE


def test_it_begins_with_three_sentences() -> None:
    first = ENGLISH.split("\n\n")[2].replace("\n", " ")
    assert len(re.findall(r"[.!?](?: |$)", first)) == 3
