"""Two models on 16 x H100-80GB: memory, samples per second and bubble beside published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks.models.cells import NONE, OOM, gap_cell, percent, verified_cell
from benchmarks.models.measure import ADAOFFLOAD, CLASSIC, OURS, Measured, Setting, measured
from benchmarks.recording import Figure, Record, Table

CLUSTER = "2x8xH100-80GB"
ITERATIONS, SWEEP_ITERATIONS = 100_000, 5_000
GB = 1e9

MODELS: Mapping[str, tuple[int, str]] = {"GPT-7.1B": (32, "1F1B"), "GPT-14.2B": (64, "ZB-H1")}
"""Micro-batches, and the schedule that was published as out of memory."""
PUBLISHED: Mapping[str, Sequence[tuple[str, str, str, str, str]]] = {
    "GPT-7.1B": (
        ("1F1B", OOM, NONE, NONE, NONE),
        ("PipeOffload", "62.4", "1123", "28 %", "+0.0 %"),
        ("OptPipe", "78.9", "1587", "12 %", "+41.3 %"),
    ),
    "GPT-14.2B": (("ZeroBubble", OOM, NONE, NONE, NONE), ("OptPipe", "69.3", "843", "19 %", NONE)),
}
"""Schedule, GB, samples per second, bubble, and samples per second beyond PipeOffload's."""
SEQUENCES, SIZES = (1024, 2048, 4096), (1, 2, 4)

COLUMNS = (
    "setting",
    "schedule",
    "GB",
    "samples/s",
    "bubble",
    "beyond PipeOffload",
    "gap",
    "verified",
)
SWEEP_COLUMNS = (
    "model",
    "sequence",
    "micro-batch size",
    "attention",
    *(*CLASSIC, OURS),
    "shorter than 1F1B",
    "shorter than PipeOffload",
    "least bubble",
    "gap",
    "verified",
)
NOTE = f"""\
GB per GPU, samples per second and bubble that the planner's cost model predicts for two GPT models
on 2 nodes of 8 x H100-80GB, one pipeline of 16 GPUs, beside published measurements (OptPipe,
arXiv 2510.05186, as an article about it reports them). Nothing was run on a GPU. *GB*: the most
that any GPU holds, parameters, gradients, optimizer states and activations (1 GB is 10^9 bytes);
2 GiB per GPU are kept free, which leaves 82.8 GB. After *OOM* stands what would be needed.
*Bubble*: the idle share, 1 - compute time of all GPUs / (GPUs x iteration); the optimizer step
counts as idle. *Beyond PipeOffload*: how many more samples per second. *Gap*: by what share of
Loadmaster's iteration the shortest possible may be shorter, after the proven bound; *proven* is 0.
*Verified*: every schedule that fits passed the verifier once more.

Published are the micro-batches of an iteration, but not sequence, micro-batch size, hidden sizes or
what a sample is. Samples per second cannot be compared: at 6 FLOP per parameter and token the peak
of these GPUs (16 x 989 TFLOP/s) does for 1587 samples/s of 7.1B with at most 234 tokens each, and
for 843 of 14.2B with 220. Nor do the published bubbles and samples belong to the same compute
times: from 28 % to 12 % idle the same work gets at most 22 % faster, not 41 %. What can be compared
is which schedules fit, and how idle they leave the GPUs.

Our settings: bf16, Adam, gradients in fp32, nothing recomputed; layers / hidden size / heads
30 / 4352 / 34 and 38 / 5520 / 46, vocabulary 51200. They are our own, and so is the cut: of 38
layers some of 16 GPUs have 3 and others fewer, which wait; 30 layers leave one chunk per GPU as the
only placement. *Least bubble* in the last table says how much of the idle time no
schedule avoids. In every setting that is more than the 12 % and 19 % that were published, so that
these are not to be had with our sizes.

Of each model first sequence 1024 and micro-batch size 1, then the first setting of the last table
in which the schedule that was published as out of memory is so here, too; attention scores are kept
(no flash attention). AdaOffload is our implementation of OptPipe's heuristic. Loadmaster's search
had {ITERATIONS:,} iterations instead of a time limit, about a minute of one core, so that its plan
is the same on every machine.

Copies to the host take 80 % of the datasheet's rate here (50.4 GB/s). The zero-bubble project's
constant for an H100 is 21 (see *Copies between GPU and host*), so that the rows where 1F1B is out
of memory are optimistic; `cluster.efficiency.pcie` sets another rate."""
SWEEP_NOTE = f"""\
Cells of schedules: GB, samples per second, bubble. *Scores* keeps attention scores, *flash* does
not. Loadmaster's search had {SWEEP_ITERATIONS:,} iterations, some seconds. 1F1B is out of memory
with long sequences or large micro-batches, most of all where scores are kept. There GPUs wait for
copies to the host and back, which the lower bound knows little of: the gap is wide, and more
iterations find shorter schedules."""


