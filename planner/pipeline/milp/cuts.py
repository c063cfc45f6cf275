"""Valid inequalities that make the pipeline MILP's bound strong.

Big-M rows alone say next to nothing once the order binaries are fractional. Counting the work
that lies before and after an operation on its device is what lifts the bound (measured: it turned
an unproven 4 x 8 problem into one that CBC proves in seconds).
"""

from __future__ import annotations

from planner.pipeline.milp.formulation import Formulation, Literal, Row

MOST_THRESHOLDS = 6
"""Work-counting cuts per operation and side."""
MOST_TRIANGLES = 3000
"""Triangle inequalities of one model."""


def add_work_counting(build: Formulation, objective: int) -> None:
    """Head + work before <= start, and end + work after + tail <= objective, on each device.

    For a threshold h only operations with head >= h count: those that run before `a` do so after
    h, hence start(a) >= h + their time. Tails alike.
    """
    graph = build.graph
    for d, group in enumerate(graph.compute_of_device):
        for a in graph.free_compute(d):
            frame = build.windows.frame(a)
            others = [b for b in group if b != a and graph.duration[b]]
            tails = {b: frame.rest[b] - graph.duration[b] for b in group}
            base = Row()
            if frame.origin is not None:
                base.add(build.starts[frame.origin], 1)
            base.add(build.starts[a], -1)
            heads = {b: frame.head[b] for b in group}
            _add_counts(build, a, base, heads, {b: build.ended(b, a) for b in others})
            base = Row(build.units(graph.duration[a])).add(objective, -1)
            if frame.origin is not None:
                base.add(build.starts[frame.origin], -1)
            base.add(build.starts[a], 1)
            _add_counts(build, a, base, tails, {b: build.ended(a, b) for b in others})


def _add_counts(
    build: Formulation,
    a: int,
    base: Row,
    distance: dict[int, int],
    beyond: dict[int, Literal],
) -> None:
    """base + threshold + (time of those beyond a at least that far off) <= 0, per threshold."""
    if all(literal.is_settled for literal in beyond.values()):
        return
    for threshold in _thresholds([distance[b] for b in beyond], distance[a]):
        row = Row(base.constant + build.units(threshold))
        row.coefficients.update(base.coefficients)
        for b, literal in beyond.items():
            if distance[b] >= threshold:
                row.add_literal(literal, build.units(build.graph.duration[b]))
        build.add_at_most_zero(row)


def _thresholds(values: list[int], own: int) -> list[int]:
    """Some of the distinct values up to an operation's own, the smallest and largest included."""
    usable = sorted({value for value in values if value <= own})
    if len(usable) <= MOST_THRESHOLDS:
        return usable
    step = (len(usable) - 1) / (MOST_THRESHOLDS - 1)
    return [usable[round(k * step)] for k in range(MOST_THRESHOLDS)]


def add_prefix_monotone(build: Formulation) -> None:
    """What comes before an operation comes before all that follow it in the graph.

    Between exclusive operations this only strengthens the bound. Between allocations it also
    keeps those of one instant in one order, without which each could leave the others out.
    """
    following = _direct_successors(build)
    for column in [c for c in build.columns if c.kind in ("order", "begins")]:
        for a, b in ((column.a, column.b), (column.b, column.a)):
            for later in following[b]:
                first = build.known_order(column.kind, a, b)
                second = build.known_order(column.kind, a, later)
                if first is not None and second is not None and not second.is_settled:
                    build.add_at_most_zero(Row().add_literal(first, 1).add_literal(second, -1))


def _direct_successors(build: Formulation) -> list[list[int]]:
    """Per operation the next of its kind and stage, and the next of its micro-batch here."""
    graph = build.graph
    following: list[list[int]] = [[] for _ in graph.tokens]
    for a, edges in enumerate(graph.successors):
        for b in edges:
            same_kind = graph.tokens[a].op == graph.tokens[b].op
            own = graph.tokens[a][1:] == graph.tokens[b][1:] and graph.tokens[b].op == "B"
            if graph.tokens[a].stage == graph.tokens[b].stage and (same_kind or own):
                following[a].append(b)
        token = graph.tokens[a]
        if token.op == "F":
            reload = graph.index.get(token._replace(op="R"))
            following[a] += [] if reload is None else [reload]
    return following


def add_triangles(build: Formulation) -> None:
    """P_ab + P_bc - 1 <= P_ac for triples of a device that nothing settles.

    Those with an allocation that is no computation come first: they rule out cycles among
    allocations of one instant.
    """
    graph = build.graph
    triples: list[tuple[int, int, int]] = []
    for d in range(len(graph.problem.devices)):
        compute = graph.free_compute(d)
        reloads = [i for i in graph.transfers_of_device[d] if graph.tokens[i].op == "R"]
        later: dict[int, set[int]] = {i: set() for i in compute + reloads}
        for column in build.columns:
            if column.kind in ("order", "begins") and column.a in later and column.b in later:
                later[column.a].add(column.b)
        triples += [
            (a, b, c) for a, after in later.items() for b in after for c in after & later[b]
        ]
    triples.sort(key=lambda triple: all(graph.tokens[i].op != "R" for i in triple))
    for a, b, c in triples[: MOST_TRIANGLES // 2]:
        literals = [build.holds_before(*pair) for pair in ((a, b), (b, c), (c, a))]
        for sign in (1, -1):
            row = Row(-2.0)
            for literal in literals:
                row.add_literal(literal if sign > 0 else literal.negated(), 1)
            build.add_at_most_zero(row)
