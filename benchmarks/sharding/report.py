"""The record of the sharding benchmark, from the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.recording import Figure, Record, Table
from benchmarks.sharding.rows import Held, MemoryRow, TimesRow

MEBIBYTE = 2**20
PUBLISHED_S = {2: 0.02, 4: 0.05, 8: 0.23}
"""The source's solve times (Shi et al. 2025), on machines and graphs that it does not describe."""
PUBLISHED_RATIOS = {"BERT-Large": 0.68, "GPT-1.7B": 0.34, "GPT-3.6B": 0.33, "GPT-7.5B": 0.42}
"""The source's memory relative to Megatron-LM's on 4 devices; its settings are unpublished."""
PUBLISHED_OTHERS = {"BERT-Large": {"Alpa": 158.9 / 219.22, "Colossal-Auto": 331 / 219.22}}
"""What the source has of others, relative to Megatron-LM's."""
PUBLISHED_THROUGHPUT = "0.97 to 1.23"
"""The source's, relative to Megatron-LM's, over its models."""
SHOWN_ALPHA = 1.0
NOTE = """\
ILP-MinMem chooses a split of every operator so that as little as possible is held redundantly,
*alpha* times what is sent weighed in. Published figures are from Shi et al., "Automatic
parallelism strategy generation with minimal memory redundancy" (FITEE 26(1), 2025, doi
10.1631/FITEE.2300684), which does not publish batch, sequence, precision, optimizer, ZeRO stage,
GPU, alpha, nor whether its memory is of a layer or of a whole model; they cannot be reproduced,
and only orders and ratios can be compared. Our settings: one layer, 4 devices, batch 8, the
preset's sequence, bf16 with fp32 gradients, Adam, no ZeRO, attention as three operators. Memory
is what one device keeps through a step, *peak* with what is there for a moment. Throughput is
predicted, relative to Megatron-LM's split (tensor parallel 4) under the same cost model, in which
nothing overlaps. Every plan was verified once more; one that is refused, or not proven optimal
for its objective, would end the benchmark with an error."""
RATIOS_NOTE = f"""\
Ours over Megatron-LM's. *Least of any* is what no plan can go below, each operator with the split
that keeps least, also over Megatron-LM's: where it is above the published ratio, no plan whatever
reaches that under our settings. Plans are chosen by redundancy and what is sent, not by memory,
and a large alpha minds what is sent most, so that memory may even be above Megatron-LM's. The
published throughput is {PUBLISHED_THROUGHPUT} of Megatron-LM's over all models."""
OTHERS_NOTE = f"""\
With alpha {SHOWN_ALPHA:g}, the default. Alpa's choice is its objective (least communication) and
Colossal-Auto's is the least time with checkpointing, both on our graph and under our costs; not
their programs. – is not published. Fully sharded data parallel is ZeRO stage 3, which is not among
the plans chosen from here (no ZeRO); on GPT-1.7B it keeps less and is faster than ours."""
SETTINGS_NOTE = f"""\
Memory ratio / least of any / throughput, as in the first table and with alpha {SHOWN_ALPHA:g},
where one of our settings is another one. Of 24 layers all are split alike. *Redundancy of the
mesh* counts copies of whole arrays."""
TIMES_NOTE = """\
BERT-Large, batch 8 (or as many samples as devices), sequence 512. Seconds to build the model and
to solve it to proven optimality, reading the request and the baselines not counted. With
*reductions* the instance is made smaller first where that keeps the optimum; where few plans are
left they are compared, and no engine runs (0 columns). The published times are for machines and
graphs that are not described."""


def record_of(
    memory: Sequence[MemoryRow],
    settings: Mapping[str, Sequence[MemoryRow]],
    times: Sequence[TimesRow],
    environment: Mapping[str, str],
) -> Record:
    """Everything that is kept."""
    return Record(
        title="Sharding plans: memory, throughput and solve times",
        command="python -m benchmarks.sharding",
        note=NOTE,
        tables=[
            ratios_table(memory),
            others_table(memory),
            settings_table(settings),
            times_table(times),
        ],
        figures=[*_figures(memory, times)],
        environment=environment,
    )


