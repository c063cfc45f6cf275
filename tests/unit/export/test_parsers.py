"""Files of exports, read by the programs that they are for.

TOML, YAML, JSON and Python are read wherever the tests run. Each framework's own parser reads its
file where the framework is installed: `pip install -e .[frameworks,test]`, best in an environment
apart, and `pip install --no-deps nemo-automodel==0.7.0`, which wants an older transformers. What is
not installed is skipped. Megatron-LM's arguments come with megatron-core from 0.19 on, which wants
Python 3.12; with an older one the layout and the modules to offload are read.
"""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export import answers
from tests.unit.export.answers import MODEL, TRAINING, pipeline, sharding

# Their imports warn of much, none of it ours.
pytestmark = pytest.mark.filterwarnings("ignore")

LLAMA = {**TRAINING, "layers_per_stage": [15, 17]}
MORE: dict[str, Source] = {
    "plain": pipeline(),
    "llama": pipeline(LLAMA, model="Llama-3-8B", cluster="4x8xH100"),
    "looped": pipeline(
        {**TRAINING, "interleaving": 2, "layers_per_stage": [2, 2, 2, 2], "zero_stage": 0},
        shape="interleaved_2",
    ),
    "one rank": pipeline(
        {**TRAINING, "pipeline_parallel": 1, "layers_per_stage": [8], "zero_stage": 3},
        cluster="4xA100-40GB",
    ),
    "data only": pipeline(
        {
            "data_parallel": 4,
            "tensor_parallel": 1,
            "pipeline_parallel": 1,
            "micro_batches": 2,
            "precision": "fp32",
            "recomputation": "full",
        },
        cluster="4xA100-40GB",
    ),
    "context": pipeline(
        {
            **TRAINING,
            "pipeline_parallel": 1,
            "layers_per_stage": [8],
            "tensor_parallel": 1,
            "context_parallel": 2,
            "zero_stage": 2,
        },
        cluster="4xA100-40GB",
    ),
}


def written(source: Source, name: str, folder: Path) -> str:
    """The path of the file."""
    own, text = export(source, name)
    path = folder / f"plan.{own.extension}"
    path.write_text(text)
    return str(path)


def arguments(text: str) -> list[str]:
    """What a shell makes of the array."""
    script = f'{text}\nprintf "%s\\n" "${{LOADMASTER_ARGS[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_toml_says_the_degrees_and_the_batch() -> None:
    settings = tomllib.loads(export(pipeline(), "torchtitan-toml")[1])
    assert settings["training"]["global_batch_size"] == 8
    # With a pipeline the micro-batches of a step are one local batch.
    assert settings["training"]["local_batch_size"] == 4
    parallelism = settings["parallelism"]
    assert parallelism["pipeline_parallel_schedule_csv"] == f"loadmaster-{answers.JOB}.torch.csv"
    assert parallelism["module_fqns_per_model_part"] == [
        ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"],
        ["layers.4", "layers.5", "layers.6", "layers.7", "norm", "output"],
    ]


def test_without_a_pipeline_micro_batches_are_steps_of_accumulation() -> None:
    settings = tomllib.loads(export(MORE["one rank"], "torchtitan-toml")[1])
    assert settings["training"]["local_batch_size"] == 1
    assert settings["training"]["global_batch_size"] == 8
    assert settings["parallelism"]["fsdp_reshard_after_forward"] == "always"
    scheduler = yaml.safe_load(export(MORE["one rank"], "nemo-automodel-yaml")[1])["step_scheduler"]
    assert scheduler == {"global_batch_size": 8, "local_batch_size": 1}


def test_yaml_and_json_are_read_back() -> None:
    nemo = yaml.safe_load(export(pipeline(), "nemo-automodel-yaml")[1])
    assert nemo["distributed"]["pipeline"]["pp_batch_size"] == 4
    assert nemo["step_scheduler"] == {"global_batch_size": 8, "local_batch_size": 4}
    settings = yaml.safe_load(export(pipeline(), "accelerate-yaml")[1])
    assert settings["megatron_lm_config"]["megatron_lm_num_micro_batches"] == 4
    batch = json.loads(export(pipeline(), "deepspeed-json")[1])
    assert batch["train_batch_size"] == 8
    assert batch["gradient_accumulation_steps"] == 4
    assert batch["train_micro_batch_size_per_gpu"] == 1