def table(environment: Mapping[str, str]) -> tuple[Record, list[Measured]]:
    """The whole table, and every row behind it."""
    sweep = [measured(setting, CLUSTER, SWEEP_ITERATIONS) for setting in sweep_settings(MODELS)]
    main = [
        measured(setting, CLUSTER, ITERATIONS, with_adaoffload=True)
        for model in MODELS
        for setting in main_settings(model, sweep)
    ]
    return record_of(main, sweep, environment), [*main, *sweep]


def sweep_settings(models: Iterable[str]) -> Iterator[Setting]:
    """Each model with scores kept and with flash attention, by sequence and micro-batch size."""
    for model in models:
        for flash in (False, True):
            for sequence in SEQUENCES:
                for size in SIZES:
                    yield Setting(model, MODELS[model][0], size, sequence, flash)


def main_settings(model: str, sweep: Iterable[Measured]) -> list[Setting]:
    """The first setting of a model, and the first in which what was published as out of memory is
    out of memory."""
    own = [row for row in sweep if row.setting.model == model]
    short = [row for row in own if row.fitting(MODELS[model][1]) is None]
    return list(dict.fromkeys(row.setting for row in (*own[:1], *short[:1])))


def record_of(
    main: Sequence[Measured], sweep: Sequence[Measured], environment: Mapping[str, str]
) -> Record:
    """The rows of both models, and those of the sweep, as they are kept."""
    by_model = {model: [row for row in main if row.setting.model == model] for model in PUBLISHED}
    return Record(
        title="Two models on 16 x H100-80GB",
        command="python -m benchmarks.models h100",
        note=NOTE,
        tables=[
            *(_model_table(model, rows) for model, rows in by_model.items()),
            Table("Other settings", SWEEP_COLUMNS, [*map(_sweep_row, sweep)], SWEEP_NOTE),
        ],
        figures=[figure for row in main for figure in _figures(row)],
        environment=environment,
    )


def _model_table(model: str, rows: Iterable[Measured]) -> Table:
    published = [["published", *own, NONE, NONE] for own in PUBLISHED[model]]
    predicted = [
        [
            _in_words(row.setting),
            name,
            *_figures_of(row, name),
            _beyond_pipe_offload(row, name),
            *_proof_of(row, name),
        ]
        for row in rows
        for name in (*CLASSIC, ADAOFFLOAD, OURS)
    ]
    title = f"{model}, {MODELS[model][0]} micro-batches"
    return Table(title, COLUMNS, [*published, *predicted])


def _in_words(setting: Setting) -> str:
    return f"{setting.micro_batch_size} x {setting.sequence} tokens"


def _figures_of(row: Measured, name: str) -> list[str]:
    """GB, samples per second and bubble of a schedule."""
    outcome = row.schedules.get(name)
    if outcome is None:
        return [NONE, NONE, NONE]
    gb = f"{outcome.peak_bytes / GB:.1f}"
    if not outcome.fits:
        return [f"{OOM} ({gb})", NONE, NONE]
    return [gb, f"{row.samples_per_s(outcome):.1f}", percent(outcome.bubble)]


def _beyond_pipe_offload(row: Measured, name: str) -> str:
    """How many more samples per second than PipeOffload, as a share with its sign."""
    own, other = row.fitting(name), row.fitting("PipeOffload")
    if own is None or other is None:
        return NONE
    return f"{other.makespan_ns / own.makespan_ns - 1:+.1%}".replace("%", " %")


def _proof_of(row: Measured, name: str) -> list[str]:
    fitting = row.fitting(name)
    if fitting is None:
        return [NONE, NONE]
    return [gap_cell(row) if name == OURS else NONE, fitting.wrong or "yes"]


def _sweep_row(row: Measured) -> list[str]:
    setting, ours = row.setting, row.fitting(OURS)
    return [
        setting.model,
        str(setting.sequence),
        str(setting.micro_batch_size),
        "flash" if setting.flash_attention else "scores",
        *(_in_one_cell(row, name) for name in (*CLASSIC, OURS)),
        percent(row.gain_over("1F1B")),
        percent(row.gain_over("PipeOffload")),
        percent(None if ours is None else row.bubble_at_bound),
        gap_cell(row),
        verified_cell(row),
    ]


def _in_one_cell(row: Measured, name: str) -> str:
    return ", ".join(figure for figure in _figures_of(row, name) if figure != NONE) or NONE


def _figures(row: Measured) -> Iterator[Figure]:
    """What a later run is compared with; shares may vary by a percentage point."""
    ours, what = row.fitting(OURS), f"{row.setting.model}, {_in_words(row.setting)}"
    if ours is None:
        return
    yield Figure(f"samples per second of {what}", row.samples_per_s(ours), "per s", "more", 0.03)
    yield Figure(f"bubble of {what}", 100 * ours.bubble, "%", "less", 0.0, least=2.0)
    yield Figure(f"gap of {what}", 100 * row.gap, "%", "less", 0.0, least=2.0)
