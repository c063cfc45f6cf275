"""The models and GPUs that requests may name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from app.schemas.presets import ModelPresetView, Presets, PresetView
from planner.cost.hardware_presets import GPU_ALIASES, GPU_PRESETS
from planner.cost.model import read_model
from planner.cost.model_presets import MODEL_ALIASES, MODEL_PRESETS
from planner.cost.parameters import count_parameters


@cache
def known_presets() -> Presets:
    """All presets, in the order of the planner's tables."""
    return Presets(
        models=[
            ModelPresetView(
                name=preset.name,
                aliases=_aliases(preset.name, MODEL_ALIASES),
                source=preset.source,
                fields=dict(preset.fields),
                parameters=count_parameters(read_model(preset.name)).total,
            )
            for preset in MODEL_PRESETS.values()
        ],
        gpus=[
            PresetView(
                name=preset.name,
                aliases=_aliases(preset.name, GPU_ALIASES),
                source=preset.source,
                fields=dict(preset.fields),
            )
            for preset in GPU_PRESETS.values()
        ],
    )


def _aliases(name: str, aliases: Mapping[str, str]) -> list[str]:
    return [alias for alias, meant in aliases.items() if meant == name]
