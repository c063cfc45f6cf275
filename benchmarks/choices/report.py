"""The record of the four tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.choices.delay import Delayed
from benchmarks.choices.factor import Factored
from benchmarks.choices.order import Ordered
from benchmarks.choices.overlap import Keeps
from benchmarks.choices.problems import bubble
from benchmarks.choices.switch import Cost, Switched
from benchmarks.common import milliseconds
from benchmarks.figures import Axis, Chart, Series
from benchmarks.recording import Figure, Record, Table

NS_PER_MS = 1e6
PUBLISHED_MS = 5.0
"""The T of the published figure."""
NOTE = """\
Every plan and every schedule of these tables passes the verifier once more. Plans are found with a
fixed number of search iterations on one thread, so that the figures do not depend on the machine.
The figures called published are OptPipe's (arXiv 2510.05186). Neither the times of its stages nor
what it counts as transfer cost are known to us, and the problems here are others: only direction
and size can be compared."""
DELAY_NOTE = """\
The bubble, which is the share of all devices' time in which they do not compute, by T: how long a
device's first backward may be put off where that lets one more forward run. *Forward* is how long
one takes on the second stage: a forward is let in only where what is missing of it is at most T.
Published: 12 to 18 % less bubble at T = 5 ms.
"""
ALONE_NOTE = """
Here the rule works alone: as many forwards as memory takes, an offload whenever the link is free,
and no other policy tried. Where room for 2 to 5 activations ends the forwards before T counts, it
changes nothing. Where there is room and a forward is short, 5 ms bring 5 to 19 %. On GPT-7.1B, T
from 10 ms on lets in every forward that memory takes; 55 activations instead of 35 are then
offloaded over links that two GPUs share, and the iteration takes twice as long."""
SHIPPED_NOTE = """
Here AdaOffload tries it among its other policies, without it too, and keeps the best of its short
search: on GPT-7.1B and on large-16x64-offload other policies bring what the rule brings. A search
that begins with other policies may end elsewhere, so that a larger T is not always as good.
*Bound*: no schedule has a smaller bubble. The planner's own search goes on from here."""
SWITCH_NOTE = """\
Devices behind one switch share its link to the host. One plan was made for that; the other as if
every device had a link of its own, and runs in its orders where links are shared, with the copies
of a link first come, first served or in the order of their planned starts, whichever ends sooner.
*Two GPUs a switch*: a problem whose devices have links of their own, changed. *Transfer cost* is
the time from when each copy is asked for to its end, all copies together: what they take *alone*,
and what they *wait* for the link. *Exposed* is how much sooner the same orders would end if copies
took no time. Published: 30 to 40 % less transfer cost. The planner minimizes the makespan; copies
that wait without delaying anything cost it nothing. Where links are not short, there is nothing to
save, and a search for one problem may end a little better than one for the other; where they are,
the plan for shared links offloads less or later."""
ORDER_NOTE = """\
Random problems of {stages} stages and {micro_batches} micro-batches, each solved to proven
optimality twice: with F, B and W of every stage in the order in which the micro-batches are given,
and in any order. *Lost* is by how much longer the first takes, in the mean and at most. *One order*
is the best that was found in an order of the micro-batches that all stages keep: a trainer may sort
its micro-batches, as long as every stage does the same. Where that loses nothing, what is lost in
the given order is lost to the sequence of the micro-batches, not to every stage keeping it.
Published: keeping the order loses less than 2 %. Where micro-batches are equal and nothing is
offloaded, nothing can be lost."""
FACTOR_NOTE = """\
Each problem planned as if its copies took only a share of their time (*factor*), and executed by a
simulation of its own where they take all of it. Ranks that run an *export* keep the plan's waits
and the order of the copies on a link that GPUs share, one after the other. Where copies *overlap*,
ranks keep the waits only: each does its own copies one after the other in each direction, those of
several GPUs on one link share what it carries, which is once, 1.2 times or 1.43 times (1 / 0.7)
what a copy alone gets. *Memory* is the most that any device uses of its limit in any of these, as
exported, overlapping, and by ranks that keep nothing but their own order. A plan's waits are proven
for ranks that keep the order of shared links too, whatever the durations: without that order, use
may be above 100 % with any factor. On GPT-14.2B the plan made with 0.9 runs sooner, as exported,
than the one made with the full time: so short a search misses that one. OptPipe takes factors of
0.7 to 1.0; nothing is published on what they do."""


