"""The record of the ablation, from its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.ablation.courses import Course, best_bound_ns, gap
from benchmarks.ablation.proof_rates import ENGINES, Rate
from benchmarks.ablation.sizes import BUILD_S, Size
from benchmarks.ablation.variants import AUTO, HEURISTICS, SEARCH, THREADS, VARIANTS
from benchmarks.common import milliseconds
from benchmarks.figures import Axis, Chart, Series
from benchmarks.recording import Figure, Record, Table

MOMENTS_S = (1.0, 10.0)
LEAST_GAIN = 1e-4
"""A makespan that is shorter by a smaller share than this adds nothing."""
NOTE = f"""\
The solver of pipeline schedules with parts left out. *Heuristics* are lower bounds, classic
schedules and AdaOffload; every other variant begins with them. *+ local search* goes on with
starts within memory and annealing until the time is up. *+ CBC*, *+ HiGHS* (the MILP) and *+
CP-SAT* are what a request gets that names this engine. The *{AUTO}*, which requests get that name
none, has local search, the MILP's linear relaxation and CP-SAT one after the other. Everything on
{THREADS} thread; the time limit holds from the solver's start to its answer, building models
included. Every schedule was verified once more, and every bound compared with every schedule of
the same problem: one above any of them would end the benchmark with an error."""
GAPS_NOTE = """\
One run per problem and variant. The gap is (makespan − bound) / makespan, to the best bound that
any variant proves of the problem, after 1 s, 10 s and at the end; a run that has ended keeps its
value; – is no schedule yet, or no proof. *Own gap* is to the bound that the variant itself knows: 0
is a proof. *CPU* says how much of a core a run got on this machine, engines included."""
ADDS_NOTE = f"""\
What the table above says of each variant. *Shorter* and *proof*: on how many problems it ends
with a makespan that is shorter than the heuristics' by more than {100 * LEAST_GAIN:g} %, or proves
the optimum where they do not. *Shorter than the search* compares with local search alone in the
same way, and *proof first* counts the problems on which no other variant proves sooner."""
SIZES_NOTE = f"""\
Columns / 0/1 decisions among them / rows. *As stated*: the order of all pairs that data
dependencies and the order of the micro-batches leave open. *Memory*: without those that memory
implies. *Makespan*: also without those that would make the schedule longer than the best one
known, and with the best bound. – is a model that takes more than {BUILD_S:g} s to build.
*Solved*: the largest model of the whole problem that the engine was given, if there was anything
left for it to do; where it was given none, the largest window or neighbourhood (*in parts*).
CP-SAT has variables and constraints, and decides less the better the makespan that it knows."""
RATES_NOTE = """\
{problems} random problems per size, {limit:g} s each: one stage per device, F, B and W of 4 to 12
ms drawn for each stage, hops of 1 ms, memory for 50 to 100 % of what 1F1B holds, every second
problem with offloads. How many of them are proven optimal. What the heuristics prove counts for
all. *Gap*: the mean gap of the whole portfolio on those that it leaves open, to the best bound of
any variant. *Of a core*: how much of one the runs got on this machine, which had others to do."""


def record_of(
    runs: Sequence[Sequence[Course]],
    sizes: Mapping[str, Sequence[Size | None]],
    rates: Sequence[Rate],
    rate_limit_s: float,
    environment: Mapping[str, str],
    images: Sequence[str] = (),
) -> Record:
    """`runs` of each problem, all variants; `sizes` of each problem's MILP by its name."""
    return Record(
        title="What each part of the pipeline solver adds",
        command="python -m benchmarks.ablation",
        note=NOTE,
        tables=[
            gaps_table(runs),
            adds_table(runs),
            sizes_table(runs, sizes),
            rates_table(rates, rate_limit_s),
        ],
        figures=[*_figures(runs, rates)],
        environment=environment,
        images=images,
    )


def gaps_table(runs: Sequence[Sequence[Course]]) -> Table:
    """The gap of each run over time."""
    columns = (
        "problem",
        "variant",
        *(f"gap after {moment:g} s" for moment in MOMENTS_S),
        "at the end",
        "makespan ms",
        "own gap",
        "proven after s",
        "limit s",
        "wall s",
        "CPU s",
        "verified",
    )
    rows = [gaps_row(run, best_bound_ns(own)) for own in runs for run in own]
    return Table("Gap over time", columns, rows, GAPS_NOTE)


