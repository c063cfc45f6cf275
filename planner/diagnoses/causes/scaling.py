"""Causes of throughput that falls short as devices are added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.diagnoses import checks
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Advice, Check, Effect, Evidence, Finding, speaks, state_of
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.diagnoses.request import ThroughputPoint
from planner.estimates.scaling.falls import Fall, falls_of
from planner.estimates.scaling.points import Kind

GROWS, STEADY = 0.02, 0.0
SERIAL, PARALLEL = 0.05, 0.01
LOST, KEPT = 0.10, 0.05
POINT_FIELDS = ("throughput[] (three or more)", "model", "cluster", "training")
TOOLS = (checks.NCCL_BANDWIDTH, checks.COMMUNICATION_TIMELINE)
KARP_FLATT = (
    "Karp and Flatt 1990: (1 / speedup - 1 / p) / (1 - 1 / p) is the serial share; where it grows "
    "with p, overhead does."
)


def sorted_points(context: Context) -> list[ThroughputPoint]:
    """By devices; of a number that is given more than once the best."""
    best: dict[int, ThroughputPoint] = {}
    for point in context.request.throughput:
        known = best.get(point.devices)
        if known is None or point.tokens_per_s > known.tokens_per_s:
            best[point.devices] = point
    return [best[devices] for devices in sorted(best)]


def most_devices(context: Context) -> int:
    """The most that the cluster has or that were measured: of more nothing was asked."""
    described = context.request.described
    owned = 0 if described is None else described.costs.cluster.gpus
    return max([owned, *(point.devices for point in context.request.throughput)])


def serial_shares(points: Sequence[ThroughputPoint]) -> list[float]:
    """Karp and Flatt's serial share of each point after the first."""
    first = points[0]
    shares = []
    for point in points[1:]:
        p = point.devices / first.devices
        speedup = point.tokens_per_s / first.tokens_per_s
        shares.append((1 / speedup - 1 / p) / (1 - 1 / p))
    return shares


def communication_grows(context: Context) -> Finding:
    """What ranks send each other takes the more time the more they are."""
    points, evidence = sorted_points(context), []
    if len(points) > 2:
        shares = serial_shares(points)
        growth = shares[-1] - shares[0]
        evidence.append(
            Evidence(
                "growth of the serial share with the devices",
                growth,
                Unit.SHARE,
                speaks(growth, GROWS, STEADY),
                KARP_FLATT,
                "Karp and Flatt 1990.",
                GROWS,
            )
        )
    return _finding(context, Cause.COMMUNICATION_GROWS, ("communication",), evidence, TOOLS)


def serial_part(context: Context) -> Finding:
    """Part of a step does not shrink with the devices: data, optimizer, fill and drain."""
    points, evidence = sorted_points(context), []
    if len(points) > 1:
        share = min(serial_shares(points))
        evidence.append(
            Evidence(
                "serial share",
                share,
                Unit.SHARE,
                speaks(share, SERIAL, PARALLEL),
                KARP_FLATT,
                "Karp and Flatt 1990; Amdahl 1967.",
                SERIAL,
            )
        )
    return _finding(
        context, Cause.SERIAL_PART, ("computation",), evidence, (checks.OUTSIDE_TIMELINE,)
    )


def slow_network(context: Context) -> Finding:
    """Efficiency drops where the devices no longer share a node."""
    points, evidence = sorted_points(context), []
    for before, after in pairwise(points):
        nodes = [_nodes(context, point) for point in (before, after)]
        if None in nodes:
            continue
        kept = (after.tokens_per_s / after.devices) / (before.tokens_per_s / before.devices)
        if nodes[0] == 1 and nodes[1] != 1:
            evidence.append(
                Evidence(
                    f"efficiency lost from {before.devices} to {after.devices} devices, where "
                    "they leave the node",
                    1 - kept,
                    Unit.SHARE,
                    speaks(1 - kept, LOST, KEPT),
                    f"{LOST:.0%} or more.",
                    "Rule of this service.",
                    LOST,
                )
            )
    tools = (checks.NCCL_LOG, checks.NCCL_BANDWIDTH)
    return _finding(context, Cause.SLOW_NETWORK, ("network",), evidence, tools)


def bubble_grows(context: Context) -> Finding:
    """More stages with as many micro-batches: the pipeline is filling and draining for longer."""
    evidence = []
    known = [
        (point, (p - 1) / (m + p - 1))
        for point in sorted_points(context)
        if (p := point.pipeline_parallel) is not None and (m := point.micro_batches) is not None
    ]
    if len(known) > 1:
        growth = known[-1][1] - known[0][1]
        evidence.append(
            Evidence(
                f"growth of the bubble from {known[0][0].devices} to {known[-1][0].devices} "
                "devices",
                growth,
                Unit.SHARE,
                speaks(growth, LOST, KEPT),
                "1F1B of even stages is idle for (p - 1) / (m + p - 1).",
                "Narayanan et al. 2021, section 2.2.",
                LOST,
            )
        )
    tools = (checks.UTILISATION, checks.TIMELINE)
    return _finding(context, Cause.BUBBLE_GROWS, ("bubble",), evidence, tools)