@dataclass(frozen=True)
class Results:
    """What the four parts found."""

    delays: Sequence[Delayed] = ()
    switches: Sequence[Switched] = ()
    orders: Sequence[Ordered] = ()
    order_size: tuple[int, int] = (0, 0)
    factors: Sequence[Factored] = ()
    images: Sequence[str] = field(default=())

    @property
    def wrong(self) -> list[str]:
        """What verifiers have against any plan."""
        named = [
            *((own.name, own.wrong) for own in self.delays),
            *((own.name, own.wrong) for own in self.switches),
            *((f"{own.kind.name} {own.seed}", own.wrong) for own in self.orders),
            *((own.name, own.wrong) for own in self.factors),
        ]
        return [f"{name}: {text}" for name, wrong in named for text in wrong]


def record_of(results: Results, environment: Mapping[str, str]) -> Record:
    """The results as they are kept."""
    return Record(
        title="Choices in planning offloads",
        command="python -m benchmarks.choices",
        note=NOTE,
        tables=[
            _delay_table(results.delays, "alone", DELAY_NOTE + ALONE_NOTE),
            _delay_table(results.delays, "in AdaOffload", DELAY_NOTE + SHIPPED_NOTE),
            _switch_table(results.switches),
            _order_table(results),
            _factor_table(results.factors),
        ],
        figures=list(_figures(results)),
        environment=environment,
        images=results.images,
    )


def delay_chart(delays: Sequence[Delayed], way: str) -> Chart:
    """The bubble against T, a line per problem."""
    return Chart(
        title=f"Delaying first backwards {way}",
        description=f"Bubble against T, 0 to 20 ms, {way}: a line per problem. The table below has "
        "the same figures.",
        x=Axis("T: first backwards are delayed by at most (ms)"),
        y=Axis("bubble (%)", is_logarithmic=True),
        series=[
            Series(
                own.name,
                [
                    (delay_ms, 100 * bubble(own.problem, value))
                    for delay_ms, value in zip(own.delays_ms, _values(own, way), strict=True)
                ],
            )
            for own in delays
        ],
    )


def _values(own: Delayed, way: str) -> Sequence[int]:
    return own.alone_ns if way == "alone" else own.adaoffload_ns


def _delay_table(delays: Sequence[Delayed], way: str, note: str) -> Table:
    delays_ms = delays[0].delays_ms if delays else ()
    return Table(
        title=f"Delaying the first backward {way}",
        columns=[
            "problem",
            "forward (ms)",
            *(f"T = {delay_ms:g} ms" for delay_ms in delays_ms),
            "5 ms against 0",
            "best against 0",
            "bound",
        ],
        rows=[_delay_cells(own, _values(own, way)) for own in delays],
        note=note,
    )


def _delay_cells(own: Delayed, values: Sequence[int]) -> list[str]:
    bubbles = [bubble(own.problem, value) for value in values]
    at = dict(zip(own.delays_ms, bubbles, strict=True))
    return [
        own.name,
        f"{own.problem.stages[1].forward_ns[0] / NS_PER_MS:.1f}",
        *(f"{value:.2%}" for value in bubbles),
        f"{at[PUBLISHED_MS] / at[0.0] - 1:+.1%}",
        f"{min(bubbles) / at[0.0] - 1:+.1%}",
        f"{bubble(own.problem, own.bound_ns):.2%}",
    ]


def _switch_table(switches: Sequence[Switched]) -> Table:
    columns = (
        "problem",
        "plan made for",
        "offloads",
        "planned (ms)",
        "makespan (ms)",
        "alone (ms)",
    )
    saved = ("transfer cost saved", "makespan saved")
    return Table(
        title="Knowing which devices share a link",
        columns=[*columns, "waiting (ms)", "transfer cost (ms)", "exposed (ms)", *saved],
        rows=[row for own in switches for row in _switch_rows(own)],
        note=SWITCH_NOTE,
    )


