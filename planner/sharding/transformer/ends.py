"""What comes before the first layer and after the last one."""

from __future__ import annotations

from planner.cost.model import NormPlacement, PositionEmbeddings
from planner.sharding.graph import Parameter, Tensor
from planner.sharding.transformer.builder import TransformerBuilder


def add_embedding(build: TransformerBuilder) -> Tensor:
    """Word embedding with learned positions where the model has them; post-norm models normalise
    it (BERT). Gives the first layer's input."""
    model = build.model
    tokens = build.token_input("tokens")
    parameters = [Parameter("weight", (build.vocabulary, model.hidden_size))]
    if model.position_embeddings is PositionEmbeddings.LEARNED:
        parameters.append(Parameter("positions", (model.max_positions, model.hidden_size)))
    shape = (build.batch, build.sequence, model.hidden_size)
    embedded = build.add("embedding", "embedding", [tokens], shape, parameters)
    if model.norm_placement is NormPlacement.POST:
        embedded = build.norm("embedding_norm", embedded)
    return build.dropout("embedding_dropout", embedded)


def add_head(build: TransformerBuilder, x: Tensor) -> Tensor:
    """Final norm (pre-norm models), output layer and loss, which it gives."""
    model = build.model
    if model.norm_placement is NormPlacement.PRE:
        x = build.norm("final_norm", x)
    tied_to = "embedding" if model.tied_embeddings else None
    weight = Parameter("weight", (model.hidden_size, build.vocabulary), tied_to)
    logits = build.add(
        "head", "linear", [x], (build.batch, build.sequence, build.vocabulary), [weight]
    )
    targets = build.token_input("targets")
    return build.add("loss", "cross_entropy", [logits, targets], (), dtype="fp32")