def gaps_row(run: Course, bound_ns: int) -> list[str]:
    """One run, against the best bound of its problem."""
    moments = (*MOMENTS_S, run.limit_s)
    return [
        run.problem,
        run.variant,
        *(_percent(gap(run.value_at(moment), bound_ns)) for moment in moments),
        milliseconds(run.best_ns),
        _percent(gap(run.best_ns, run.bound_ns)),
        "–" if run.proven_s is None else f"{run.proven_s:.1f}",
        f"{run.limit_s:g}",
        f"{run.seconds:.1f}",
        f"{run.cpu_s:.1f}",
        "yes" if run.wrong is None else f"NO: {run.wrong}",
    ]


def adds_table(runs: Sequence[Sequence[Course]]) -> Table:
    """What each variant adds to the heuristics, and where it adds nothing."""
    columns = (
        "variant",
        "shorter",
        "by, on average",
        "by, at most",
        "proof",
        "adds nothing on",
        "shorter than the search",
        "proof first",
    )
    rows = [adds_row(runs, variant) for variant in VARIANTS if variant != HEURISTICS]
    return Table("What each adds to the heuristics", columns, rows, ADDS_NOTE)


def adds_row(runs: Sequence[Sequence[Course]], variant: str) -> list[str]:
    """One variant over all problems."""
    gains = [_gain(own, variant, HEURISTICS) for own in runs]
    shorter = [gain for gain in gains if gain > LEAST_GAIN]
    proves = [
        _run(own, variant).proven_s is not None and _run(own, HEURISTICS).proven_s is None
        for own in runs
    ]
    nothing = [
        own[0].problem
        for own, gain, proof in zip(runs, gains, proves, strict=True)
        if gain <= LEAST_GAIN and not proof
    ]
    than_search = sum(_gain(own, variant, SEARCH) > LEAST_GAIN for own in runs)
    first = sum(
        proof and _run(own, variant).proven_s == min(r.proven_s for r in own if r.proven_s)
        for own, proof in zip(runs, proves, strict=True)
    )
    return [
        variant,
        f"{len(shorter)} of {len(runs)}",
        _percent(fmean(shorter) if shorter else None),
        _percent(max(shorter, default=None)),
        f"{sum(proves)} of {len(runs)}",
        ", ".join(nothing) or "–",
        "–" if variant == SEARCH else f"{than_search} of {len(runs)}",
        f"{first} of {len(runs)}",
    ]


def _gain(runs: Sequence[Course], variant: str, other: str) -> float:
    """By what share a variant ends with a shorter makespan than another one; 0 if one has none."""
    own, base = _run(runs, variant).best_ns, _run(runs, other).best_ns
    return 0.0 if own is None or base is None else 1 - own / base


def sizes_table(
    runs: Sequence[Sequence[Course]], sizes: Mapping[str, Sequence[Size | None]]
) -> Table:
    """The models of each problem."""
    columns = (
        "problem",
        "MILP as stated",
        "memory",
        "makespan",
        "0/1 decisions left",
        "solved by CBC",
        "by HiGHS",
        "by CP-SAT",
    )
    rows = [
        [
            own[0].problem,
            *map(_size, sizes[own[0].problem]),
            _left(sizes[own[0].problem]),
            *(_solved(_run(own, variant)) for variant in ("+ CBC", "+ HiGHS", "+ CP-SAT")),
        ]
        for own in runs
    ]
    return Table("Sizes of the models", columns, rows, SIZES_NOTE)


def rates_table(rates: Sequence[Rate], limit_s: float) -> Table:
    """Problems proven optimal by size."""
    columns = ("stages x micro-batches", HEURISTICS, *ENGINES, "gap", "of a core")
    rows = [
        [
            f"{rate.stages} x {rate.micro_batches}",
            *(f"{rate.proven[variant]} of {rate.problems}" for variant in (HEURISTICS, *ENGINES)),
            _percent(_open_gap(rate)),
            f"{100 * _core_share(rate):.0f} %",
        ]
        for rate in rates
    ]
    most = max((rate.problems for rate in rates), default=0)
    return Table("Proofs by size", columns, rows, RATES_NOTE.format(problems=most, limit=limit_s))