def _switch_rows(own: Switched) -> Iterator[list[str]]:
    aware, ignoring = own.aware, own.ignoring
    yield [own.name, "own links", *_cost_cells(ignoring), "", ""]
    yield [
        own.name,
        "shared links",
        *_cost_cells(aware),
        f"{1 - aware.transfer_ns / ignoring.transfer_ns:.1%}",
        f"{1 - aware.makespan_ns / ignoring.makespan_ns:.1%}",
    ]


def _cost_cells(own: Cost) -> list[str]:
    times_ns = (
        own.planned_ns,
        own.makespan_ns,
        own.copying_ns,
        own.queueing_ns,
        own.transfer_ns,
        own.exposed_ns,
    )
    return [str(own.offloads), *(f"{time_ns / NS_PER_MS:,.1f}" for time_ns in times_ns)]


def _order_table(results: Results) -> Table:
    kinds = list(dict.fromkeys(own.kind for own in results.orders))
    stages, micro_batches = results.order_size
    return Table(
        title="Keeping the order of micro-batches",
        columns=(
            "problems",
            "number",
            "both proven",
            "lost in the given order",
            "at most",
            "lost in one order",
            "at most ",
        ),
        rows=[
            _order_cells(kind.name, [own for own in results.orders if own.kind == kind])
            for kind in kinds
        ],
        note=ORDER_NOTE.format(stages=stages, micro_batches=micro_batches),
    )


def _order_cells(name: str, own: Sequence[Ordered]) -> list[str]:
    fixed = losses([(problem.fixed_ns, problem.free_ns) for problem in own])
    one = losses([(problem.one_order_ns, problem.free_ns) for problem in own])
    return [name, str(len(own)), str(len(fixed)), *_mean_and_most(fixed), *_mean_and_most(one)]


def losses(pairs: Sequence[tuple[int | None, int | None]]) -> list[float]:
    """By which share the first is longer than the second, where both are known."""
    return [value / free - 1 for value, free in pairs if value is not None and free is not None]


def _mean_and_most(values: Sequence[float]) -> list[str]:
    if not values:
        return ["–", "–"]
    return [f"{sum(values) / len(values):.2%}", f"{max(values):.2%}"]


def _factor_table(factors: Sequence[Factored]) -> Table:
    capacities = factors[0].capacities if factors else ()
    return Table(
        title="Counting a share of a copy's time",
        columns=(
            "problem",
            "factor",
            "offloads",
            "planned (ms)",
            "exported (ms)",
            *(f"overlapping, {capacity:g} x (ms)" for capacity in capacities),
            "memory, exported",
            "overlapping",
            "order alone",
        ),
        rows=[
            [
                own.name,
                f"{own.factor:g}",
                str(own.offloads),
                milliseconds(own.planned_ns),
                *map(milliseconds, (own.exported_ns, *own.overlapped_ns)),
                *(f"{own.most_memory[keeps]:.1%}" for keeps in reversed(Keeps)),
            ]
            for own in factors
        ],
        note=FACTOR_NOTE,
    )


def _figures(results: Results) -> Iterator[Figure]:
    for own in results.delays:
        at = own.delays_ms.index(PUBLISHED_MS)
        makespan_ms = own.adaoffload_ns[at] / NS_PER_MS
        yield Figure(f"AdaOffload, {own.name}", makespan_ms, "ms", "less", noise=0.005)
    for pair in results.switches:
        makespan_ms = pair.aware.makespan_ns / NS_PER_MS
        yield Figure(f"shared links, {pair.name}", makespan_ms, "ms", "less", noise=0.005)
    proven = sum(problem.is_proven for problem in results.orders)
    yield Figure("orders proven", proven, "problems", "more", noise=0.0, least=1.0)
    for plan in results.factors:
        if plan.factor == 1.0:
            makespan_ms = plan.planned_ns / NS_PER_MS
            yield Figure(f"full time, {plan.name}", makespan_ms, "ms", "less", noise=0.005)
