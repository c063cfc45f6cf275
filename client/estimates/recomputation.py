"""A recomputation estimate: the choices that matter, the rule of thumb among them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from client.figures import percent
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, fits_cell, headings, plain_table, size_columns, texts

PEAK, LEFT, SAVED, SLOWER = "Peak", "Left", "Saved", "Slower\nby"
LEAST_TIME = "least time"


def render_recomputation(console: Console, answer: Row) -> None:
    """The best choice, what it stands beside, and how to ask for each."""
    rule = answer["source_formula"]
    print_title(console, f"Recomputation: {_verdict(answer['best'])}")
    console.print()
    choices = _choices(answer)
    print_table(console, _table(choices, console.width))
    print_lines(console, [f"{_words(choice)}: {choice['how']}" for choice, _ in choices], indent=2)
    interval = "no value" if rule["interval"] is None else f"K = {rule['interval']:g}"
    print_lines(console, [f"Rule of thumb: {rule['formula']}; {interval}."])
    print_lines(console, rule["remarks"], style="dim", indent=2)


def _verdict(best: Row | None) -> str:
    if best is None:
        return "no choice fits"
    if best["method"] == "none":
        return "none is needed"
    return f"{_words(best)}, {percent(best['overhead'])} slower, is the fastest that fits"


def _choices(answer: Row) -> list[tuple[Row, list[str]]]:
    """The choices to show, and what each is the best at."""
    named = [
        (answer["whole_layers"][0], ""),
        (answer["best"], LEAST_TIME),
        (answer["best_interval"], f"{LEAST_TIME}, all layers alike"),
        (answer.get("within_most_overhead"), "least memory within the overhead"),
        (answer["least_memory"], "least memory"),
        (answer["source_formula"]["choice"], "rule of thumb"),
    ]
    choices: dict[str, tuple[Row, list[str]]] = {}
    for choice, name in named:
        if choice is not None:
            names = choices.setdefault(choice["how"], (choice, []))[1]
            # What is the best of all is so of fewer, too.
            if name and not any(name.startswith(known) for known in names):
                names.append(name)
    return list(choices.values())


def _table(choices: list[tuple[Row, list[str]]], width: int) -> Table:
    rows = [choice for choice, _ in choices]
    columns = [
        Column("Recomputed", texts(map(_words, rows))),
        *size_columns(
            {
                PEAK: [row["peak_bytes"] for row in rows],
                LEFT: [row["headroom_bytes"] for row in rows],
            }
        ),
        Column(SAVED, texts(percent(row["memory_saved"]) for row in rows), True),
        Column(SLOWER, texts(percent(row["overhead"]) for row in rows), True),
        Column("Fits", [fits_cell(row["fits"]) for row in rows]),
        Column("", texts(", ".join(names) for _, names in choices)),
    ]
    return plain_table(columns, width, headings(columns, SAVED, LEFT))


def _words(choice: Row) -> str:
    """What a choice recomputes."""
    method, per_segment = choice["method"], choice["layers_per_segment"]
    if method == "none":
        return "nothing"
    if per_segment is None:
        return "attention scores"
    layers = "all layers" if method == "uniform" else f"{choice['recomputed_layers']} layers"
    return (
        f"{layers}, one by one" if per_segment == 1 else f"{layers}, in segments of {per_segment}"
    )
