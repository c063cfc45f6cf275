"""Four models on 8 x A100-40GB: iteration times of five schedules beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.common import milliseconds
from benchmarks.models.cells import (
    NONE,
    OOM,
    brief_gain,
    gap_cell,
    percent,
    time_cell,
    verified_cell,
)
from benchmarks.models.measure import ADAOFFLOAD, CLASSIC, OURS, Measured, Setting, measured
from benchmarks.recording import Figure, Record, Table

CLUSTER = "8xA100-40GB"
ITERATIONS, SWEEP_ITERATIONS = 100_000, 5_000


@dataclass(frozen=True, slots=True)
class Published:
    """Seconds of an iteration; `of_1f1b` is None where it was out of memory."""

    of_1f1b: int | None
    of_pipe_offload: int
    of_optpipe: int

    @property
    def over_1f1b(self) -> float | None:
        """Share by which OptPipe's iteration is shorter."""
        return None if self.of_1f1b is None else 1 - self.of_optpipe / self.of_1f1b

    @property
    def over_pipe_offload(self) -> float:
        """The same beside PipeOffload."""
        return 1 - self.of_optpipe / self.of_pipe_offload


PUBLISHED: Mapping[str, Published] = {
    "GPT-1.5B": Published(82, 79, 76),
    "GPT-3.6B": Published(143, 132, 121),
    "GPT-7.1B": Published(267, 238, 204),
    "GPT-14.2B": Published(None, 412, 358),
}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "sequence 2048": {"sequence": 2048},
    "sequence 4096": {"sequence": 4096},
    "micro-batch size 2": {"micro_batch_size": 2},
    "micro-batch size 4": {"micro_batch_size": 4},
    "16 micro-batches": {"micro_batches": 16},
    "64 micro-batches": {"micro_batches": 64},
    "flash attention": {"flash_attention": True},
    "attention scores recomputed": {"recomputation": "selective"},
    "whole layers recomputed": {"recomputation": "full"},
}
"""One factor at a time."""

COLUMNS = (
    "model",
    *(f"{name} ms" for name in (*CLASSIC, ADAOFFLOAD, OURS)),
    "shorter than 1F1B",
    "at most",
    "published",
    "shorter than PipeOffload",
    "at most",
    "published",
    "gap",
    "verified",
)
NOTE = """\
Times of one training iteration that the planner's cost model predicts for four GPT models on
8 x A100-40GB, one pipeline of 8 GPUs, and by how much Loadmaster's schedule is shorter than the
others. Nothing was run on a GPU. Beside them stand the shares by which OptPipe's iterations are
shorter in published measurements (OptPipe, arXiv 2510.05186, as articles about it report them).
Shares can be compared, times cannot: batch, sequence and hidden sizes of the measurements were not
published, and none of ours was chosen to come near them."""
MAIN_NOTE = f"""\
Our settings: micro-batches of 1 sequence of 1024 tokens, 32 per iteration, bf16, Adam, gradients in
fp32, attention scores kept (no flash attention), nothing recomputed. Layers / hidden size / heads:
22 / 2304 / 24, 30 / 3072 / 32, 30 / 4352 / 34, 38 / 5520 / 46; vocabulary 51200. Each schedule has
the best placement of those that it is made for (one chunk of layers per GPU, two or four
interleaved, or a V). ZB-H1 is the better of its pattern for equal stages and of list schedules by
its rules. PipeOffload is the best of its family, which includes 1F1B and ZB-H1 with
offloads, so that it is never longer than they are where they fit. AdaOffload is our implementation
of OptPipe's heuristic. *At most*: by how much any schedule can be shorter, after the proven lower
bound. *Gap*: by what share of Loadmaster's iteration the shortest possible may be shorter, after
the proven bound; *proven* is 0. *OOM*: out of memory. *Verified*: every schedule that fits passed
the verifier once more. Loadmaster's search had {ITERATIONS:,} iterations instead of a time limit,
at most a minute of one core, so that its plan is the same on every machine.

1F1B leaves 22 % of the GPUs' time idle here (7/39 = 18 % in equal stages, and embedding, head and
layers do not divide equally), and part of that no schedule avoids: the last GPU has to wait for
the first micro-batch, the first one for the last. That share hardly depends on the size of the
model, so the published one, which grows with it, is not to be had in these settings alone. Where
1F1B is out of memory, copies to the host decide, of which the lower bound knows little: the gap is
wide. Copies take 80 % of the datasheet's rate here (25.2 GB/s). The zero-bubble project's constant
for an A100 is 15 (see *Copies between GPU and host*), so that the rows where 1F1B is out of memory
are optimistic; `cluster.efficiency.pcie` sets another rate."""
SWEEP_NOTE = f"""\
How the answer depends on settings that the publications do not give: one is changed at a time, and
the rest is as above. Cells: by how much Loadmaster's iteration is shorter than 1F1B's, or after
*OOM*, where 1F1B is out of memory, than PipeOffload's; in brackets the gap. The search had
{SWEEP_ITERATIONS:,} iterations, some seconds, but for the row *as above*; more of them find shorter
schedules where the gap is wide. Where 1F1B fits, the number of micro-batches matters most, since
its idle time is spread over them: 64, 32 and 16 give shares near the published 7.3, 15.4 and
23.6 %."""
PUBLISHED_NOTE = "Seconds of an iteration in the published measurements, whose batch is not given."


