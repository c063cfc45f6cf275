"""A kind of group in an answer: rank lists, its parts on each tier, what it sends, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.cost.routes import TIERS, Tier
from planner.estimates.communication.algorithms import Advice, Part, advise
from planner.estimates.communication.collectives import Collective, Operation
from planner.estimates.communication.groups import Groups, Kind, widest_group
from planner.estimates.communication.layout import LISTED_RANKS, Layout, link_name, whole_ns
from planner.estimates.communication.tiers import neighbours, sub_groups

PURPOSES = {
    Kind.TENSOR: "The ranks that split each layer.",
    Kind.CONTEXT: "The ranks that split each sequence.",
    Kind.DATA: "The ranks that take other samples.",
    Kind.DATA_CONTEXT: "The ranks that hold the same parameters and add up their gradients.",
    Kind.PIPELINE: "The ranks that hold the stages, in their order.",
    Kind.EXPERT: "The ranks that share out the experts of each layer.",
    Kind.EXPERT_DATA: "The ranks that hold the same experts and add up their gradients.",
    Kind.EMBEDDING: "The ranks that hold the tied word embedding: first and last stage.",
}


def group_document(layout: Layout, kind: Kind, *, in_network: bool) -> dict[str, Any]:
    """Everything about one kind of group; `in_network` if the network's switches can add up."""
    groups = layout.groups[kind]
    listed = _listed(groups, layout.costs.training.degrees.gpus)
    widest, reached = widest_group(groups, layout.cluster)
    sent = [each for each in layout.sent if each.kind is kind]
    return {
        "purpose": PURPOSES[kind],
        "size": groups.size,
        "count": groups.count,
        "rule": groups.rule(),
        "reaches": reached.value,
        "groups_by_reach": {tier.value: count for tier, count in layout.reach[kind].items()},
        "listed": len(listed),
        "groups": listed,
        "tiers": _tier_documents(layout, widest, listed, sent, in_network),
        "step_ns": whole_ns(layout.kind_s(kind)),
        "bounded_by": _main(sent).tier.value if sent else None,
        "collectives": [_collective_document(each) for each in sent],
    }


def _listed(groups: Groups, ranks: int) -> list[list[int]]:
    count = groups.count
    if ranks > LISTED_RANKS:
        count = min(count, LISTED_RANKS // groups.size)
    firsts = groups.first_ranks()
    return [groups.ranks_from(next(firsts)) for _ in range(count)]


def _main(sent: Sequence[Collective]) -> Collective:
    """What takes most of the step."""
    return max(sent, key=lambda each: each.step_s)


def _parts(
    layout: Layout, ranks: Sequence[int], sent: Sequence[Collective]
) -> dict[Tier, list[list[int]]]:
    """Pairs where most of what the group does is sending to neighbours, else the parts of a
    hierarchical collective."""
    if not sent or _main(sent).operation is not Operation.SEND_RECEIVE:
        return sub_groups(ranks, layout.cluster)
    goes_round = (layout.costs.training.interleaving or 1) > 1
    is_ring = _main(sent).kind is Kind.CONTEXT or goes_round
    return neighbours(ranks, layout.cluster, ring=is_ring)


def _tier_documents(
    layout: Layout,
    widest: list[int],
    listed: list[list[int]],
    sent: Sequence[Collective],
    in_network: bool,
) -> list[dict[str, Any]]:
    """The parts of the listed groups on each tier. Advice is for the collective that takes most of
    the step and the group that reaches farthest, `widest`."""
    cluster = layout.cluster
    of_widest = _parts(layout, widest, sent)
    of_listed = [_parts(layout, ranks, sent) for ranks in listed]
    sharing = max((len(part) for part in of_widest[Tier.NODE]), default=1)
    documents = []
    for tier in TIERS:
        parts = [part for each in (of_widest, *of_listed) for part in each[tier]]
        if not parts:
            continue
        ranks = max(len(part) for part in parts)
        document: dict[str, Any] = {
            "tier": tier.value,
            "link": link_name(cluster, tier),
            "ranks": ranks,
            "sub_groups": [part for each in of_listed for part in each[tier]],
        }
        if sent:
            part = Part(tier, ranks, 1 if tier is Tier.NODE else sharing)
            advice = advise(cluster, part, _main(sent), in_network=in_network)
            document |= _advice_document(_main(sent), advice)
        documents.append(document)
    return documents


def _advice_document(sent: Collective, advice: Advice) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operation": sent.operation.value,
        "array_bytes": sent.size,
        "algorithm": advice.algorithm,
        "reason": advice.reason,
    }
    if advice.ring_s is not None and advice.tree_s is not None:
        document |= {"ring_ns": whole_ns(advice.ring_s), "tree_ns": whole_ns(advice.tree_s)}
    if advice.crossover_bytes is not None:
        document["ring_from_bytes"] = advice.crossover_bytes
    return document


def _collective_document(each: Collective) -> dict[str, Any]:
    return {
        "operation": each.operation.value,
        "what": each.what,
        "array_bytes": each.size,
        "sent_bytes": each.sent_bytes,
        "calls_per_micro_batch": each.per_micro_batch,
        "calls_per_step": each.per_step,
        "sent_bytes_per_step": each.sent_bytes * each.per_step,
        "call_ns": whole_ns(each.seconds),
        "step_ns": whole_ns(each.step_s),
        "bounded_by": each.tier.value,
    }