def test_python_sets_fields_of_a_configuration() -> None:
    tree = ast.parse(export(pipeline(), "torchtitan-config")[1])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    set_to = {key.arg: key.value for call in calls for key in call.keywords}
    assert ast.literal_eval(set_to["num_pp_microbatches"]) == 4
    assert ast.literal_eval(set_to["num_tokens_per_train_step"]) == 8 * 128
    assert ast.literal_eval(set_to["enable_sequence_parallel"]) is True


def test_a_shell_reads_the_arguments() -> None:
    text = export(pipeline(), "megatron-args")[1]
    found = arguments(text)
    assert found[found.index("--pipeline-model-parallel-layout") + 1] == "Et*4|t*4L"
    assert found[found.index("--global-batch-size") + 1] == "8"
    body = text.partition("=(")[2].rpartition(")")[0]
    assert found == shlex.split(body)


@pytest.mark.torch
@pytest.mark.parametrize("name", MORE)
def test_torchtitan_reads_its_toml(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    manager = pytest.importorskip("torchtitan.config.manager", exc_type=ImportError)
    path = written(MORE[name], "torchtitan-toml", tmp_path)
    config = manager.ConfigManager().parse_args(["--job.config_file", path])
    assert (
        config.training.global_batch_size
        == tomllib.loads(Path(path).read_text())["training"]["global_batch_size"]
    )


GPT = {
    **MODEL,
    "kv_heads": 8,
    "gated": False,
    "position_embeddings": "learned",
    "norm": "layernorm",
}
MEGATRON = {
    **MORE,
    "offloads": pipeline(offloads=2),
    "experts": pipeline(
        {**TRAINING, "expert_parallel": 2, "zero_stage": 0, "optimizer": "sgd_momentum"},
        model=answers.MOE,
    ),
    "learned positions": pipeline(model=GPT),
}


class Hopper:
    """What PyTorch says of a GPU, as far as Megatron-LM asks."""

    major, minor = 9, 0


def megatrons(
    text: str, ranks: int, monkeypatch: pytest.MonkeyPatch, others: Sequence[str] = ()
) -> Any:
    """What Megatron-LM's own parser and checks make of a script, and of people's other arguments,
    on so many GPUs."""
    torch = pytest.importorskip("torch")
    module = pytest.importorskip("megatron.training.arguments", exc_type=ImportError)
    for line in text.splitlines():
        if line.startswith("export "):
            monkeypatch.setenv(*line.removeprefix("export ").split("=", 1))
    monkeypatch.setenv("WORLD_SIZE", str(ranks))
    monkeypatch.setattr("sys.argv", ["pretrain_gpt.py", *arguments(text), *others])
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Hopper)
    args = module.parse_args()
    module.validate_args(args)
    return args


@pytest.mark.torch
@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_lm_reads_its_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = MEGATRON[name]
    assert source.request is not None
    asked = source.request["training"]
    split = asked["tensor_parallel"] * asked["pipeline_parallel"] * asked.get("context_parallel", 1)
    args = megatrons(export(source, "megatron-args")[1], split * 2, monkeypatch)
    assert args.data_parallel_size == 2
    assert args.num_layers == (32 if name == "llama" else 8)
    assert args.sequence_parallel == (asked["tensor_parallel"] > 1)
    assert args.virtual_pipeline_model_parallel_size == (2 if name == "looped" else None)
    assert args.fine_grained_activation_offloading == (name == "offloads")
    assert args.num_experts == (4 if name == "experts" else None)
    assert args.use_megatron_fsdp == (asked.get("zero_stage", 0) > 1)


