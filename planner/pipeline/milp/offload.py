"""Transfers in the pipeline MILP: one at a time per channel, and what lies in host memory."""

from __future__ import annotations

from collections import defaultdict

from planner.milp.scale import SizeScale
from planner.pipeline.milp.formulation import FALSE, TRUE, Column, Formulation, Literal, Row
from planner.pipeline.schedule import Token


def add_channels(build: Formulation) -> None:
    """Transfers of one exclusive channel never overlap.

    A pair has an order binary unless the precedences order it; its rows bind only if both
    micro-batches are offloaded.
    """
    graph = build.graph
    channels: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, token in enumerate(graph.tokens):
        if token.op in "OR" and graph.duration[i]:
            channels[graph.problem.channel(token.stage, token.op)].append(i)
    for transfers in channels.values():
        for position, a in enumerate(transfers):
            for b in transfers[position + 1 :]:
                if graph.precedes(a, b) or graph.precedes(b, a):
                    continue
                literal = build.add_binary(Column("begins", a, b))
                both = [build.offload(i) for i in (a, b) if graph.is_open(i)]
                build.imply_end_before(literal, a, b, both)
                build.imply_end_before(literal.negated(), b, a, both)


def away(build: Formulation, offload: int, reload: int, b: int) -> Literal:
    """A literal that may be 1 only if a micro-batch lies on the host alone when b starts."""
    graph = build.graph
    decision = build.offload(offload)
    if decision == FALSE or graph.ends_later(offload, b):
        return FALSE
    not_reloaded = build.holds_before(b, reload)
    if not_reloaded == FALSE:
        return FALSE
    if graph.ends_before(offload, b):
        if decision == TRUE:
            return not_reloaded
    elif not build.may_change(offload, b):
        return FALSE
    column = Column("away", offload, b)
    if column in build.column_of:
        return Literal(build.column_of[column], 1, 0)
    literal = build.add_binary(column)
    build.imply_end_before(literal, offload, b)
    for needed in (decision, not_reloaded):
        if not needed.is_settled:
            build.add_at_most_zero(Row().add_literal(literal, 1).add_literal(needed, -1))
    return literal


def add_host_memory(build: Formulation) -> None:
    """What lies in a host's memory never exceeds its limit, at the start of any offload into it."""
    graph, problem = build.graph, build.graph.problem
    offloads: dict[int, list[int]] = defaultdict(list)
    for i, token in enumerate(graph.tokens):
        host = problem.devices[graph.device[i]].host
        if token.op == "O" and host is not None:
            offloads[host].append(i)
    for h, group in offloads.items():
        limit = problem.hosts[h].memory_bytes
        if limit is None or sum(_bytes(build, i) for i in group) <= limit:
            continue
        scale = SizeScale(limit, [_bytes(build, i) for i in group])
        for arriving in group:
            row = Row(-scale.room(limit))
            row.add_literal(build.offload(arriving), scale.used(_bytes(build, arriving)))
            for other in group:
                if other != arriving:
                    held = _held(build, other, arriving)
                    row.add_literal(held, scale.used(_bytes(build, other)))
            build.add_at_most_zero(row)


def _bytes(build: Formulation, i: int) -> int:
    token = build.graph.tokens[i]
    return build.graph.problem.stages[token.stage].offload_bytes[token.micro_batch]


def _held(build: Formulation, other: int, arriving: int) -> Literal:
    """At least 1 if `other` is offloaded, began no later than `arriving` and is not back yet."""
    graph = build.graph
    _, s, m = graph.tokens[other]
    reload = graph.index[Token("R", s, m)]
    began = build.begins(other, arriving)
    decision = build.offload(other)
    if graph.precedes(reload, arriving) or FALSE in (began, decision):
        return FALSE
    back = build.ended(reload, arriving)
    literal = build.add_binary(Column("held", other, arriving))
    row = Row(-1.0).add_literal(decision, 1).add_literal(began, 1)
    build.add_at_most_zero(row.add_literal(back, -1).add_literal(literal, -1))
    return literal