def ratios_table(rows: Sequence[MemoryRow]) -> Table:
    """Ours against Megatron-LM's, by weight of communication."""
    columns = (
        "model",
        "alpha",
        "ours MiB",
        "Megatron-LM MiB",
        "memory ratio",
        "least of any",
        "published",
        "peak ratio",
        "redundancy ratio",
        "throughput",
    )
    cells = [
        [
            row.model,
            f"{row.alpha:g}",
            _mebibytes(row.plan.memory_bytes),
            _mebibytes(row.megatron.memory_bytes),
            f"{row.memory_ratio:.2f}",
            f"{row.least_ratio:.2f}",
            f"{PUBLISHED_RATIOS[row.model]:.2f}",
            f"{row.plan.peak_bytes / row.megatron.peak_bytes:.2f}",
            f"{row.plan.redundant_bytes / max(1, row.megatron.redundant_bytes):.2f}",
            _throughput(row.plan),
        ]
        for row in rows
    ]
    return Table("Against Megatron-LM on 4 devices", columns, cells, RATIOS_NOTE)


def others_table(rows: Sequence[MemoryRow]) -> Table:
    """Everybody's choice side by side."""
    columns = (
        "model",
        "choice",
        "memory MiB",
        "ratio",
        "published",
        "peak MiB",
        "redundant MiB",
        "sent MiB",
        "throughput",
    )
    cells = []
    for row in rows:
        if row.alpha != SHOWN_ALPHA:
            continue
        published = {"ours": PUBLISHED_RATIOS[row.model], "Megatron-LM": 1.0}
        published |= PUBLISHED_OTHERS.get(row.model, {})
        for name, held in {"ours": row.plan, **row.baselines}.items():
            cells.append(
                [
                    row.model,
                    name,
                    _mebibytes(held.memory_bytes),
                    f"{held.memory_bytes / row.megatron.memory_bytes:.2f}",
                    f"{published[name]:.2f}" if name in published else "–",
                    _mebibytes(held.peak_bytes),
                    _mebibytes(held.redundant_bytes),
                    _mebibytes(held.sent_bytes),
                    _throughput(held),
                ]
            )
    return Table("Every choice", columns, cells, OTHERS_NOTE)


def settings_table(settings: Mapping[str, Sequence[MemoryRow]]) -> Table:
    """How the ratios depend on what is not published."""
    first = next(iter(settings.values()))
    columns = ("setting", *(row.model for row in first))
    cells = [
        [
            name,
            *(
                f"{row.memory_ratio:.2f} / {row.least_ratio:.2f} / {_throughput(row.plan)}"
                for row in rows
            ),
        ]
        for name, rows in settings.items()
    ]
    return Table("Under other settings", columns, cells, SETTINGS_NOTE)


def times_table(rows: Sequence[TimesRow]) -> Table:
    """How long plans take."""
    columns = (
        "layers",
        "devices",
        "engine",
        "reductions",
        "median s",
        "least",
        "most",
        "published s",
        "strategies",
        "columns",
        "rows",
        "runs",
    )
    cells = []
    for row in rows:
        published = PUBLISHED_S.get(row.devices) if row.layers == 1 else None
        cells.append(
            [
                f"{row.layers}",
                f"{row.devices}",
                row.engine,
                "yes" if row.reductions else "no",
                f"{row.median_s:.4f}",
                f"{row.seconds[0]:.4f}",
                f"{row.seconds[-1]:.4f}",
                "–" if published is None else f"{published:g}",
                *(f"{row.size[name]}" for name in ("strategies", "columns", "rows")),
                f"{len(row.seconds)}",
            ]
        )
    return Table("Solve times", columns, cells, TIMES_NOTE)


def _figures(memory: Sequence[MemoryRow], times: Sequence[TimesRow]) -> Iterator[Figure]:
    for row in memory:
        if row.alpha == SHOWN_ALPHA:
            of = f"{row.model}, alpha {row.alpha:g}"
            yield Figure(f"memory ratio, {of}", row.memory_ratio, "", "less", noise=0.005)
            if row.plan.throughput is not None:
                yield Figure(f"throughput, {of}", row.plan.throughput, "", "more", noise=0.005)
    for times_row in times:
        if times_row.engine == "cbc":
            name = f"{times_row.layers} layers, {times_row.devices} devices"
            name += "" if times_row.reductions else ", no reductions"
            yield Figure(
                f"median solve, {name}", times_row.median_s, "s", "less", noise=0.3, least=0.02
            )


def _mebibytes(value: int) -> str:
    return f"{value / MEBIBYTE:.1f}"


def _throughput(held: Held) -> str:
    return "–" if held.throughput is None else f"{held.throughput:.2f}"
