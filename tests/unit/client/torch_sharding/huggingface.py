"""Small models of Hugging Face transformers, and processes that run them split by a plan."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch import nn

from client.torch_sharding import apply_plan, device_mesh
from tests.unit.client.torch_sharding.toy import whole

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128}
ENDS = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1}
CONFIGURATIONS: Mapping[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(
        **SMALL, num_key_value_heads=2, intermediate_size=128
    ),
    "bert": lambda: transformers.BertConfig(**SMALL, intermediate_size=128),
    "gpt2": lambda: transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=128, **ENDS),
    "mixtral": lambda: transformers.MixtralConfig(
        **SMALL, num_key_value_heads=2, intermediate_size=128, num_local_experts=4
    ),
    "phi3": lambda: transformers.Phi3Config(
        **SMALL, num_key_value_heads=4, intermediate_size=128, **ENDS
    ),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SMALL, intermediate_size=256, **ENDS),
    "opt": lambda: transformers.OPTConfig(
        **SMALL, ffn_dim=128, word_embed_proj_dim=64, pad_token_id=0, bos_token_id=0, eos_token_id=1
    ),
}
BATCH, SEQUENCE = 4, 12
Plans = dict[str, tuple[str, str]]


def auto_class(name: str) -> Any:
    """What makes the model with its output layer."""
    if name == "bert":
        return transformers.AutoModelForMaskedLM
    return transformers.AutoModelForCausalLM


def make(name: str) -> nn.Module:
    """The same model in every process, in float64 but for the experts' grouped products."""
    torch.manual_seed(0)
    model = auto_class(name).from_config(CONFIGURATIONS[name]()).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    return model if name == "mixtral" else model.double()


def results(model: nn.Module) -> dict[str, torch.Tensor]:
    """Logits, loss and all gradients."""
    tokens = torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE)
    mask = torch.ones(BATCH, SEQUENCE, dtype=torch.int64)
    mask[1, :3] = 0
    output = model(tokens, attention_mask=mask, labels=tokens, use_cache=False)
    output.loss.backward()
    gradients = {
        name: whole(parameter.grad)
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return {"logits": whole(output.logits), "loss": whole(output.loss), **gradients}


def step(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights after a step with clipped gradients."""
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    torch.optim.SGD(model.parameters(), lr=1.0, foreach=True).step()
    return {name: whole(own) for name, own in model.named_parameters()}


def _set_ranks(rank: int, processes: int) -> None:
    """As `torchrun` does, which transformers goes by."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
    }


def join(rank: int, processes: int, folder: str) -> None:
    """Take part in the group of all processes."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    _set_ranks(rank, processes)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=processes,
        timeout=timedelta(seconds=120),
    )


def split_weights(model: nn.Module) -> list[str]:
    """Names of the weights of which a process has a part."""
    return [
        name
        for name, parameter in model.named_parameters()
        if not all(own.is_replicate() for own in getattr(parameter, "placements", ()))
    ]


def largest_difference(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """Of any element of what the two have."""
    assert found.keys() == wanted.keys()
    return max(float((found[key] - wanted[key]).abs().max()) for key in wanted)


def run_dtensor(rank: int, processes: int, folder: str, plans: Plans) -> None:
    """One process: each model split by `apply_plan`."""
    join(rank, processes, folder)
    found = {}
    for title, (name, text) in plans.items():
        plan = json.loads(text)
        model = apply_plan(make(name), plan, device_mesh(plan, "cpu"))
        split, whole_model = len(split_weights(model)), make(name)
        difference = max(
            largest_difference(results(model), results(whole_model)),
            largest_difference(step(model), step(whole_model)),
        )
        found[title] = {"difference": difference, "split": split}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def run_documented(rank: int, processes: int, folder: str, block: str, port: int) -> None:
    """One process: the program of the documentation on the folder's model and plan."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    os.chdir(folder)
    _set_ranks(rank, processes)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    tokens = torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE)
    values: dict[str, Any] = {"tokens": tokens}
    exec(block, values)
    model = values["model"]
    split = split_weights(model)
    logits = whole(values["output"].logits)
    reference = transformers.AutoModelForCausalLM.from_pretrained(".")
    difference = float((logits - reference(tokens, use_cache=False).logits).abs().max())
    Path(folder, f"{rank}.json").write_text(json.dumps({"split": split, "difference": difference}))
    dist.destroy_process_group()


def run_tp_plan(rank: int, processes: int, folder: str, plans: Plans) -> None:
    """One process: each model as transformers loads it by a `tp_plan`."""
    join(rank, processes, folder)
    found = {}
    for title, (name, text) in plans.items():
        place = str(Path(folder, name))
        whole_model = make(name).float()
        if rank == 0:
            whole_model.save_pretrained(place)
        dist.barrier()
        model = auto_class(name).from_pretrained(place, tp_plan=json.loads(text)["tp_plan"]).eval()
        split = len(split_weights(model))
        difference = largest_difference(results(model), results(whole_model))
        found[title] = {"difference": difference, "split": split}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()
