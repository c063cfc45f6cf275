"""What `GET /v1/presets` answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class PresetView(BaseModel):
    """A name that stands for the fields of a document."""

    name: str
    aliases: list[str] = Field(description="Further names that are accepted for it.")
    source: str = Field(description="Where the figures are from.")
    fields: dict[str, Any] = Field(description="The fields that the name stands for.")


class ModelPresetView(PresetView):
    """A model: `fields` are those of `model` in a request."""

    parameters: int


class Presets(BaseModel):
    """The names that requests may use."""

    models: list[ModelPresetView]
    gpus: list[PresetView] = Field(description="`fields` are those of `cluster.gpu`.")
