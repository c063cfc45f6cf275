"""In what order ranks of a running training can be restarted without losing its state.

A data-parallel replica is a whole pipeline. Replicas hold the same parameters, and unless ZeRO
splits them the same optimizer states: then one replica at a time may go down, and gets its state
back from another. What ZeRO has split is held by one rank alone and has to be copied elsewhere
first. GPUs are numbered as Megatron-LM does (`planner.cost.degrees`), so that a node holds ranks of
one stage before those of the next: often several replicas of one stage, which then go down
together.

Sources: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054) for what is split from which stage on;
NCCL's user guide, fault tolerance: a communicator that lost a rank is aborted and made anew by all
its ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.cost.build import CostModel
from planner.cost.degrees import Degrees
from planner.estimates.checkpoints.sizes import nodes_in_use

MOST_STEPS = 256
"""Replicas and nodes listed; the rules say the same of all."""

_SPLIT = {
    0: (),
    1: ("optimizer states",),
    2: ("optimizer states",),
    3: ("optimizer states", "parameters"),
}


def restart_document(costs: CostModel) -> dict[str, Any]:
    """Whether a rolling restart keeps the state, what comes before it, and its steps."""
    degrees, stage = costs.training.degrees, costs.training.zero_stage
    alone = _held_alone(degrees, stage)
    nodes = _nodes(costs)
    lone_nodes = [node for node in nodes if not node["stages_kept_elsewhere"]]
    possible = degrees.data > 1
    return {
        "possible": possible,
        "reason": _reason(degrees, alone),
        "held_by_one_rank_alone": alone,
        "before": _before(degrees, alone),
        "steps": [_step(degrees, replica) for replica in range(min(degrees.data, MOST_STEPS))]
        if possible
        else [],
        "not_down_together": _apart(degrees, alone),
        "nodes": nodes[:MOST_STEPS],
        "nodes_rule": f"{len(lone_nodes)} of {len(nodes)} nodes hold all replicas of a "
        "stage: such a node may only be restarted once its state is written elsewhere; of the "
        "others one at a time.",
        "communicators": _communicators(degrees),
        "batch_meanwhile": {
            "share": (degrees.data - 1) / degrees.data,
            "reason": "With one replica out, the others keep the global batch only if each takes "
            "more micro-batches; else it is smaller by this share's complement.",
        },
    }


def _held_alone(degrees: Degrees, zero_stage: int) -> list[str]:
    """States of which each part is on a single rank."""
    if degrees.replicas == 1:
        return ["parameters", "optimizer states"]
    found = list(_SPLIT[zero_stage])
    if degrees.expert > 1 and degrees.expert_replicas == 1:
        found.append("experts, with their optimizer states")
    return found


def _reason(degrees: Degrees, alone: list[str]) -> str:
    if degrees.data == 1:
        return (
            "There is one replica: while any of its ranks is down nothing trains. Stop all, and go "
            "on from a full checkpoint."
        )
    if not alone:
        return (
            f"Each of {degrees.data} replicas holds all of the state: one at a time may be "
            "restarted and copies it from another."
        )
    return (
        f"One of {degrees.data} replicas at a time may be restarted, but {' and '.join(alone)} of "
        "its ranks are on no other rank: they have to be copied before it goes down."
    )


def _before(degrees: Degrees, alone: list[str]) -> list[dict[str, str]]:
    """What has to be done first, with the reason of each."""
    steps = [
        {
            "do": "Wait for the end of an iteration.",
            "reason": "Between two iterations no micro-batch is in flight, gradients are reduced "
            "and all ranks have the same version of the parameters.",
        }
    ]
    if degrees.data == 1:
        steps.append(
            {"do": "Write a full checkpoint.", "reason": "No other replica holds the state."}
        )
    elif alone:
        steps.append(
            {
                "do": "Copy what is held by one rank alone to the next replica's node, or write a "
                "full checkpoint.",
                "reason": f"{alone[0].capitalize()} of a rank that goes down would be lost. Again "
                "before each step, as training goes on in between.",
            }
        )
    return steps


def _step(degrees: Degrees, replica: int) -> dict[str, Any]:
    """One replica out, restarted and back in."""
    return {
        "replica": replica,
        "stages": list(reversed(range(degrees.pipeline))),
        "gpus_of_stage": [
            {"stage": stage, **_gpus(degrees, stage, replica)}
            for stage in reversed(range(degrees.pipeline))
        ],
        "state_from": {
            "replica": (replica + 1) % degrees.data,
            "reason": "Replicas hold the same; what ZeRO split was copied there before.",
        },
        "reason": "From the last stage to the first: each comes up after the one that it sends "
        "to, and the first, which starts the pipeline and reads data, when all behind it are "
        "ready.",
    }


def _gpus(degrees: Degrees, stage: int, replica: int) -> dict[str, int]:
    """The first and last GPU of a replica's stage: tensor and context ranks are neighbours."""
    per_replica = degrees.tensor * degrees.context
    first = degrees.gpus_of_rank(stage)[0] + replica * per_replica
    return {"first": first, "last": first + per_replica - 1}


