"""Tables and a picture of what is gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, quantiles

from benchmarks.figures import Axis, Chart, distribution
from benchmarks.heterogeneity.clusters import KINDS
from benchmarks.heterogeneity.comparing import Comparison
from benchmarks.recording import Figure, Record, Table
from benchmarks.solving import Solved

ALL = "all"
NOTE = (
    "{clusters} random clusters of each kind, from fixed seeds. The *gain* is the share of the "
    "makespan of the fastest classic schedule that fits which our plan saves: 10 % is 90 ms "
    "instead of 100. Each plan was verified once more and compared with its bound: {wrong} of "
    "{plans} were wrong. The draws, all uniform: 4 or 8 devices, one stage on each, 2 to 4 "
    "micro-batches per device. F takes 10 to 40 ms, B 0.95 to 1.05 times and W 0.5 to 0.9 times "
    "as long, a hop 0.02 to 0.05 times; an activation has 200 to 1500 MiB, of which 0.35 to 0.6 "
    "stay from B to W. (Zero Bubble's measured profiles, arXiv 2401.10241, have 0.97 to 1.0 for "
    "B, 0.5 to 0.74 for W and 0.018 to 0.045 for a hop.) Every device has 0.5 to 1.5 times the "
    "most that 1F1B holds on any device.\n\n"
    "- slow last stage: F, B and W of the last stage, with the LM head, take 1.2 to 1.8 times as "
    "long, and its activations 1.0 to 1.3 times the bytes\n"
    "- straggler: F, B and W of one device, any, take 1.1 to 1.6 times as long\n"
    "- uneven layers: each stage has k − 1, k or k + 1 layers, k from 3 to 6 and the same for the "
    "cluster; times and bytes follow\n"
    "- shared switch: all stages are alike, and devices have 0.3 to 0.7 of what 1F1B holds, so "
    "that activations have to be offloaded; 2 or 4 devices share a link to the host, half or full "
    "duplex, and O and R of an activation together take 0.3 to 1.0 times F + B + W of it"
)
OWN_NOTE = (
    "One stage per device for both sides. Classic schedules: GPipe, 1F1B, ZB-H1, ZB-H2 and, where "
    "offloading is possible, the best of PipeOffload's family; ZB-H1 and ZB-H2 place W by the "
    "cluster's own times. {limit:g} s per solve. Quantiles are those of the gain in percent, over "
    "the clusters in which a classic schedule fits; ours fits in all. The median over 1F1B is that "
    "of the clusters in which 1F1B fits. The gap is that between makespan and bound, in percent of "
    "the makespan."
)
FREE_NOTE = (
    "Both sides may also cut each stage into two chunks, interleaved or in a V shape, where each "
    "device keeps its work and twice as many hops are made. Classic schedules: those above and "
    "interleaved 1F1B, ZB-V, V-Half, V-Min, GIS, GIS-H, PO-H and PO-F. {limit:g} s per solve, for "
    "all three placements together. A gain of 0 is a classic schedule that nothing better was "
    "found for."
)
COLUMNS = (
    "clusters",
    "a classic fits",
    "min",
    "10 %",
    "median",
    "90 %",
    "max",
    "median over 1F1B",
    "proven optimal",
    "mean gap",
    "fastest classic, how often (three most frequent)",
)


@dataclass(frozen=True, slots=True)
class Results:
    """The clusters in their own placement and in any, with the limits of a solve (s)."""

    own: Sequence[Comparison]
    own_limit_s: float
    free: Sequence[Comparison]
    free_limit_s: float

    @property
    def wrong(self) -> list[str]:
        """Plans that the verifier refused, or that are below their bound or missing."""
        return [
            f"{c.kind}: {sentence}"
            for c in (*self.own, *self.free)
            if (sentence := _complaint(c.answer)) is not None
        ]


def _complaint(answer: Solved) -> str | None:
    if answer.wrong is not None or answer.objective_ns is None:
        return answer.wrong or "no plan"
    if answer.objective_ns < answer.bound_ns:
        return f"{answer.objective_ns} ns is below the bound"
    return None


def record_of(
    results: Results, command: str, images: Sequence[str], environment: Mapping[str, str]
) -> Record:
    """The record of the benchmark."""
    plans = len(results.own) + len(results.free)
    note = NOTE.format(
        clusters=len(results.own) // len(KINDS), wrong=len(results.wrong), plans=plans
    )
    return Record(
        title="Stages and devices that are not alike",
        command=command,
        note=note,
        tables=(
            gains_table(
                "One stage per device", results.own, OWN_NOTE.format(limit=results.own_limit_s)
            ),
            gains_table(
                "Any placement", results.free, FREE_NOTE.format(limit=results.free_limit_s)
            ),
        ),
        figures=tuple(figures(results)),
        environment=environment,
        images=images,
    )


def gains_table(title: str, comparisons: Sequence[Comparison], note: str) -> Table:
    """A row per kind, and one for all."""
    groups = [(kind, [c for c in comparisons if c.kind == kind]) for kind in KINDS]
    groups.append((ALL, list(comparisons)))
    return Table(title, ["kind", *COLUMNS], [[kind, *_row(own)] for kind, own in groups], note)


def _row(own: Sequence[Comparison]) -> list[str]:
    gains = gains_of(own)
    names = Counter(c.classic[1] for c in own if c.classic is not None)
    often = ", ".join(f"{name} {count}" for name, count in names.most_common(3))
    return [
        str(len(own)),
        str(len(gains)),
        *(f"{value:.1f}" for value in spread(gains)),
        _median([c.gain_over_1f1b for c in own if c.gain_over_1f1b is not None]),
        f"{sum(c.answer.is_proven for c in own)}",
        f"{mean(c.gap for c in own):.2f}",
        often,
    ]


def gains_of(comparisons: Sequence[Comparison]) -> list[float]:
    """The gains, of clusters that have one."""
    return [c.gain for c in comparisons if c.gain is not None]


def spread(values: Sequence[float]) -> tuple[float, float, float, float, float]:
    """Least, 10 %, median, 90 % and largest, interpolated between values. Needs two or more."""
    tenths = quantiles(values, n=10, method="inclusive")
    return min(values), tenths[0], median(values), tenths[-1], max(values)


def _median(values: Sequence[float]) -> str:
    return f"{median(values):.1f}" if values else "–"


def chart(results: Results) -> Chart:
    """How the gains are distributed, one line per kind."""
    return Chart(
        title="Gain over the fastest classic schedule that fits, one stage per device",
        description="For each kind of cluster, the share of clusters whose gain is at most what "
        "the horizontal axis says. Lines further to the right are larger gains. The table has the "
        "quantiles.",
        x=Axis("gain, % of the classic makespan", reaches=(0.0,)),
        y=Axis("clusters with at most this gain, %"),
        series=[
            distribution(kind, gains_of([c for c in results.own if c.kind == kind]))
            for kind in KINDS
        ],
    )


def figures(results: Results) -> Iterator[Figure]:
    """Median gain of each kind, and how many plans are proven."""
    for name, comparisons in (("", results.own), (", any placement", results.free)):
        for kind in KINDS:
            gain = median(gains_of([c for c in comparisons if c.kind == kind]))
            yield Figure(f"median gain, {kind}{name}", gain, "%", "more", noise=0.03, least=0.3)
        proven = sum(c.answer.is_proven for c in comparisons)
        share = 100 * proven / len(comparisons)
        yield Figure(f"proven optimal{name}", share, "%", "more", noise=0.03, least=3.0)
