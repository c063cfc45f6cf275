"""A communication estimate: who talks over what, how long, and one environment for NCCL."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from client.figures import milliseconds
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, headings, plain_table, texts

TIERS = {"node": "node", "rack": "rack", "across_racks": "across racks"}
EACH, COUNT, ADVICE = "Ranks\nin each", "Groups", "Algorithm"


def render_communication(console: Console, answer: Row) -> None:
    """The groups with their times, the order of ranks, and what to set."""
    summary = answer["summary"]
    print_title(console, _title(summary))
    if answer["groups"]:
        console.print()
        print_table(console, _group_table(answer["groups"], console.width))
        print_lines(console, [summary["basis"]], style="dim")
    order = answer["rank_order"]
    print_lines(
        console, ["", f"Order of ranks {order['order']}: {order['rank']}, {order['place']}."]
    )
    print_lines(console, map(_alternative_line, answer["rank_order_alternatives"][1:]), style="dim")
    _render_environment(console, answer["environment"])


def _title(summary: Row) -> str:
    if not summary["communication_ns"]:
        return "Communication: none"
    return (
        f"Communication: {milliseconds(summary['communication_ns'])} ms of a step, most of it "
        f"between {_kind(summary['busiest_kind'])} ranks, bounded by the "
        f"{TIERS[summary['bounded_by']]}"
    )


def _group_table(groups: Row, width: int) -> Table:
    rows = list(groups.values())
    columns = [
        Column("Ranks that share", texts(map(_kind, groups))),
        Column(EACH, texts(str(row["size"]) for row in rows), True),
        Column(COUNT, texts(str(row["count"]) for row in rows), True),
        Column("Reach", texts(TIERS[row["reaches"]] for row in rows)),
        Column("ms of\na step", texts(milliseconds(row["step_ns"]) for row in rows), True),
        Column(ADVICE, texts(_advice(row) for row in rows)),
    ]
    return plain_table(columns, width, headings(columns, COUNT, ADVICE, EACH))


def _advice(group: Row) -> str:
    """The algorithm on each tier that a group's collective crosses."""
    advised = [(tier["tier"], tier["algorithm"]) for tier in group["tiers"] if "algorithm" in tier]
    if len({algorithm for _, algorithm in advised}) == 1:
        return str(advised[0][1])
    return ", ".join(f"{algorithm} in the {TIERS[tier]}" for tier, algorithm in advised)


def _kind(name: str) -> str:
    return name.replace("_", " and ") if name == "data_context" else name.replace("_", " ")


def _alternative_line(alternative: Row) -> str:
    order, flag = alternative["order"], alternative["megatron_flag"]
    advice = "better: " if alternative["recommended"] else ""
    return f"Order {order} ({flag}): {advice}{alternative['reason']}"


def _render_environment(console: Console, environment: Row) -> None:
    settings = [
        (f"export {variable['name']}={variable['value']}", variable["reason"])
        for variable in environment["variables"]
    ]
    settings += [(flag["name"], flag["reason"]) for flag in environment["flags"]]
    print_lines(console, ["", f"Environment ({environment['scope']}):"])
    for setting, reason in settings:
        print_lines(console, [setting], indent=2)
        print_lines(console, [reason], style="dim", indent=6)
    if not settings:
        print_lines(console, ["nothing to set"], indent=2)
    unset, never = (
        ", ".join(entry["name"] for entry in environment[part]) for part in ("leave_unset", "never")
    )
    print_lines(
        console,
        [f"Leave unset: {unset}. Never set: {never}. --json says why of each."],
        style="dim",
    )