def table(environment: Mapping[str, str]) -> tuple[Record, list[Measured]]:
    """The whole table, and every row behind it."""
    main = [
        measured(Setting(model), CLUSTER, ITERATIONS, with_adaoffload=True) for model in PUBLISHED
    ]
    sweep = [
        measured(setting, CLUSTER, SWEEP_ITERATIONS) for setting in changed_settings(PUBLISHED)
    ]
    return record_of(main, sweep, environment), [*main, *sweep]


def changed_settings(models: Iterable[str]) -> Iterator[Setting]:
    """Of each change every model."""
    for changes in CHANGES.values():
        yield from (replace(Setting(model), **changes) for model in models)


def record_of(
    main: Sequence[Measured], sweep: Sequence[Measured], environment: Mapping[str, str]
) -> Record:
    """The rows, one per model, and those of the sweep, as they are kept."""
    return Record(
        title="Four models on 8 x A100-40GB",
        command="python -m benchmarks.models a100",
        note=NOTE,
        tables=[
            Table("Predicted iterations", COLUMNS, [*map(_main_row, main)], MAIN_NOTE),
            _published_table(),
            _sweep_table([*main, *sweep]),
        ],
        figures=[figure for row in main for figure in _figures(row)],
        environment=environment,
    )


def _main_row(row: Measured) -> list[str]:
    published = PUBLISHED[row.setting.model]
    return [
        row.setting.model,
        *(time_cell(row, name) for name in (*CLASSIC, ADAOFFLOAD, OURS)),
        percent(row.gain_over("1F1B")),
        percent(row.most_over("1F1B")),
        percent(published.over_1f1b),
        percent(row.gain_over("PipeOffload")),
        percent(row.most_over("PipeOffload")),
        percent(published.over_pipe_offload),
        gap_cell(row),
        verified_cell(row),
    ]


def _published_table() -> Table:
    columns = ("model", "1F1B s", "PipeOffload s", "OptPipe s")
    rows = [
        [
            model,
            OOM if published.of_1f1b is None else str(published.of_1f1b),
            str(published.of_pipe_offload),
            str(published.of_optpipe),
        ]
        for model, published in PUBLISHED.items()
    ]
    return Table("Published iterations", columns, rows, PUBLISHED_NOTE)


def _sweep_table(rows: Sequence[Measured]) -> Table:
    models = list(dict.fromkeys(row.setting.model for row in rows))
    cells = {row.setting: brief_gain(row) for row in rows}
    lines = [
        [name, *(cells.get(replace(Setting(model), **changes), NONE) for model in models)]
        for name, changes in {"as above": {}, **CHANGES}.items()
    ]
    published = ["published", *(_published_gain(PUBLISHED[model]) for model in models)]
    return Table("Other settings", ("setting", *models), [published, *lines], SWEEP_NOTE)


def _published_gain(published: Published) -> str:
    if published.over_1f1b is None:
        return f"{OOM}: {percent(published.over_pipe_offload)}"
    return percent(published.over_1f1b)


def _figures(row: Measured) -> Iterator[Figure]:
    """What a later run is compared with; shares may vary by a percentage point."""
    model, ours = row.setting.model, row.fitting(OURS)
    if ours is None:
        return
    yield Figure(f"iteration of {model}", float(milliseconds(ours.makespan_ns)), "ms", "less")
    yield Figure(f"gap of {model}", 100 * row.gap, "%", "less", least=1.0)
    for other in ("1F1B", "PipeOffload"):
        gain = row.gain_over(other)
        if gain is not None:
            name = f"shorter than {other}, {model}"
            yield Figure(name, 100 * gain, "%", "more", noise=0.0, least=1.0)