def _apart(degrees: Degrees, alone: list[str]) -> list[dict[str, str]]:
    """Rules of which ranks may not be down at the same time."""
    rules = []
    if degrees.tensor * degrees.context > 1:
        rules.append(
            {
                "ranks": "the ranks of a tensor or context group",
                "rule": "go down and come up together",
                "reason": "Each has a part of every layer or sequence; none can go on alone.",
            }
        )
    if degrees.data > 1:
        rules.append(
            {
                "ranks": f"the {degrees.data} replicas of a stage",
                "rule": "at least one stays up",
                "reason": "The last of them to go would take the stage's parameters with it.",
            }
        )
    if degrees.data > 1 and alone:
        rules.append(
            {
                "ranks": "a rank and the one that holds the copy of its part (the same rank of the "
                "next replica)",
                "rule": "never both",
                "reason": f"{' and '.join(alone).capitalize()} are on these two alone.",
            }
        )
    return rules


def _nodes(costs: CostModel) -> list[dict[str, Any]]:
    """Of each node what goes down with it, the last stages first."""
    degrees, size = costs.training.degrees, costs.cluster.gpus_per_node
    return [
        {
            "node": node,
            "held": held,
            "stages_kept_elsewhere": all(len(own["replicas"]) < degrees.data for own in held),
        }
        for node in reversed(range(nodes_in_use(costs)))
        for held in [list(_held(degrees, node * size, (node + 1) * size))]
    ]


def _held(degrees: Degrees, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Stages of which GPUs from `first` to before `end` hold ranks, and of which replicas."""
    per_replica = degrees.tensor * degrees.context
    for stage in range(degrees.pipeline):
        own = degrees.gpus_of_rank(stage)
        low, high = max(first, own[0]), min(end, own[-1] + 1)
        if low < high:
            replicas = range((low - own[0]) // per_replica, (high - 1 - own[0]) // per_replica + 1)
            yield {"stage": stage, "replicas": list(replicas)}


def _communicators(degrees: Degrees) -> list[dict[str, Any]]:
    """Which communicators a replica's restart ends, and who makes them anew."""
    rows = [
        ("data", degrees.replicas, degrees.pipeline * degrees.tensor, "all replicas", False),
        ("pipeline", degrees.pipeline, degrees.tensor * degrees.context, "the replica", True),
        ("tensor", degrees.tensor, degrees.pipeline * degrees.context, "the replica", True),
        ("context", degrees.context, degrees.pipeline * degrees.tensor, "the replica", True),
        ("expert", degrees.expert, degrees.pipeline * degrees.tensor, "all replicas", False),
    ]
    return [
        {
            "kind": kind,
            "ranks_in_each": size,
            "made_anew_per_step": count,
            "by": who,
            "reason": "Only ranks that restart are in it: it is made as at the start."
            if inside
            else "It has ranks that go on: they abort it, train without the replica in a smaller "
            "one, and make the whole one anew when it is back, two times per step.",
        }
        for kind, size, count, who, inside in rows
        if size > 1
    ]