@pytest.mark.torch
def test_megatron_lm_reads_the_flags_of_a_sharding_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    others = "--num-layers 2 --hidden-size 256 --num-attention-heads 8 --micro-batch-size 8"
    positions = "--seq-length 128 --max-position-embeddings 128"
    text = export(sharding(), "megatron-flags")[1]
    args = megatrons(text, 4, monkeypatch, [*others.split(), *positions.split()])
    assert (args.tensor_model_parallel_size, args.data_parallel_size) == (4, 1)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["plain", "llama", "looped"])
def test_megatron_core_reads_the_layout(name: str) -> None:
    layouts = pytest.importorskip(
        "megatron.core.transformer.pipeline_parallel_layer_layout", exc_type=ImportError
    )
    enums = pytest.importorskip("megatron.core.transformer.enums")
    found = arguments(export(MORE[name], "megatron-args")[1])
    text = found[found.index("--pipeline-model-parallel-layout") + 1]
    layout = layouts.PipelineParallelLayerLayout.from_str(text, 2)
    layout.validate_layer_layout(num_layers=32 if name == "llama" else 8, mtp_num_layers=0)
    stages = [
        layout.layout[rank][chunk].count(enums.LayerType.decoder)
        for chunk in range(layout.virtual_pipeline_model_parallel_size)
        for rank in range(2)
    ]
    assert stages == {"plain": [4, 4], "llama": [15, 17], "looped": [2, 2, 2, 2]}[name]


@pytest.mark.torch
def test_megatron_core_knows_the_modules_that_are_offloaded() -> None:
    config = pytest.importorskip(
        "megatron.core.transformer.transformer_config", exc_type=ImportError
    )
    found = arguments(export(pipeline(offloads=2), "megatron-args")[1])
    start = found.index("--offload-modules") + 1
    modules = found[start : found.index("--activation-offload-fraction")]
    made = config.TransformerConfig(
        num_layers=8,
        hidden_size=256,
        num_attention_heads=8,
        transformer_impl="transformer_engine",
        fine_grained_activation_offloading=True,
        offload_modules=modules,
        recompute_granularity="selective",
        recompute_modules=["core_attn"],
    )
    assert made.offload_modules == modules


