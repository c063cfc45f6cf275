"""The configurations of frameworks, in the order that they are listed in."""

from __future__ import annotations

from planner.export.frameworks.accelerate_yaml import ACCELERATE_YAML
from planner.export.frameworks.deepspeed_json import DEEPSPEED_JSON
from planner.export.frameworks.megatron_args import MEGATRON_ARGS
from planner.export.frameworks.nemo_automodel_yaml import NEMO_AUTOMODEL_YAML
from planner.export.frameworks.torchtitan_config import TORCHTITAN_CONFIG
from planner.export.frameworks.torchtitan_toml import TORCHTITAN_TOML

FRAMEWORKS = (
    MEGATRON_ARGS,
    DEEPSPEED_JSON,
    ACCELERATE_YAML,
    TORCHTITAN_TOML,
    TORCHTITAN_CONFIG,
    NEMO_AUTOMODEL_YAML,
)
