"""Four models on 8 x A100-40GB: iteration times of five schedules beside published ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.common import milliseconds
from benchmarks.models.cells import (
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
LIMIT_S, SWEEP_LIMIT_S = 60.0, 5.0


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
CHANGES: Sequence[tuple[str, Mapping[str, int | bool | str]]] = (
    ("as above", {}),
    ("sequence 2048", {"sequence": 2048}),
    ("sequence 4096", {"sequence": 4096}),
    ("micro-batch size 2", {"micro_batch_size": 2}),
    ("micro-batch size 4", {"micro_batch_size": 4}),
    ("16 micro-batches", {"micro_batches": 16}),
    ("64 micro-batches", {"micro_batches": 64}),
    ("flash attention", {"flash_attention": True}),
    ("attention scores recomputed", {"recomputation": "selective"}),
    ("whole layers recomputed", {"recomputation": "full"}),
)
"""One factor at a time."""

COLUMNS = (
    "model",
    *(f"{name} ms" for name in (*CLASSIC, ADAOFFLOAD, OURS)),
    "shorter than 1F1B",
    "published",
    "shorter than PipeOffload",
    "published",
    "bubble",
    "least bubble",
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
interleaved, or a V). PipeOffload is the best of its family, which includes ZB-H1 with offloads, so
that it is never slower than ZB-H1 where that fits. AdaOffload is our implementation of OptPipe's
heuristic, without a time limit; Loadmaster had {LIMIT_S:g} s on one thread. *Bubble* is the idle
share of Loadmaster's schedule: 1 - compute time of all GPUs / (GPUs x iteration); the optimizer
step counts as idle. *Least bubble* is that of the proven lower bound: no schedule of this model,
cut and memory has less. *Gap* is how far the iteration may be above the shortest possible;
*proven* is 0. OOM: out of memory. *Verified*: every schedule that fits passed the verifier once
more."""
SWEEP_NOTE = f"""\
How the answer depends on settings that the publications do not give: one is changed at a time, and
the rest is as above. Cells: by how much Loadmaster's iteration is shorter than 1F1B's, or after
*OOM*, where 1F1B is out of memory, than PipeOffload's; in brackets the gap that {SWEEP_LIMIT_S:g} s
leave."""
PUBLISHED_NOTE = "Seconds of an iteration in the published measurements, whose batch is not given."


def table(environment: Mapping[str, str]) -> tuple[Record, list[Measured]]:
    """The whole table, and every row behind it."""
    main = [measured(Setting(m), CLUSTER, LIMIT_S, with_adaoffload=True) for m in PUBLISHED]
    sweep = [measured(setting, CLUSTER, SWEEP_LIMIT_S) for setting in sweep_settings(PUBLISHED)]
    return record_of(main, sweep, environment), [*main, *sweep]


def sweep_settings(models: Sequence[str] | Mapping[str, Published]) -> Iterator[Setting]:
    """Of each change every model."""
    for _, changes in CHANGES:
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
            _sweep_table(sweep),
        ],
        figures=[figure for row in main for figure in _figures(row)],
        environment=environment,
    )


def _main_row(row: Measured) -> list[str]:
    published, ours = PUBLISHED[row.setting.model], row.fitting(OURS)
    return [
        row.setting.model,
        *(time_cell(row, name) for name in (*CLASSIC, ADAOFFLOAD, OURS)),
        percent(row.gain_over("1F1B")),
        percent(published.over_1f1b),
        percent(row.gain_over("PipeOffload")),
        percent(published.over_pipe_offload),
        percent(ours and ours.bubble),
        percent(ours and row.bubble_at_bound),
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


def _sweep_table(sweep: Sequence[Measured]) -> Table:
    models = list(dict.fromkeys(row.setting.model for row in sweep))
    cells = {row.setting: brief_gain(row) for row in sweep}
    rows = [
        [name, *(cells[replace(Setting(model), **changes)] for model in models)]
        for name, changes in CHANGES
    ]
    published = [_published_gain(PUBLISHED[model]) for model in models]
    return Table(
        "Other settings", ("setting", *models), [["published", *published], *rows], SWEEP_NOTE
    )


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