@pytest.mark.torch
@pytest.mark.parametrize("name", ["plain", "one rank", "data only"])
def test_deepspeed_reads_its_json(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    module = pytest.importorskip("deepspeed.runtime.config", exc_type=ImportError)
    # Of several processes; otherwise it takes itself for the only one.
    monkeypatch.setattr(module.dist, "get_rank", lambda: 0)

    class Ranks:
        def get_data_parallel_world_size(self) -> int:
            return 4 if name == "data only" else 2

        def get_data_parallel_rank(self) -> int:
            return 0

    path = written(MORE[name], "deepspeed-json", tmp_path)
    config = module.DeepSpeedConfig(path, mpu=Ranks())
    expected = json.loads(Path(path).read_text())
    # It checks itself that batch = micro-batch x accumulation x ranks.
    assert config.train_batch_size == expected["train_batch_size"]
    assert config.zero_optimization_stage == expected["zero_optimization"]["stage"]
    assert config.bfloat16_config.enabled == (name != "data only")


@pytest.mark.torch
def test_deepspeed_reads_the_split_of_layers() -> None:
    pytest.importorskip("torch")
    module = pytest.importorskip("deepspeed.module_inject.autotp_config", exc_type=ImportError)
    section = json.loads(export(sharding(), "deepspeed-autotp")[1])["tensor_parallel"]
    config = module.AutoTPConfig.from_dict(section["partition_config"])

    def split(name: str) -> str | None:
        found = config.find_matching_spec(f"model.layers.7.{name}.weight", "llama")
        return None if found is None else found.partition_type.value

    assert split("self_attn.v_proj") == "column"
    assert split("mlp.down_proj") == "row"
    assert split("mlp.other") is None
    tensor = pytest.importorskip("deepspeed.runtime.tensor_parallel.config")
    assert tensor.TPTrainingConfig(**section).autotp_size == 4


@pytest.mark.torch
@pytest.mark.parametrize("name", ["plain", "one rank", "data only", "context"])
def test_accelerate_reads_its_yaml(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    module = pytest.importorskip("accelerate.commands.config.config_args", exc_type=ImportError)
    launch = pytest.importorskip("accelerate.commands.launch")
    path = written(MORE[name], "accelerate-yaml", tmp_path)
    # Unknown names at the top are an error.
    config = module.ClusterConfig.from_yaml_file(path)
    assert config.num_processes == {"plain": 8}.get(name, 4)
    known = {action.dest for action in launch.launch_command_parser()._actions}
    sections = (config.fsdp_config, config.parallelism_config, config.megatron_lm_config)
    given = {key for section in sections for key in section}
    assert given <= known
    if config.parallelism_config:
        parallel = pytest.importorskip("accelerate.parallelism_config")
        sizes = {
            key.removeprefix("parallelism_config_"): value
            for key, value in config.parallelism_config.items()
        }
        assert parallel.ParallelismConfig(**sizes).total_size == 4


@pytest.mark.torch
@pytest.mark.parametrize("name", ["plain", "llama", "looped", "one rank", "data only"])
def test_nemo_automodel_reads_its_yaml(name: str) -> None:
    pytest.importorskip("torch")
    module = pytest.importorskip(
        "nemo_automodel.components.distributed.config", exc_type=ImportError
    )
    stages = pytest.importorskip(
        "nemo_automodel.components.distributed.pipelining.config", exc_type=ImportError
    )
    section: dict[str, Any] = yaml.safe_load(export(MORE[name], "nemo-automodel-yaml")[1])[
        "distributed"
    ]
    sizes = {key: section.pop(key) for key in [*section] if key.endswith("_size")}
    assert set(sizes) == {"dp_size", "tp_size", "cp_size", "pp_size", "ep_size"}
    pipelining = section.pop("pipeline", None)
    if pipelining is not None:
        known = {each.name for each in fields(stages.PipelineConfig)}
        assert pipelining.keys() <= known
        assert stages.PipelineConfig(**pipelining).pp_batch_size == 4
    section.pop("mp_policy", None)
    strategy = module._resolve_strategy_config(**section)
    assert type(strategy).__name__ == ("DDPConfig" if name == "data only" else "FSDP2Config")


@pytest.mark.torch
def test_transformers_knows_the_styles_and_the_modules() -> None:
    pytest.importorskip("torch")
    module = pytest.importorskip("transformers.integrations.tensor_parallel", exc_type=ImportError)
    transformers = pytest.importorskip("transformers")
    plan = json.loads(export(sharding(), "transformers-tp-plan")[1])["tp_plan"]
    assert set(plan.values()) <= set(module.ALL_PARALLEL_STYLES.keys())
    # It is what the library's own plan for this kind of model says.
    own = transformers.LlamaConfig.base_model_tp_plan
    assert plan == {f"model.{name}": style for name, style in own.items()}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("transformer", "config", "model"),
    [
        ({**MODEL, "embeddings": True}, "LlamaConfig", "LlamaForCausalLM"),
        (
            {"hidden_size": 64, "heads": 4, "vocabulary": 99, "sequence": 16, "embeddings": True},
            "OPTConfig",
            "OPTForCausalLM",
        ),
        (
            {
                "architecture": "encoder",
                "hidden_size": 64,
                "heads": 4,
                "vocabulary": 99,
                "sequence": 16,
                "embeddings": True,
            },
            "BertConfig",
            "BertForMaskedLM",
        ),
    ],
)
def test_transformers_has_modules_of_the_names(
    transformer: dict[str, Any], config: str, model: str
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    request = {"transformer": {**transformer, "layers": 2, "batch": 8}, "devices": 4}
    sharded = sharding(request=request)
    with torch.device("meta"):
        built = getattr(transformers, model)(getattr(transformers, config)())
    names = {
        ".".join("*" if part.isdigit() else part for part in name.split("."))
        for name, _ in built.named_modules()
    }
    entries = json.loads(export(sharded, "dtensor-json")[1])["modules"]
    assert {entry["path"] for entry in entries} <= names
