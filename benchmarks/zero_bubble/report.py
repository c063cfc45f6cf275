"""Tables and pictures of the profiles and of makespan against memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from statistics import mean

from benchmarks.common import milliseconds
from benchmarks.figures import Axis, Chart, Series
from benchmarks.recording import Figure, Record, Table
from benchmarks.zero_bubble.curve import CurvePoint, Dot, Way, best_classic
from benchmarks.zero_bubble.profiles import Outcome, Setting
from planner.pipeline.problem import Objective

NOTHING = "–"
HIGHEST_PEAK = 2.0
"""Schedules that take more memory are left to the table."""
NOTE = (
    "Zero Bubble (arXiv 2401.10241) published twelve profiles (measured times of F, B, W and of a "
    "hop, alike for all stages and micro-batches) with the bubble rates that its scheduler "
    "computes for them. We solve the same profiles under the same memory, for both objectives: the "
    "*makespan* of an iteration, which counts where devices wait for each other at its end, and "
    "the *span*, the longest time from a device's first operation to its last, which counts where "
    "the optimizer steps without waiting (post-validation). Published rates are shares of the "
    "span; ours were not tuned to meet them. Each solve had {limit:g} s per device, on one thread. "
    "Each plan was verified once more and compared with its bound: {wrong} of {plans} were wrong."
)
SUMMARY_NOTE = (
    "Means over the profiles, in percent. Less, equal, more: profiles in which our bubble rate is "
    "below, equal to or above the published one, to its four digits. The bound is the bubble that "
    "no schedule can do without: where it equals ours, the plan is proven optimal. At most above "
    "published: ours less the published rate where that is largest, in points of percent: there "
    "the search missed a plan that is known to exist. For the makespan of ZB-2p and ZB-V, "
    "*published* is what the orders of the authors' public program reach, timed by its own rules; "
    "the authors publish no such rates. Published rates are rounded to four digits, so that means "
    "may differ in the last one where all rates are equal."
)
RATES_NOTE = (
    "Bubble rates in percent: (X − m (F + B + W)) / X, where X is the {objective}. 1p is 1F1B's "
    "peak on its first device (p activations), 2p twice as much; ZB-V has two chunks per device "
    "within 1p. “=” marks a plan that is proven optimal. {source}"
)
SPAN_SOURCE = "All published rates are the authors'."
MAKESPAN_SOURCE = (
    "The authors publish no rates of the makespan. For ZB-2p and ZB-V the column has the share of "
    "the makespan in which the orders of the authors' public program leave devices idle, timed by "
    "that program's rules; the rates of 1F1B and ZB-1p are the same for both."
)
CURVE_NOTE = (
    "The 6.2B profile (F 29.718, B 29.444, W 19.927, hop 0.527 ms) on 8 devices with 32 "
    "micro-batches, at limits from 0.25 to 2 times what 1F1B holds (8 activations). Where plans "
    "may offload, offload and reload of an activation together take as long as F + B + W (k = 1), "
    "each device has its own full-duplex link, and the host's memory has no limit. In the V shape "
    "each stage is cut into two chunks, which twice as many hops connect. Each cell: our makespan "
    "in ms / the proven bound, “=” where both meet. The last columns have the fastest classic "
    "schedule that fits, in any placement: some need two chunks per device (see the table below), "
    "which the first two columns do not have. PipeOffload is made anew for each limit, so that a "
    "larger one may give a slightly longer schedule. Each solve had {limit:g} s on one thread."
)
DOTS_NOTE = (
    "The same work in the schedule's own placement, without a limit. Peak: the most that a device "
    "holds, in units of what 1F1B holds. PipeOffload's schedules that depend on the limit are in "
    "the table above."
)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was solved, with the limits of a solve: of a profile's per stage."""

    span: Sequence[Outcome]
    makespan: Sequence[Outcome]
    limit_per_stage_s: float
    points: Sequence[CurvePoint]
    dots: Sequence[Dot]
    curve_limit_s: float

    @property
    def wrong(self) -> list[str]:
        """What the verifier refused, and plans below the bound."""
        answers = [o.answer for o in (*self.span, *self.makespan)] + [p.answer for p in self.points]
        sentences = [answer.wrong for answer in answers if answer.wrong is not None]
        below = [a for a in answers if a.objective_ns is not None and a.objective_ns < a.bound_ns]
        return [*sentences, *(f"{a.objective_ns} ns is below the bound" for a in below)]


