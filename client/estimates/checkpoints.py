"""A checkpoints estimate: how often to write which, what failures cost, and how to restart."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from client.figures import percent, size
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, headings, plain_table, texts

NAMES = {"default": "default", "young": "Young", "daly": "Daly", "best": "best"}
LEVELS = {"one_level": "full only", "two_levels": "fast and full"}
STORES = {"host_memory": "host memory", "ssd": "the node's SSDs", "storage": "the storage"}
SAVED = {"full": "full checkpoint", "parameters": "parameters", "fast": "fast checkpoint"}
FAST, FULL, OVERHEAD = "Fast\nevery", "Full\nevery", "Over-\nhead"
LOSS, LOST = "Lost per\nfailure", "GPU hours\na day"
UNITS_S = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))


def render_checkpoints(console: Console, answer: Row) -> None:
    """What each kind of checkpoint takes, the plans, and what to do when nodes go away."""
    print_title(console, _title(answer))
    print_lines(console, [_failures_line(answer["failures"])])
    print_lines(console, [_kind_line(kind, answer[kind]) for kind in ("fast", "full")], indent=2)
    console.print()
    print_table(console, _table(answer, console.width))
    print_lines(
        console,
        [
            f"An iteration takes {duration(answer['iteration_ns'])}. Intervals are work between "
            "two checkpoints, in whole iterations; lost GPU hours count writing, repeating and "
            "restarting."
        ],
        style="dim",
    )
    if answer["preemption"] is not None:
        _render_preemption(console, answer["preemption"])
    _render_restart(console, answer["rolling_restart"])


def duration(value_ns: float | None) -> str:
    """A time in the unit that suits it, or a dash."""
    if value_ns is None:
        return "–"
    seconds = value_ns / 1e9
    unit_s, unit = next((own for own in UNITS_S if seconds >= own[0]), UNITS_S[-1])
    figure = seconds / unit_s
    return f"{figure:,.0f} {unit}" if figure >= 1_000 else f"{figure:.3g} {unit}"


def _title(answer: Row) -> str:
    best = answer["recommended"]
    fast = ""
    if best["levels"] == "two_levels":
        fast = f"a fast one every {duration(best['fast_every_ns'])} and "
    return (
        f"Checkpoints: {fast}a full one every {duration(best['full_every_ns'])} keep "
        f"{percent(best['useful_share'], 2)} of the time useful"
    )


def _failures_line(failures: Row) -> str:
    return (
        f"{failures['per_day']:.3g} failures a day expected, one every "
        f"{duration(failures['mtbf_ns'])}. {failures['basis']}"
    )


def _kind_line(kind: str, written: Row) -> str:
    where = STORES[written["stored_in"]]
    return (
        f"{kind}: {written['contents']}, {size(written['bytes'])}, to {where} in "
        f"{duration(written['write_ns'])}, of which training waits "
        f"{duration(written['blocking_ns'])}; back after a failure in "
        f"{duration(written['restart_ns'])}"
    )


def _table(answer: Row, width: int) -> Table:
    rows: Sequence[tuple[str, Row]] = [
        (LEVELS[levels], plan) for levels in LEVELS for plan in answer[levels]
    ]
    plans = [plan for _, plan in rows]
    columns = [
        Column("Levels", texts(levels for levels, _ in rows)),
        Column("Plan", texts(NAMES[plan["name"]] for plan in plans)),
        Column(FAST, texts(duration(plan.get("fast_every_ns")) for plan in plans), True),
        Column(FULL, texts(duration(plan["full_every_ns"]) for plan in plans), True),
        Column(OVERHEAD, texts(percent(plan["overhead_share"], 2) for plan in plans), True),
        Column(LOSS, texts(duration(plan["loss_per_failure_ns"]) for plan in plans), True),
        Column(LOST, texts(f"{plan['lost_gpu_hours_per_day']:,.1f}" for plan in plans), True),
        Column("Useful", texts(percent(plan["useful_share"], 2) for plan in plans), True),
    ]
    return plain_table(columns, width, headings(columns, LOST, LOSS, OVERHEAD, FAST))


def _render_preemption(console: Console, preemption: Row) -> None:
    print_lines(console, ["", f"With {duration(preemption['notice_ns'])} of notice:"])
    print_lines(console, map(_option_line, preemption["options"]), indent=2)
    print_lines(console, preemption["advice"], indent=2)


def _option_line(option: Row) -> str:
    verdict = "fits" if option["fits"] else "does not fit"
    if option["fits"] and not option["survives"]:
        verdict = "fits, but goes with the node"
    return f"{SAVED[option['what']]}: {duration(option['needed_ns'])}, {verdict}"


def _render_restart(console: Console, restart: Row) -> None:
    print_lines(console, ["", f"Rolling restart: {restart['reason']}"])
    print_lines(console, (step["do"] for step in restart["before"]), indent=2)
    if restart["steps"]:
        stages = ", ".join(map(str, restart["steps"][0]["stages"]))
        print_lines(console, [f"Then each replica in turn, its stages {stages}."], indent=2)
    print_lines(console, [restart["nodes_rule"]], indent=2)
    print_lines(
        console,
        (f"{rule['ranks']}: {rule['rule']}." for rule in restart["not_down_together"]),
        style="dim",
        indent=2,
    )