def chart(runs: Sequence[Sequence[Course]]) -> Chart:
    """The mean gap over all problems as time passes, one line a variant."""
    longest = max(run.limit_s for own in runs for run in own)
    return Chart(
        title=f"Mean gap of {len(runs)} problems over time",
        description="The sooner and the further a line falls, the better. Each variant begins with "
        "the heuristics; the table has the problems one by one.",
        x=Axis("seconds since the solver's start", is_logarithmic=True),
        y=Axis("mean gap to the best bound, %", is_logarithmic=True),
        series=[Series(name, mean_course(runs, name, longest), "steps") for name in VARIANTS],
    )


def mean_course(
    runs: Sequence[Sequence[Course]], variant: str, until_s: float
) -> list[tuple[float, float]]:
    """Seconds and mean gap in percent, whenever it changes, once every problem has a schedule and
    as long as not all are optimal."""
    of_variant = [(_run(own, variant), best_bound_ns(own)) for own in runs]
    moments = {at for run, _ in of_variant for at, _ in run.values}
    points = []
    for moment in sorted({*moments, until_s}):
        gaps = [gap(run.value_at(moment), bound) for run, bound in of_variant]
        known = [value for value in gaps if value is not None]
        if len(known) == len(gaps) and any(known):
            points.append((moment, 100 * fmean(known)))
    return points


def _figures(runs: Sequence[Sequence[Course]], rates: Sequence[Rate]) -> Iterator[Figure]:
    """What is found within a time limit depends on how busy the machine is."""
    for variant in VARIANTS:
        gaps = [gap(_run(own, variant).best_ns, best_bound_ns(own)) for own in runs]
        mean = fmean(1.0 if own is None else own for own in gaps)
        yield Figure(f"mean gap, {variant}", 100 * mean, "%", "less", noise=0.25, least=0.3)
    for variant in ENGINES:
        proven = sum(rate.proven[variant] for rate in rates)
        yield Figure(f"random problems proven, {variant}", proven, "", "more", 0.1, least=2)


def _run(runs: Sequence[Course], variant: str) -> Course:
    return next(run for run in runs if run.variant == variant)


def _open_gap(rate: Rate) -> float | None:
    gaps = [
        gap(run.best_ns, best_bound_ns(own))
        for own in rate.runs
        for run in own
        if run.variant == AUTO and run.proven_s is None
    ]
    known = [value for value in gaps if value is not None]
    return fmean(known) if known else None


def _core_share(rate: Rate) -> float:
    """Processor time over wall time, of all runs together."""
    runs = [run for own in rate.runs for run in own]
    return sum(run.cpu_s for run in runs) / sum(run.seconds for run in runs)


def _size(size: Size | None) -> str:
    return "–" if size is None else f"{size.columns:,} / {size.binaries:,} / {size.rows:,}"


def _left(sizes: Sequence[Size | None]) -> str:
    first, last = sizes[0], sizes[-1]
    return "–" if first is None or last is None else f"{100 * last.binaries / first.binaries:.0f} %"


def _solved(run: Course) -> str:
    """The largest model that an engine was given."""
    rounds = run.exact["rounds"] if run.exact else ()
    whole = [own for own in rounds if _is_whole(own)]
    if not rounds:
        return "no run"
    largest = max(whole or rounds, key=lambda own: own["variables"])
    counts = [largest[name] for name in ("variables", "binaries", "constraints") if name in largest]
    return f"{' / '.join(f'{count:,}' for count in counts)}{'' if whole else ' in parts'}"


def _is_whole(own: Mapping[str, Any]) -> bool:
    """Whether a round of an engine was about the whole problem: of CP-SAT's it is the kind, and
    the MILP's have a window otherwise."""
    return own.get("kind", "whole") == "whole" and own.get("window") is None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