def record_of(
    results: Results, command: str, images: Sequence[str], environment: Mapping[str, str]
) -> Record:
    """The record of the benchmark."""
    plans = len(results.span) + len(results.makespan) + len(results.points)
    note = NOTE.format(limit=results.limit_per_stage_s, wrong=len(results.wrong), plans=plans)
    return Record(
        title="Zero Bubble's profiles, and makespan against memory",
        command=command,
        note=note,
        tables=(
            summary_table(results),
            rates_table("Bubble rates of the span", results.span, SPAN_SOURCE),
            rates_table("Bubble rates of the makespan", results.makespan, MAKESPAN_SOURCE),
            curve_table(results),
            dots_table(results.dots),
        ),
        figures=tuple(figures(results)),
        environment=environment,
        images=images,
    )


def summary_table(results: Results) -> Table:
    """One row per objective and setting."""
    columns = ["objective", "setting", "published", "ours", "bound", "less / equal / more"]
    columns += ["at most above published", "proven optimal", "longest solve, s"]
    rows = [
        [
            objective_name(setting),
            setting.name,
            percent(mean(o.published for o in own)),
            percent(mean(o.filled_rate for o in own)),
            percent(mean(o.bound for o in own)),
            " / ".join(str(sum(o.verdict == v for o in own)) for v in ("less", "equal", "more")),
            f"{max(100 * (o.filled_rate - o.published) for o in own):+.2f}",
            str(sum(o.answer.is_proven for o in own)),
            f"{max(o.answer.seconds for o in own):.1f}",
        ]
        for setting, own in by_setting((*results.makespan, *results.span))
    ]
    return Table("", columns, rows, SUMMARY_NOTE)


def rates_table(title: str, outcomes: Sequence[Outcome], source: str) -> Table:
    """One row per profile: published rate, ours and the bound of each setting."""
    columns = ["model", "p", "m", "1F1B"]
    for setting, _ in by_setting(outcomes):
        columns += [setting.name, "ours", "bound"]
    rows = []
    for profile, own in groupby(outcomes, attrgetter("profile")):
        row = [profile.model, str(profile.stages), str(profile.micro_batches)]
        row.append(percent(profile.published["1F1B"]))
        for o in own:
            proven = " =" if o.answer.is_proven else ""
            row += [percent(o.published), percent(o.rate) + proven, percent(o.bound)]
        rows.append(row)
    objective = objective_name(outcomes[0].setting)
    return Table(title, columns, rows, RATES_NOTE.format(objective=objective, source=source))


def curve_table(results: Results) -> Table:
    """One row per limit."""
    ways = list(dict.fromkeys(point.way for point in results.points))
    rows = []
    for limit in dict.fromkeys(point.limit for point in results.points):
        at = {point.way: point for point in results.points if point.limit == limit}
        classic = [
            best_classic(results.dots, results.points, limit, offloads=offloads)
            for offloads in (False, True)
        ]
        rows.append([f"{limit:g}", *(_cell(at[way]) for way in ways), *map(_named, classic)])
    columns = ["limit", *(way.name for way in ways), "classic", "classic, offloading"]
    note = CURVE_NOTE.format(limit=results.curve_limit_s)
    return Table("Makespan against memory", columns, rows, note)


def dots_table(dots: Sequence[Dot]) -> Table:
    """The classic schedules with the memory that each takes."""
    rows = [
        [d.name, d.placement, milliseconds(d.makespan_ns), f"{d.peak:.3f}", str(d.offloads)]
        for d in sorted(dots, key=lambda dot: dot.peak)
    ]
    columns = ["schedule", "placement", "makespan, ms", "peak", "offloads"]
    return Table("Classic schedules of that profile", columns, rows, DOTS_NOTE)


