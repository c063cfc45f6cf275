"""An offload estimate: what moves, in which pieces, how much of it is hidden, and where it lies."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from client.figures import milliseconds, percent, size
from client.memory_table import merged_ranks
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, headings, plain_table, size_columns, texts

TIERS = {"hbm": "HBM", "dram": "DRAM", "ssd": "SSD"}
MISSING, OFFLOAD, RELOAD, COMPUTE = "Nowhere", "Offload\nms", "Reload\nms", "Compute\nms"


def render_offload(console: Console, answer: Row) -> None:
    """Each rank's transfers and tiers, the chunks, and what compression would change."""
    chunk = answer["chunk"]
    print_title(console, _title(answer))
    console.print()
    print_table(console, _rank_table(answer, console.width))
    print_lines(
        console,
        ["Per micro-batch, and what the micro-batches in flight fill of each memory."],
        style="dim",
    )
    if chunk["best"] is not None:
        console.print()
        print_table(console, _chunk_table(chunk, console.width))
    source = chunk["source_formula"]
    value = "no value" if source["value"] is None else f"{source['value']:,} {source['unit']}"
    print_lines(console, [f"Published formula {source['formula']}: {value}."])
    print_lines(console, source["remarks"], style="dim", indent=2)
    console.print()
    print_table(console, _compression_table(answer["compression"], console.width))


def _title(answer: Row) -> str:
    best, moved = answer["chunk"]["best"], answer["chunk"]["bytes_to_move"]
    if best is None:
        return "Offload: nothing can be moved"
    return (
        f"Offload: {size(moved)} of rank {answer['rank']} per micro-batch ({answer['offloads']}), "
        f"best in {best['chunks']} chunks of {size(best['chunk_bytes'])}"
    )


def _rank_table(answer: Row, width: int) -> Table:
    links = {rank: link for link in answer["links"] for rank in link["ranks"]}
    ranks = [
        {**rank, **tiers, "hidden_share": links[rank["rank"]]["hidden_share"]}
        for rank, tiers in zip(answer["per_rank"], answer["tiers"], strict=True)
    ]
    alike = ("offload_ns", "reload_ns", "compute_ns", "hidden_share", "tiers", "missing_bytes")
    names, rows = zip(*merged_ranks(ranks, alike), strict=True)
    held = {
        TIERS[tier["tier"]]: [row["tiers"][place]["held_bytes"] for row in rows]
        for place, tier in enumerate(rows[0]["tiers"])
    }
    columns = [
        Column("Rank", texts(names), True),
        *(
            Column(heading, texts(milliseconds(row[key]) for row in rows), True)
            for heading, key in (
                (OFFLOAD, "offload_ns"),
                (RELOAD, "reload_ns"),
                (COMPUTE, "compute_ns"),
            )
        ),
        Column("Hidden", texts(percent(row["hidden_share"]) for row in rows), True),
        *size_columns({**held, MISSING: [row["missing_bytes"] for row in rows]}),
    ]
    return plain_table(columns, width, headings(columns, RELOAD, COMPUTE))


def _chunk_table(chunk: Row, width: int) -> Table:
    rows = [{"chunking": "best", **chunk["best"]}, *chunk["compare"]]
    columns = [
        Column("Chunking", texts(row["chunking"] for row in rows)),
        Column("Chunks", texts(str(row["chunks"]) for row in rows), True),
        *size_columns({"Each": [row["chunk_bytes"] for row in rows]}),
        Column("Link\nms", texts(milliseconds(row["link_ns"]) for row in rows), True),
        Column("Lost\nms", texts(milliseconds(row["lost_ns"]) for row in rows), True),
    ]
    return plain_table(columns, width, headings(columns, "Link"))


def _compression_table(rows: list[Row], width: int) -> Table:
    columns = [
        Column("Compression", texts(row["compression"].replace("_", "-") for row in rows)),
        *size_columns({"Moved": [row["host_bytes"] for row in rows]}),
        Column(OFFLOAD, texts(milliseconds(row["offload_ns"]) for row in rows), True),
        Column(RELOAD, texts(milliseconds(row["reload_ns"]) for row in rows), True),
        Column("Hidden", texts(percent(row["hidden_share"]) for row in rows), True),
        Column("Numerics", texts("changed" if row["changes_numerics"] else "kept" for row in rows)),
    ]
    return plain_table(columns, width, headings(columns, RELOAD))
