"""The answers' models say of planner documents what is in them."""

from __future__ import annotations

from app.schemas.proposals import ProposalView
from app.schemas.runs import AdaptedView
from planner.following.adapt import adapted
from planner.following.elastic import propose
from planner.following.estimates import Estimate
from planner.following.partitions import Layers
from planner.following.shapes import Elasticity
from tests.unit.following.pipelines import layered
from tests.unit.following.runs import problem


def test_a_proposal_is_shown_with_all_that_it_says() -> None:
    slow = layered((4, 4, 4, 4), speeds=(2, 3, 2, 2))
    found = propose(slow, layers=Layers((4, 4, 4, 4)), elasticity=Elasticity(micro_batch_size=4))
    documents = [own.to_document() for own in found]
    assert any(document["baseline"] is not None for document in documents)
    assert any(document["layers_per_stage"] is not None for document in documents)
    for document in documents:
        assert ProposalView(**document).model_dump(mode="json") == document


def test_settings_of_offloading_are_shown_with_all_that_they_say() -> None:
    measured = {(1, "offload_ns"): Estimate(720_000, 0, 0, 20, 0, 0)}
    for estimates in (measured, {}):
        document = adapted(problem(offload=True), estimates).to_document()
        shown = AdaptedView(**document).model_dump(mode="json")
        assert shown == document | {"stages": list(document["stages"])}
