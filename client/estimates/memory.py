"""A memory estimate: what each pipeline rank holds, whether it fits, and what would make it fit."""

from __future__ import annotations

from rich.console import Console

from client.figures import percent, size
from client.memory_table import rank_memory_table
from client.printing import print_lines, print_table, print_title
from client.tables import Row

VERDICTS = {True: "yes", False: "no", None: "cannot be told from here"}


def render_memory(console: Console, answer: Row) -> None:
    """Whether it fits, the parts of each rank, and the ways out where it does not."""
    print_title(console, _title(answer))
    print_lines(console, [_parameters_line(answer)])
    console.print()
    print_table(console, rank_memory_table(answer["per_rank"], console.width))
    print_lines(console, [_parts_line(answer)], style="dim")
    if answer["what_would_fit"] is not None:
        _render_ways_out(console, answer["what_would_fit"])


def _title(answer: Row) -> str:
    rank, left = answer["most_loaded_rank"], answer["headroom_bytes"]
    share = percent(abs(left) / answer["limit_bytes"])
    if answer["fits"]:
        return f"Memory: fits, {size(left)} ({share}) of a GPU of rank {rank} stay free"
    return f"Memory: OOM, a GPU of rank {rank} lacks {size(-left)} ({share} of what it has)"


def _parameters_line(answer: Row) -> str:
    counts, states = answer["parameters"], answer["bytes_per_parameter"]
    active = f", {counts['active']:,} of them active" * (counts["active"] != counts["total"])
    return (
        f"{counts['total']:,} parameters{active}; {states['total']:g} bytes of each, "
        f"{states['on_each_rank']:g} on each rank that holds it"
    )


def _parts_line(answer: Row) -> str:
    ranks = answer["per_rank"]
    partition = f" {answer['imbalance']['partition']}" if len(ranks) > 1 else ""
    return (
        "At work: the larger of the logits and what one layer's backward needs for a moment. In "
        f"the total there is a reserve of {size(ranks[0]['reserved_bytes'])}.{partition}"
    )


def _render_ways_out(console: Console, ways: Row) -> None:
    print_lines(console, ["What would make it fit:"])
    changes = [
        f"{change['change'].replace('_', ' ')}: {VERDICTS[change['fits']]}. {change['detail']}"
        for change in ways["changes"]
    ]
    print_lines(console, changes, indent=2)
    least, fewest = ways["least_on_this_cluster"], ways.get("least_gpus")
    if least is not None:
        held = size(least["gpu_memory_bytes"])
        line = f"The least found on this cluster: {held} per GPU, with {least['change']}."
        print_lines(console, [line])
    if fewest is not None:
        print_lines(console, [_fewest_line(fewest)])


def _fewest_line(fewest: Row) -> str:
    if fewest["gpus"] is None:
        return f"No number of GPUs would do. {fewest['reason']}"
    training = fewest["training"]
    degrees = ", ".join(
        f"{name.replace('_', ' ')} {training[name]}"
        for name in ("tensor_parallel", "pipeline_parallel", "data_parallel")
    )
    return (
        f"The fewest GPUs that would do: {fewest['gpus']} ({degrees}, ZeRO stage "
        f"{training['zero_stage']}, {training['recomputation']} recomputation), with "
        f"{size(fewest['peak_bytes'])} on the fullest."
    )
