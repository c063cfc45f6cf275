"""The transformer document: a preset or sizes, read into the graph of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StrictBool, ValidationError

from planner.cost.model import Model, ModelDocument, read_model
from planner.cost.notes import Note
from planner.documents import PositiveWhole, spec_error_from
from planner.errors import SpecError
from planner.sharding.graph import Graph, Repeat
from planner.sharding.graph_reader import LARGEST_ELEMENTS, total_elements
from planner.sharding.training import ShardingTraining
from planner.sharding.transformer.builder import TransformerBuilder
from planner.sharding.transformer.ends import add_embedding, add_head
from planner.sharding.transformer.layer import add_layer
from planner.sharding.transformer.notes import transformer_notes

Path = tuple[str | int, ...]

SMALLEST_DEFAULT_BATCH = 8
INPUT = "x"


class TransformerDocument(ModelDocument):
    """A model document with how much of the model is planned for, and for which batch.

    `layers` says how many layers the graph has (default 1), whatever the preset's number.
    """

    batch: Annotated[PositiveWhole, Field(le=2**24)] | None = Field(
        default=None,
        description="Samples of one pass over all devices; default: the least multiple of the "
        "devices from 8.",
    )
    embeddings: StrictBool = Field(
        default=False, description="With embedding, output layer and loss around the layers."
    )


@dataclass(frozen=True, slots=True)
class Transformer:
    """The graph of `layers` layers of a model for `batch` samples of `sequence` tokens, and the
    assumptions behind it."""

    graph: Graph
    model: Model
    layers: int
    batch: int
    sequence: int
    notes: tuple[Note, ...]


def read_transformer(
    raw: Mapping[str, Any] | str,
    training: ShardingTraining,
    devices: int,
    path: Path = ("transformer",),
) -> Transformer:
    """Read a preset's name or a transformer document for training on `devices` devices.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    if not isinstance(raw, str | Mapping):
        raise SpecError(path, "must be an object or a preset's name.", "Such as BERT-Large.")
    fields = {"preset": raw} if isinstance(raw, str) else raw
    try:
        document = TransformerDocument.model_validate(fields)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    model = _model(document, path)
    sequence = _sequence(document, model, path)
    layers = document.layers or 1
    batch = document.batch or devices * -(-SMALLEST_DEFAULT_BATCH // devices)
    graph = _graph(
        TransformerBuilder(model, training, batch, sequence, devices),
        layers,
        embeddings=document.embeddings,
    )
    elements = total_elements(graph)
    if elements > LARGEST_ELEMENTS:
        raise SpecError(
            path,
            f"has {elements:,} elements in tensors and parameters together; at most "
            f"{LARGEST_ELEMENTS:,} are allowed.",
            "Give a smaller `batch` or `sequence`, or fewer `layers`.",
        )
    notes = transformer_notes(
        model,
        training,
        layers=layers,
        batch=batch,
        batch_given=document.batch is not None,
        sequence=sequence,
        devices=devices,
        embeddings=document.embeddings,
    )
    return Transformer(graph, model, layers, batch, sequence, notes)


def _model(document: TransformerDocument, path: Path) -> Model:
    """The model that the layers belong to, of as many layers as it has itself."""
    fields = document.model_dump(exclude_none=True, exclude={"layers", "batch", "embeddings"})
    if document.preset is None:
        fields["layers"] = document.layers or 1
        if not document.embeddings:
            # Layers alone know no words, but a model has some.
            fields.setdefault("vocabulary", 1)
    elif document.max_positions is None:
        # A shorter or longer sequence leaves the preset's learned positions as they are.
        fields.pop("sequence", None)
    return read_model(fields, path)


def _sequence(document: TransformerDocument, model: Model, path: Path) -> int:
    sequence = document.sequence or model.sequence
    if document.embeddings and model.max_positions and sequence > model.max_positions:
        raise SpecError(
            (*path, "sequence"),
            f"{sequence} is longer than the model's {model.max_positions} learned positions.",
            "Shorten it or raise `max_positions`.",
        )
    return sequence


def _graph(build: TransformerBuilder, layers: int, *, embeddings: bool) -> Graph:
    first = add_embedding(build) if embeddings else build.hidden_input(INPUT)
    last = add_layer(build, first)
    if embeddings:
        add_head(build, last)
    return build.graph(Repeat(layers, first.name, last.name) if layers > 1 else None)