def chart(results: Results, *, is_v_shape: bool) -> Chart:
    """Our makespans and bounds in a placement, and the classic schedules that need one like it."""
    series = []
    for way in (Way(is_v_shape, False), Way(is_v_shape, True)):
        own = [p for p in results.points if p.way == way and p.answer.objective_ns is not None]
        label = "offloading" if way.offloads else "no offloading"
        plans = [(p.limit, (p.answer.objective_ns or 0) / 1e6) for p in own]
        bounds = [(p.limit, p.answer.bound_ns / 1e6) for p in own]
        series.append(Series(f"ours, {label}", plans))
        series.append(Series(f"bound, {label}", bounds, is_dashed=True))
    dots = [
        dot
        for dot in results.dots
        if (dot.placement != "one chunk") == is_v_shape and dot.peak <= HIGHEST_PEAK
    ]
    points = [(dot.peak, dot.makespan_ns / 1e6) for dot in dots]
    names = [dot.name for dot in dots]
    pipe_offload = [
        (point.limit, point.pipe_offload_ns / 1e6)
        for point in results.points
        if point.way.is_v_shape == is_v_shape and point.pipe_offload_ns is not None
    ]
    placement = "two chunks per device" if is_v_shape else "one chunk per device"
    return Chart(
        title=f"Makespan against memory: 6.2B, 8 devices, {placement}",
        description="Lines fall from left to right: with more memory the makespan is shorter, "
        "down to the bound; with offloading it is short at a quarter of 1F1B's memory already. "
        "The table has the numbers.",
        x=Axis("activation memory, in units of what 1F1B holds", reaches=(0.0, 2.0)),
        y=Axis("makespan, ms", reaches=(2500.0,), is_logarithmic=True),
        series=[
            *series,
            Series("PipeOffload at each limit", pipe_offload, "dots"),
            Series("other classic schedules", points, "dots", names=names),
        ],
    )


def figures(results: Results) -> Iterator[Figure]:
    """Mean bubble rates, and two points of the curve."""
    for setting, own in by_setting((*results.makespan, *results.span)):
        name = f"mean bubble of the {objective_name(setting)}, {setting.name}"
        rate = 100 * mean(o.filled_rate for o in own)
        # The solves that take all their time come out a little different each time.
        yield Figure(name, rate, "%", "less", noise=0.03, least=0.1)
    for point in results.points:
        if point.limit in (0.25, 0.5) and point.answer.objective_ns is not None:
            name = f"makespan at {point.limit:g} of 1F1B's memory, {point.way.name}"
            # Three runs differed by 0.4 % with one chunk, and by 4.6 % in the V shape.
            noise = 0.06 if point.way.is_v_shape else 0.03
            yield Figure(name, point.answer.objective_ns / 1e6, "ms", "less", noise=noise)


def by_setting(outcomes: Sequence[Outcome]) -> Iterator[tuple[Setting, list[Outcome]]]:
    """The outcomes of each setting, settings in the order in which they come first."""
    for setting in dict.fromkeys(o.setting for o in outcomes):
        yield setting, [o for o in outcomes if o.setting == setting]


def objective_name(setting: Setting) -> str:
    """In a word."""
    return "makespan" if setting.objective is Objective.MAKESPAN else "span"


def percent(rate: float | None) -> str:
    """A share as percent with the published digits."""
    return NOTHING if rate is None else f"{100 * rate:.2f}"


def _cell(point: CurvePoint) -> str:
    answer = point.answer
    if answer.objective_ns is None:
        return NOTHING
    mark = "=" if answer.is_proven else f"/ {answer.bound_ns / 1e6:.1f}"
    return f"{answer.objective_ns / 1e6:.1f} {mark}"


def _named(classic: tuple[int, str] | None) -> str:
    return NOTHING if classic is None else f"{classic[0] / 1e6:.1f} {classic[1]}"