def uneven_division(context: Context) -> Finding:
    """Layers, heads or samples do not divide by the number of devices."""
    described, evidence = context.request.described, []
    if described is not None:
        layers, stages = described.costs.model.layers, described.costs.training.degrees.pipeline
        most = -(-layers // stages)
        over = most * stages / layers - 1
        evidence.append(
            Evidence(
                "layers of the fullest stage above the mean",
                over,
                Unit.SHARE,
                speaks(over, LOST, KEPT),
                "The slowest stage sets the pace.",
                f"{layers} layers on {stages} stages.",
                LOST,
            )
        )
    return _finding(context, Cause.UNEVEN_DIVISION, ("divisibility",), evidence, (checks.TIMELINE,))


def _nodes(context: Context, point: ThroughputPoint) -> int | None:
    if point.nodes is not None:
        return point.nodes
    described = context.request.described
    if described is None:
        return None
    return -(-point.devices // described.costs.cluster.gpus_per_node)


def _finding(
    context: Context,
    cause: Cause,
    causes_of_falls: tuple[str, ...],
    measured: list[Evidence],
    tools: tuple[Check, ...],
) -> Finding:
    """What was measured, and what the estimate of scaling predicts."""
    most = most_devices(context)
    falls = [
        (kind, fall)
        for kind, points in context.curves.items()
        for fall in falls_of(points)
        if fall.cause in causes_of_falls and fall.after.gpus <= most
    ]
    evidence = [*measured, *(_fall_evidence(kind, fall) for kind, fall in falls[:3])]
    state = state_of(evidence)
    remedy = Remedy.DIVIDE_EVENLY if cause is Cause.UNEVEN_DIVISION else Remedy.BEST_DEGREE
    advice = [] if state is State.RULED_OUT else [_best_degree(context, remedy)]
    numbers = [float(piece.value) for piece in evidence if piece.speaks is Speaks.FOR]
    summary = (
        "The numbers do not say."
        if not evidence
        else f"{evidence[0].what}: {_percent(evidence[0])}."
    )
    return Finding(
        cause,
        state,
        summary,
        evidence,
        tools,
        advice,
        max(numbers, default=None),
        () if evidence else POINT_FIELDS,
    )


def _percent(piece: Evidence) -> str:
    return f"{float(piece.value):.1%}"


def _fall_evidence(kind: Kind, fall: Fall) -> Evidence:
    lost = 1 - fall.after.tokens_per_s / fall.before.tokens_per_s
    return Evidence(
        f"predicted loss of throughput, {kind.value} parallelism {fall.words()}",
        lost,
        Unit.SHARE,
        Speaks.FOR,
        "More GPUs lower throughput.",
        "POST /v1/scaling-estimates",
        0.0,
    )


def _best_degree(context: Context, remedy: Remedy) -> Advice:
    """The degree with the most tokens per second, of the kind that gains most."""
    described, most = context.request.described, most_devices(context)
    best = max(
        (
            (kind, point)
            for kind, own in context.curves.items()
            for point in own
            if point.memory.headroom_bytes >= 0 and point.gpus <= most
        ),
        key=lambda pair: pair[1].tokens_per_s,
        default=None,
    )
    if described is None or best is None:
        return _best_point(remedy, sorted_points(context))
    kind, point = best
    present = getattr(described.costs.training.degrees, kind.value)
    now = next((own for own in context.curves[kind] if own.degree == present), None)
    return Advice(
        remedy,
        f"{kind.value}_parallel {point.degree}, on {point.gpus} GPUs.",
        Effect(
            "tokens_per_s",
            Unit.TOKENS_PER_S,
            None if now is None else now.tokens_per_s,
            point.tokens_per_s,
            "POST /v1/scaling-estimates, the global batch kept",
        ),
        request_changes={f"training.{kind.value}_parallel": point.degree},
    )


def _best_point(remedy: Remedy, points: Sequence[ThroughputPoint]) -> Advice:
    if len(points) < 2:
        unknown = "It takes `model` and `cluster`, or `throughput` of several numbers of devices."
        return Advice(remedy, "Train on fewer devices.", unknown=unknown)
    best, most = max(points, key=lambda own: own.tokens_per_s), points[-1]
    return Advice(
        remedy,
        f"Train on {best.devices} devices, the best that was measured.",
        Effect(
            "tokens_per_s", Unit.TOKENS_PER_S, most.tokens_per_s, best.tokens_per_s, "as measured"
        ),
    )
